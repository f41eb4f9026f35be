package policy

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// Bounds of what is explained, however many rules there are.
const (
	maxListed = 5     // names or siblings
	maxLooked = 1_000 // of which the listed are chosen
	maxTried  = 50    // patterns, and expressions, at one level
)

// An Explanation says how Match came to its rule, or to none.
type Explanation struct {
	Rule   *Rule // as Match returns it
	Why    Why
	Levels []Level // one for each entry up to the one that led nowhere
	Keys   Names   // which there are where the way ends: for UnknownKey and TooShallow
}

// A Why is how a way through the tree ends.
type Why uint8

// The ways' ends. Only Matched has a rule.
const (
	Matched      Why = iota
	NoEntries        // the descriptor is empty
	UnknownKey       // no rule at that level has the key of the entry
	UnknownValue     // rules have the key, none covers the value
	TooDeep          // the rules end before the descriptor
	TooShallow       // the descriptor ends before the rules
)

// A Level is what became of one entry.
type Level struct {
	Entry  Entry
	Found  Sibling   // what the way went on by; its By is None if it did not
	Passed []Sibling // those that cover the value too, then the nearest of those that do not
	More   int       // that were passed over
}

// A Sibling is one of the nodes for an entry's key.
type Sibling struct {
	By      By
	Text    string // the value, network, pattern or expression
	Source  Source
	Covers  bool
	Instead *Rule // of one that covers the value but was passed over: where it would have led

	node *node
}

// A By is how a node covers values. The smaller goes first.
type By uint8

// The ways to cover values.
const (
	None By = iota
	Exact
	Network
	Wildcard
	Expression
	AnyValue
)

var bys = []string{None: "none", Exact: "exact", Network: "network", Wildcard: "wildcard", Expression: "expression", AnyValue: "any value"}

// String returns such as wildcard.
func (b By) String() string { return bys[b] }

// Names are some of many.
type Names struct {
	Near []string // to what was asked for, the nearest first
	More int
}

// Explain says how Match comes to its answer. What it costs is bounded, if not
// by the descriptor.
func (p *Policy) Explain(d Descriptor) Explanation {
	x := Explanation{Why: NoEntries}
	n := p.root
	for i, entry := range d {
		b := n.branches[entry.Key]
		if b == nil {
			x.Levels = append(x.Levels, Level{Entry: entry})
			x.Why, x.Keys = UnknownKey, n.keys(entry.Key)
			if len(n.branches) == 0 && i > 0 {
				x.Why = TooDeep
			}
			return x
		}
		level := b.explain(d[i:])
		x.Levels = append(x.Levels, level)
		if n = level.Found.node; n == nil {
			x.Why = UnknownValue
			return x
		}
		x.Why = TooShallow
	}
	if x.Rule = n.rule; x.Rule != nil {
		x.Why = Matched
	} else {
		x.Keys = n.keys("")
	}
	return x
}

// NearDomains returns the names of domains that are like the name.
func (s *Snapshot) NearDomains(name string) Names {
	return nearest(name, keysOf(s.policies), len(s.policies))
}

func (n *node) keys(like string) Names { return nearest(like, keysOf(n.branches), len(n.branches)) }

func keysOf[T any](m map[string]T) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

func nearest(like string, names iter.Seq[string], of int) Names {
	var near shortlist[string]
	for name := range names {
		if near.add(name, name, distance(like, name)); near.seen == maxLooked {
			break
		}
	}
	return Names{near.items(), of - len(near.ranked)}
}

// explain says what became of the first entry of rest.
func (b *branch) explain(rest Descriptor) Level {
	value := rest[0].Value
	level := Level{Entry: rest[0], Found: b.found(value)}
	var lost []Sibling
	var missed shortlist[Sibling]
	of := 0
	for s := range b.siblings(value, level.Found.By) {
		if s.node == level.Found.node {
			continue
		}
		switch {
		case !s.Covers && s.couldWin(level.Found.By):
			missed.add(s, s.Text, distance(value, s.Text))
		case !s.Covers:
			continue
		case len(lost) < maxListed:
			s.Instead = (&Policy{root: s.node}).Match(rest[1:])
			lost = append(lost, s)
		}
		of++
	}
	level.Passed = slices.Concat(lost, missed.items())
	level.Passed = level.Passed[:min(len(level.Passed), maxListed)]
	level.More = of + b.unseen(level.Found.By) - len(level.Passed)
	return level
}

// couldWin reports whether a node of the kind might have gone before the one that
// was found, had it covered the value.
func (s *Sibling) couldWin(found By) bool {
	return found == None || s.By <= found
}

