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

	nodes     int // descriptors so far
	documents int
}

// document reports false if there is no telling of what domain the document is.
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
	if d.nodes > maxNodes {
		doc.Nodes = nil
	}
	return doc, ok
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
		Entry:    policy.Entry{Key: key},
		Children: d.descriptors(v.get("descriptors"), depth+1),
		Source:   d.source(v.at),
		Path:     v.path,
	}
	d.values(v, &n)
	d.limits(v, &n)
	return n, ok
}

// values reads which values the node covers, and what becomes of them.
func (d *decoder) values(v *value, n *policy.Node) {
	text, cidr, expression := v.get("value"), v.get("cidr"), v.get("regex")
	n.Value = d.anyText(text)
	if network, ok := d.text(cidr); ok {
		var err error
		if n.Network, err = policy.ParseCIDR(network); err != nil {
			d.fault(cidr, "%v", err)
			n.Value = network // keeps the node apart from that for any value
		}
	}
	if re2, ok := d.text(expression); ok {
		var err error
		if n.Regexp, err = policy.ParseRegexp(re2); err != nil {
			d.fault(expression, "%v", err)
			n.Value = re2
		}
	}
	switch {
	case text != nil && cidr != nil, text != nil && expression != nil:
		d.fault(text, "value beside cidr or regex: keep one of them")
	case cidr != nil && expression != nil:
		d.fault(cidr, "cidr beside regex: keep one of them")
	}
	share := v.get("share_threshold")
	if n.Share = d.flag(share, false); n.Share && cidr == nil && expression == nil && !strings.Contains(n.Value, "*") {
		d.fault(share, "share_threshold means nothing but where one rule covers many values: with a * in value, with cidr or with regex")
	}
	n.ValueToMetric = d.flag(v.get("value_to_metric"), false)
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
