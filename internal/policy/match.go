package policy

import (
	"net/netip"
	"regexp"
)

// A Policy is all rules of one domain, compiled. It is immutable and safe for
// concurrent use.
type Policy struct {
	domain string
	root   *node
	rules  []*Rule // by path
	hash   string
}

// A node is what follows on the entries that lead to it.
type node struct {
	rule     *Rule // what the configuration says of a descriptor that ends here, or nil
	branches map[string]*branch
	source   Source // where the configuration first states it, for Explain
}

// A branch is what follows on a node and an entry's key, by the entry's value.
type branch struct {
	exact    map[string]*node
	networks networks
	patterns index[*patternNode] // the most specific first
	regexps  index[*regexpNode]  // the longest first
	any      *node               // whatever the value, or nil
}

type patternNode struct {
	pattern
	node *node
}

func (p *patternNode) literalPrefix() string { return p.prefix }
func (p *patternNode) leadsTo() *node        { return p.node }

type regexpNode struct {
	expression *regexp.Regexp
	text       string
	prefix     string // of all that it covers
	node       *node
}

func (r *regexpNode) literalPrefix() string    { return r.prefix }
func (r *regexpNode) covers(value string) bool { return r.expression.MatchString(value) }
func (r *regexpNode) leadsTo() *node           { return r.node }

// networks finds the smallest one with an address.
type networks struct {
	lengths []int // that there are, the longest first
	nodes   map[netip.Prefix]*node
}

// Domain returns the name of the policy's domain.
func (p *Policy) Domain() string { return p.domain }

// Match returns the rule for a descriptor, or nil if no rule applies.
//
// Entry by entry it goes down the tree to the node with that key and exactly
// that value; else to the smallest network with that address; else to the most
// specific pattern that covers the value; else to the first regular expression
// that does, the longest first and then by their texts; else to the node for any
// value of the key. It never goes back to try another. The node of the last
// entry decides: what stands above or below it says nothing of this descriptor.
//
// Match does not allocate but for what is no address where networks are. Its
// time grows with the number of entries and, where no exact value is found, with
// the number of those patterns and expressions of that key that begin as the
// value does, or with anything.
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
	if n := b.networks.find(value); n != nil {
		return n
	}
	if n := b.patterns.find(value); n != nil {
		return n
	}
	if n := b.regexps.find(value); n != nil {
		return n
	}
	return b.any
}

func (n *networks) find(value string) *node {
	if len(n.lengths) == 0 {
		return nil
	}
	addr, ok := address(value)
	if !ok {
		return nil
	}
	for _, length := range n.lengths {
		if length > addr.BitLen() {
			continue
		}
		network, _ := addr.Prefix(length) // the length is one of the address
		if found := n.nodes[network]; found != nil {
			return found
		}
	}
	return nil
}
