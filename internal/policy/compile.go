package policy

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// A trail is what is known of the entries that lead to a node.
type trail struct {
	uses   []use
	metric []bool
}

// step returns the trail with one more entry.
func (t trail) step(e edge, d *draft) trail {
	return trail{append(slices.Clip(t.uses), e.use(d.share)), append(slices.Clip(t.metric), d.metric)}
}

// compile turns a merged tree into one for matching.
func compile(d *draft, t trail) *node {
	n := &node{rule: d.rule, source: d.source}
	if d.rule != nil {
		d.rule.follow(t, d.metrics)
	}
	if len(d.children) == 0 {
		return n
	}
	drafts := map[string]*branchDraft{}
	for e, child := range d.children {
		b := drafts[e.key]
		if b == nil {
			b = &branchDraft{}
			drafts[e.key] = b
		}
		b.add(e, child, compile(child, t.step(e, child)))
	}
	n.branches = make(map[string]*branch, len(drafts))
	for key, b := range drafts {
		n.branches[key] = b.finish()
	}
	return n
}

// A branchDraft is a branch whose patterns and expressions have no order yet.
type branchDraft struct {
	branch

	patterns []*patternNode
	regexps  []*regexpNode
}

// follow notes what is not as usual in the entries that lead to the rule.
func (r *Rule) follow(t trail, allMetrics bool) {
	if slices.ContainsFunc(t.uses, func(u use) bool { return u != use{} }) {
		r.entries = t.uses
	}
	switch {
	case allMetrics:
		r.metric = slices.Repeat([]bool{true}, len(t.metric))
	case slices.Contains(t.metric, true):
		r.metric = t.metric
	}
}

func (b *branchDraft) add(e edge, d *draft, n *node) {
	switch {
	case e.by == byNetwork:
		b.networks.add(netip.MustParsePrefix(e.text), n)
	case e.by == byRegexp:
		prefix, _ := regexp.MustCompile(e.text).LiteralPrefix() // anchored, it would tell none
		b.regexps = append(b.regexps, &regexpNode{d.regexp, e.text, prefix, n})
	case e.text == "":
		b.any = n
	case strings.Contains(e.text, wildcard):
		b.patterns = append(b.patterns, &patternNode{newPattern(e.text), n})
	default:
		if b.exact == nil {
			b.exact = map[string]*node{}
		}
		b.exact[e.text] = n
	}
}

func (n *networks) add(network netip.Prefix, to *node) {
	if n.nodes == nil {
		n.nodes = map[netip.Prefix]*node{}
	}
	n.nodes[network] = to
	if !slices.Contains(n.lengths, network.Bits()) {
		n.lengths = append(n.lengths, network.Bits())
	}
}

func (b *branchDraft) finish() *branch {
	slices.SortFunc(b.networks.lengths, func(l, m int) int { return cmp.Compare(m, l) })
	slices.SortFunc(b.patterns, func(p, q *patternNode) int { return compareSpecific(&p.pattern, &q.pattern) })
	slices.SortFunc(b.regexps, func(r, s *regexpNode) int {
		return cmp.Or(cmp.Compare(len(s.text), len(r.text)), cmp.Compare(r.text, s.text))
	})
	b.branch.patterns, b.branch.regexps = newIndex(b.patterns), newIndex(b.regexps)
	return &b.branch
}
