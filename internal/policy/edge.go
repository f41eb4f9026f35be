package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"strings"
)

// An edge leads from a node of the rule tree to the next: a key, and how its
// value is matched.
type edge struct {
	key  string
	by   matcher
	text string // what to match: a value, a pattern, a network or an expression
}

type matcher uint8

const (
	byValue matcher = iota // the text; with a * it is a pattern, and if empty any value
	byNetwork
	byRegexp
)

// matchers are what paths and keys call those that are no values.
var matchers = []string{byNetwork: "cidr:", byRegexp: "regex:"}

func (n *Node) edge() edge {
	switch {
	case n.Network.IsValid():
		return edge{n.Key, byNetwork, n.Network.String()}
	case n.Regexp != nil:
		return edge{n.Key, byRegexp, inner(n.Regexp)}
	default:
		return edge{n.Key, byValue, n.Value}
	}
}

// ParseCIDR returns a network of IPv4 or IPv6 addresses. One of IPv4 addresses
// mapped into IPv6 is that of the addresses themselves.
func ParseCIDR(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%.64q is not a network such as 10.0.0.0/8 or 2001:db8::/32", text)
	}
	if addr := p.Addr(); addr.Is4In6() {
		if p.Bits() < 96 {
			return p, fmt.Errorf("%s holds more than the IPv4 addresses: write their network, such as 0.0.0.0/0", text)
		}
		p = netip.PrefixFrom(addr.Unmap(), p.Bits()-96)
	}
	if masked := p.Masked(); masked != p {
		return p, fmt.Errorf("%s has bits set beyond its length: did you mean %s?", text, masked)
	}
	return p, nil
}

// address returns the address that a value names, the same for every way to
// write it.
func address(value string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(value)
	return addr.Unmap().WithZone(""), err == nil
}

// maxRegexp is the longest regular expression, in bytes.
const maxRegexp = 1024

const anchored, end = `\A(?:`, `)\z`

// ParseRegexp returns a regular expression (RE2 syntax) that covers values as a
// whole.
func ParseRegexp(text string) (*regexp.Regexp, error) {
	if len(text) > maxRegexp {
		return nil, fmt.Errorf("the expression has %d bytes, the most is %d", len(text), maxRegexp)
	}
	// Without what is put around it, so that a ) cannot end that.
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		if wrong, ok := errors.AsType[*syntax.Error](err); ok {
			return nil, fmt.Errorf("%s: %.64q", wrong.Code, wrong.Expr)
		}
		return nil, err
	}
	r, err := regexp.Compile(anchored + text + end)
	if err != nil { // of its own it is right, such as \Qa, which quotes to its end
		return regexp.Compile(anchored + parsed.String() + end)
	}
	return r, nil
}

// inner is what ParseRegexp was given.
func inner(r *regexp.Regexp) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.String(), anchored), end)
}

// A use is what the key of a bucket holds of an entry.
type use struct {
	shared  string // this, the same for all values that the rule covers, instead of the value
	address bool   // the address that the value is, the same for every way to write it
}

// use says what keys hold of an entry that came by the edge.
func (e edge) use(share bool) use {
	switch {
	case share && e.by == byValue:
		return use{shared: e.text}
	case share:
		return use{shared: matchers[e.by] + e.text}
	default:
		return use{address: e.by == byNetwork}
	}
}
