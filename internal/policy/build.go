package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
)

// A Document is what one place of a configuration says about a domain.
type Document struct {
	Domain string
	Nodes  []Node
	Source Source
}

// A Node is an entry of a rule tree as a configuration states it, and what
// follows on it. An empty Value stands for any; a * in it for any run of bytes.
// A node without limits and children, and not unlimited, is exempt: it takes
// descriptors out of the rule for any value.
type Node struct {
	Entry

	Network netip.Prefix   // instead of a value, if valid: all of its addresses; see ParseCIDR
	Regexp  *regexp.Regexp // instead of a value, unless nil: what it covers; see ParseRegexp

	Limits    []Limit // valid; Domain and Named are filled in, and Name where it is empty
	Unlimited bool    // excludes Limits
	QuotaMode bool
	Replaces  []Reference    // limits of the domain that do not count beside this rule
	Metadata  map[string]any // as that of a Rule

	Share          bool // all values that the node covers share their buckets
	ValueToMetric  bool // this entry's value goes into metrics
	DetailedMetric bool // all entries' values do

	Children []Node
	Source   Source
	Path     string // where in the document, for faults
}

// A Reference is a name of a limit and where it was mentioned.
type Reference struct {
	Name   string
	Source Source
	Path   string
}

// Build merges documents into a snapshot. Nodes with the same entry on the same
// path become one over all documents of a domain. An error is [Faults] and holds
// everything that keeps the documents from fitting together: an entry twice in
// one list, two nodes that both have something to say of the same descriptors, a
// name given twice in a domain, two limits of a node with the same algorithm and
// window. The order of the documents does not matter.
func Build(docs []Document) (*Snapshot, error) {
	domains := map[string][]Document{}
	for _, doc := range docs {
		domains[doc.Domain] = append(domains[doc.Domain], doc)
	}
	var policies []*Policy
	var faults Faults
	for domain, docs := range domains {
		p, wrong := BuildDomain(domain, docs)
		policies, faults = append(policies, p), append(faults, wrong...)
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return NewSnapshot(policies), nil
}

// BuildDomain merges the documents of one domain, as [Build] does, and returns
// either its policy or what is wrong with it. No domain depends on another.
func BuildDomain(domain string, docs []Document) (*Policy, Faults) {
	docs = slices.Clone(docs)
	slices.SortStableFunc(docs, func(d, e Document) int { return d.Source.Compare(e.Source) })

	b := builder{domain: domain, names: map[string]Source{}}
	for _, doc := range docs {
		b.merge(&b.root, "", doc.Nodes)
	}
	b.resolve()
	if len(b.faults) > 0 {
		return nil, b.faults
	}
	return newPolicy(&b), nil
}

// A builder merges the documents of one domain.
type builder struct {
	domain string
	root   draft
	rules  []*Rule
	names  map[string]Source
	refers []Reference
	faults Faults
}

// A draft is a node of a tree that is still being merged.
type draft struct {
	rule     *Rule
	share    bool
	metric   bool // of this entry's value
	metrics  bool // of all entries' values
	regexp   *regexp.Regexp
	children map[edge]*draft
	source   Source // the first of those that state it
}

func (d *draft) child(e edge) *draft {
	child := d.children[e]
	if child == nil {
		if d.children == nil {
			d.children = map[edge]*draft{}
		}
		child = &draft{}
		d.children[e] = child
	}
	return child
}

// merge adds one list of nodes to what is known under their parent.
func (b *builder) merge(parent *draft, path string, nodes []Node) {
	seen := make(map[edge]Source, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		e := n.edge()
		child, path := parent.child(e), appendStep(path, e)
		child.share, child.regexp = child.share || n.Share, n.Regexp
		child.metric, child.metrics = child.metric || n.ValueToMetric, child.metrics || n.DetailedMetric
		child.source = cmp.Or(child.source, n.Source)
		first, again := seen[e]
		switch {
		case again:
			b.fault(n, n.Source, "duplicate of the descriptor at %s, with the same key and value: merge the two", first)
		case !n.decides():
		case child.rule != nil:
			b.fault(n, n.Source, "conflicts with the descriptor at %s, which has the same key and value: "+
				"keep the limit of one of them", child.rule.Source)
		default:
			child.rule = b.rule(n, path)
		}
		if !again {
			seen[e] = n.Source
		}
		b.merge(child, path, n.Children)
	}
}

// decides reports whether the node says something of descriptors that end at
// it, be it that they are exempt.
func (n *Node) decides() bool {
	return len(n.Limits) > 0 || n.Unlimited || len(n.Children) == 0
}

func (b *builder) rule(n *Node, path string) *Rule {
	r := &Rule{Domain: b.domain, Path: path, Unlimited: n.Unlimited, QuotaMode: n.QuotaMode, Metadata: n.Metadata, Source: n.Source}
	b.refers = append(b.refers, n.Replaces...)
	for _, other := range n.Replaces {
		r.Replaces = append(r.Replaces, other.Name)
	}
	ids := make(map[uint64]Source, len(n.Limits))
	for i, l := range n.Limits {
		l.Domain = b.domain
		l.Named = l.Name != ""
		if !l.Named {
			l.Name = defaultName(path, i)
		}
		if first, taken := ids[l.ID()]; taken {
			b.fault(n, l.Source, "same algorithm and window as the limit at %s: keep the stricter of the two", first)
		}
		if first, taken := b.names[l.Name]; taken {
			b.fault(n, l.Source, "the limit at %s is called %q too: names must be unique in a domain", first, l.Name)
		}
		ids[l.ID()], b.names[l.Name] = l.Source, l.Source
		r.Limits = append(r.Limits, &l)
	}
	b.rules = append(b.rules, r)
	return r
}

// resolve looks for the limits that others mention.
func (b *builder) resolve() {
	for _, r := range b.refers {
		if _, known := b.names[r.Name]; !known {
			b.faults = append(b.faults, Fault{Source: r.Source, Path: r.Path, Message: fmt.Sprintf(
				"no limit of this domain is called %.128q", r.Name)})
		}
	}
}

func (b *builder) fault(n *Node, at Source, format string, args ...any) {
	b.faults = append(b.faults, Fault{Source: at, Path: n.Path, Message: fmt.Sprintf(format, args...)})
}
