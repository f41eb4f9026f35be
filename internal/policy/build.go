package policy

import (
	"fmt"
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

	Limits    []Limit // valid; Domain and Named are filled in, and Name where it is empty
	Unlimited bool    // excludes Limits
	Children  []Node
	Source    Source
	Path      string // where in the document, for faults
}

// Build merges documents into a snapshot. Nodes with the same entry on the same
// path become one over all documents of a domain. An error is [Faults] and holds
// everything that keeps the documents from fitting together: an entry twice in
// one list, two nodes that both have something to say of the same descriptors, a
// name given twice in a domain, two limits of a node with the same algorithm and
// window. The order of the documents does not matter.
func Build(docs []Document) (*Snapshot, error) {
	docs = slices.Clone(docs)
	slices.SortStableFunc(docs, func(d, e Document) int { return d.Source.Compare(e.Source) })

	domains := map[string]*builder{}
	for _, doc := range docs {
		b := domains[doc.Domain]
		if b == nil {
			b = &builder{domain: doc.Domain, names: map[string]Source{}}
			domains[doc.Domain] = b
		}
		b.merge(&b.root, "", doc.Nodes)
	}

	var faults Faults
	for _, b := range domains {
		faults = append(faults, b.faults...)
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return newSnapshot(domains), nil
}

// A builder merges the documents of one domain.
type builder struct {
	domain string
	root   draft
	rules  []*Rule
	names  map[string]Source
	faults Faults
}

// A draft is a node of a tree that is still being merged.
type draft struct {
	rule     *Rule
	children map[Entry]*draft
}

func (d *draft) child(e Entry) *draft {
	child := d.children[e]
	if child == nil {
		if d.children == nil {
			d.children = map[Entry]*draft{}
		}
		child = &draft{}
		d.children[e] = child
	}
	return child
}

// merge adds one list of nodes to what is known under their parent.
func (b *builder) merge(parent *draft, path string, nodes []Node) {
	seen := make(map[Entry]Source, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		child, path := parent.child(n.Entry), appendStep(path, n.Entry)
		first, again := seen[n.Entry]
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
			seen[n.Entry] = n.Source
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
	r := &Rule{Path: path, Unlimited: n.Unlimited, Source: n.Source}
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

func (b *builder) fault(n *Node, at Source, format string, args ...any) {
	b.faults = append(b.faults, Fault{Source: at, Path: n.Path, Message: fmt.Sprintf(format, args...)})
}
