package policy

import (
	"slices"
	"strings"
)

// A Policy is all rules of one domain, compiled. It is immutable and safe for
// concurrent use.
type Policy struct {
	domain string
	root   *node
}

// A node is what follows on the entries that lead to it.
type node struct {
	rule     *Rule // what the configuration says of a descriptor that ends here, or nil
	branches map[string]*branch
}

// A branch is what follows on a node and an entry's key, by the entry's value.
type branch struct {
	exact    map[string]*node
	patterns []patternNode // the most specific first
	any      *node         // whatever the value, or nil
}

type patternNode struct {
	pattern
	node *node
}

// Domain returns the name of the policy's domain.
func (p *Policy) Domain() string { return p.domain }

// Match returns the rule for a descriptor, or nil if no rule applies.
//
// Entry by entry it goes down the tree to the node with that key and exactly
// that value; else to the most specific pattern that covers the value; else to
// the node for any value of the key. It never goes back to try another. The
// node of the last entry decides: what stands above or below it says nothing of
// this descriptor.
//
// Match does not allocate. Its time grows with the number of entries and, where
// no exact value is found, with the number of patterns of that key.
func (p *Policy) Match(d Descriptor) *Rule {
	n := p.root
	for i := range d {
		b := n.branches[d[i].Key]
		if b == nil {
			return nil
		}
		if n = b.find(d[i].Value); n == nil {
			return nil
		}
	}
	return n.rule
}

func (b *branch) find(value string) *node {
	if n := b.exact[value]; n != nil {
		return n
	}
	for i := range b.patterns {
		if p := &b.patterns[i]; p.match(value) {
			return p.node
		}
	}
	return b.any
}

// compile turns a merged tree into one for matching.
func compile(d *draft) *node {
	n := &node{rule: d.rule}
	if len(d.children) == 0 {
		return n
	}
	n.branches = map[string]*branch{}
	for entry, child := range d.children {
		b := n.branches[entry.Key]
		if b == nil {
			b = &branch{}
			n.branches[entry.Key] = b
		}
		b.add(entry.Value, compile(child))
	}
	for _, b := range n.branches {
		slices.SortFunc(b.patterns, func(p, q patternNode) int { return compareSpecific(&p.pattern, &q.pattern) })
	}
	return n
}

func (b *branch) add(value string, n *node) {
	switch {
	case value == "":
		b.any = n
	case strings.Contains(value, wildcard):
		b.patterns = append(b.patterns, patternNode{newPattern(value), n})
	default:
		if b.exact == nil {
			b.exact = map[string]*node{}
		}
		b.exact[value] = n
	}
}
