package file

import (
	"strings"

	"github.com/rlsd/rlsd/internal/policy"
)

const (
	// maxDomain is the longest name of a domain, in bytes.
	maxDomain = 255
	// maxDepth is how deep descriptors nest. No request has more entries.
	maxDepth = 64
	// maxNodes is the most descriptors that aliases can make of a file.
	maxNodes = 1_000_000
)

// A decoder turns the values of one file into rules. What it cannot turn it
// reports and leaves out.
type decoder struct {
	*report

	nodes int // descriptors so far
}

// document reports false if there is no telling what the document says.
func (d *decoder) document(v *value) (policy.Document, bool) {
	if !d.check(v, &rootSection) {
		return policy.Document{}, false
	}
	domain, ok := d.domain(d.required(v, "domain"))
	doc := policy.Document{
		Domain: domain,
		Nodes:  d.descriptors(v.get("descriptors"), 1),
		Source: d.source(v.at),
	}
	return doc, ok && d.nodes <= maxNodes
}

func (d *decoder) domain(v *value) (string, bool) {
	domain, ok := d.text(v)
	switch {
	case !ok:
	case domain == "":
		d.fault(v, "the domain is empty")
	case len(domain) > maxDomain:
		d.fault(v, "the domain has %d bytes, the most is %d", len(domain), maxDomain)
	default:
		return domain, true
	}
	return "", false
}

func (d *decoder) descriptors(v *value, depth int) []policy.Node {
	if v == nil || v.kind == null || v.kind == broken {
		return nil
	}
	if v.kind != list {
		d.fault(v, "want a list of descriptors, got %s", v)
		return nil
	}
	if depth > maxDepth {
		d.fault(v, "descriptors nest deeper than %d levels, which is the most entries of a request", maxDepth)
		return nil
	}
	var nodes []policy.Node
	for _, item := range v.items {
		if d.nodes > maxNodes {
			break
		}
		if d.nodes++; d.nodes > maxNodes {
			d.fault(item, "aliases make more than %d descriptors of this file", maxNodes)
			break
		}
		if n, ok := d.descriptor(item, depth); ok {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// descriptor reports false if the node has no entry by which to place it.
func (d *decoder) descriptor(v *value, depth int) (policy.Node, bool) {
	if !d.check(v, &descriptorSection) {
		return policy.Node{}, false
	}
	key, ok := d.key(d.required(v, "key"))
	n := policy.Node{
		Entry:    policy.Entry{Key: key, Value: d.anyText(v.get("value"))},
		Children: d.descriptors(v.get("descriptors"), depth+1),
		Source:   d.source(v.at),
		Path:     v.path,
	}
	n.Limits, n.Unlimited = d.limits(v)
	return n, ok
}

func (d *decoder) key(v *value) (string, bool) {
	key, ok := d.text(v)
	switch {
	case !ok:
	case key == "":
		d.fault(v, "the key is empty")
	case strings.Contains(key, "*"):
		d.fault(v, "a * in a key has no meaning: wildcards belong in value")
	default:
		return key, true
	}
	return "", false
}