// found is what find finds.
func (b *branch) found(value string) Sibling {
	n := b.find(value)
	s := Sibling{By: AnyValue, Covers: true, node: n}
	switch {
	case n == nil:
		return Sibling{}
	case n == b.exact[value]:
		s.By, s.Text = Exact, value
	case n == b.networks.find(value):
		s.By, s.Text = Network, b.networks.name(value)
	case n != b.any:
		s.By, s.Text = b.name(n)
	}
	s.Source = n.source
	return s
}

func (b *branch) name(n *node) (By, string) {
	for _, p := range b.patterns.all {
		if p.node == n {
			return Wildcard, p.text
		}
	}
	for _, r := range b.regexps.all {
		if r.node == n {
			return Expression, r.text
		}
	}
	return None, "" // not of this branch
}

// name returns the smallest network with the address.
func (n *networks) name(value string) string {
	addr, _ := address(value)
	for _, length := range n.lengths {
		if network, err := addr.Prefix(length); err == nil && n.nodes[network] != nil {
			return network.String()
		}
	}
	return ""
}

// siblings are the nodes of the branch, those that go first first; of very many
// a part, and none of the other exact values where one was found.
func (b *branch) siblings(value string, found By) iter.Seq[Sibling] {
	return func(yield func(Sibling) bool) {
		_ = (found == Exact || b.exactSiblings(value, yield)) && b.networkSiblings(value, yield) &&
			some(b.patterns.all, Wildcard, value, yield) && some(b.regexps.all, Expression, value, yield) &&
			(b.any == nil || yield(Sibling{By: AnyValue, Source: b.any.source, Covers: true, node: b.any}))
	}
}

// unseen is how many are not among the siblings.
func (b *branch) unseen(found By) int {
	exact := len(b.exact)
	if found == Exact {
		exact = 0
	}
	return max(0, exact-maxLooked) + max(0, len(b.networks.nodes)-maxLooked) +
		max(0, len(b.patterns.all)-maxTried) + max(0, len(b.regexps.all)-maxTried)
}

func (b *branch) exactSiblings(value string, yield func(Sibling) bool) bool {
	looked := 0
	for text, n := range b.exact {
		if looked++; looked > maxLooked {
			break
		}
		if !yield(Sibling{By: Exact, Text: text, Source: n.source, Covers: text == value, node: n}) {
			return false
		}
	}
	return true
}

func (b *branch) networkSiblings(value string, yield func(Sibling) bool) bool {
	addr, ok := address(value)
	var seen []netip.Prefix
	for network := range b.networks.nodes {
		if seen = append(seen, network); len(seen) == maxLooked {
			break
		}
	}
	slices.SortFunc(seen, func(p, q netip.Prefix) int {
		return cmp.Or(cmp.Compare(q.Bits(), p.Bits()), p.Addr().Compare(q.Addr()))
	})
	for _, network := range seen {
		n := b.networks.nodes[network]
		covers := ok && network.Contains(addr)
		if !yield(Sibling{By: Network, Text: network.String(), Source: n.source, Covers: covers, node: n}) {
			return false
		}
	}
	return true
}

func some[T interface {
	covering
	name() string
}](all []T, by By, value string, yield func(Sibling) bool) bool {
	for _, c := range all[:min(len(all), maxTried)] {
		if !yield(Sibling{By: by, Text: c.name(), Source: c.leadsTo().source, Covers: c.covers(value), node: c.leadsTo()}) {
			return false
		}
	}
	return true
}

func (p *patternNode) name() string { return p.text }
func (r *regexpNode) name() string  { return r.text }

// A shortlist keeps the nearest few of what is added to it.
type shortlist[T any] struct {
	seen   int
	ranked []ranked[T]
}

type ranked[T any] struct {
	item     T
	name     string
	distance int
}

func (s *shortlist[T]) add(item T, name string, distance int) {
	s.seen++
	r := ranked[T]{item, name, distance}
	at, _ := slices.BinarySearchFunc(s.ranked, r, func(r, t ranked[T]) int {
		return cmp.Or(cmp.Compare(r.distance, t.distance), strings.Compare(r.name, t.name))
	})
	if at == maxListed {
		return
	}
	s.ranked = slices.Insert(s.ranked, at, r)
	s.ranked = s.ranked[:min(len(s.ranked), maxListed)]
}

func (s *shortlist[T]) items() []T {
	var items []T
	for _, r := range s.ranked {
		items = append(items, r.item)
	}
	return items
}

// maxCompared is how much of two texts tells how near they are.
const maxCompared = 32

// distance is the least number of bytes to insert, drop or replace that makes
// one of the two the other.
func distance(a, b string) int {
	a, b = a[:min(len(a), maxCompared)], b[:min(len(b), maxCompared)]
	var row [maxCompared + 1]int
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = row[j+1]
			row[j+1] = min(replaced, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}
