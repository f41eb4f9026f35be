package policy_test

import (
	"fmt"
	"testing"

	"github.com/rlsd/rlsd/internal/policy"
)

func TestParseCIDR(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.0/8":             "10.0.0.0/8",
		"2001:DB8::/32":          "2001:db8::/32",
		"::ffff:10.0.0.0/104":    "10.0.0.0/8",
		"::ffff:0:0/96":          "0.0.0.0/0",
		"192.0.2.1/32":           "192.0.2.1/32",
		"10.0.0.1/8":             "10.0.0.1/8 has bits set beyond its length: did you mean 10.0.0.0/8?",
		"10.0.0.0":               `"10.0.0.0" is not a network such as 10.0.0.0/8 or 2001:db8::/32`,
		"10.0.0.0/33":            `"10.0.0.0/33" is not a network such as 10.0.0.0/8 or 2001:db8::/32`,
		"fe80::1%eth0/64":        `"fe80::1%eth0/64" is not a network such as 10.0.0.0/8 or 2001:db8::/32`,
		"::ffff:10.0.0.0/64":     "::ffff:10.0.0.0/64 holds more than the IPv4 addresses: write their network, such as 0.0.0.0/0",
		"10.0.0.0/8 or whatever": `"10.0.0.0/8 or whatever" is not a network such as 10.0.0.0/8 or 2001:db8::/32`,
	} {
		network, err := policy.ParseCIDR(text)
		got := network.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestRuleKey holds what of an entry makes a bucket of its own.
func TestRuleKey(t *testing.T) {
	t.Parallel()
	shared := func(n policy.Node) policy.Node {
		n.Share = true
		return n
	}
	node := func(text, name string, children ...policy.Node) policy.Node {
		n := parseNode(t, text)
		n.Limits, n.Children = limited("", "", name).Limits, children
		return n
	}
	p := build(t, []policy.Node{
		shared(node("path=/api/*", "api", node("user", "user"), shared(node("user=vip*", "vip")))),
		node("path=/own/*", "own"),
		node("ip~cidr:10.0.0.0/8", "ten"),
		shared(node("ip~cidr:11.0.0.0/8", "eleven")),
		shared(node("ip~regex:[a-z]+", "letters")),
	})
	for _, test := range []struct{ asked, want string }{
		{"path=/api/a", "test/path~%2Fapi%2F*"},
		{"path=/api/b", "test/path~%2Fapi%2F*"},
		{"path=/api/a user=bob", "test/path~%2Fapi%2F*/user=bob"},
		{"path=/api/a user=vip1", "test/path~%2Fapi%2F*/user~vip*"},
		{"path=/own/a", "test/path=%2Fown%2Fa"},
		{"ip=10.0.0.1", "test/ip=10.0.0.1"},
		{"ip=::ffff:10.0.0.1", "test/ip=10.0.0.1"},
		{"ip=::ffff:a00:1", "test/ip=10.0.0.1"},
		{"ip=11.2.3.4", "test/ip~cidr:11.0.0.0%2F8"},
		{"ip=abc", "test/ip~regex:[a-z]+"},
	} {
		d := parseDescriptor(t, test.asked)
		if got := p.Match(d).Key("test", d); got != test.want {
			t.Errorf("%s: got %s, want %s", test.asked, got, test.want)
		}
	}
}

// BenchmarkMatchSiblings looks for one of a thousand that nothing exact covers.
func BenchmarkMatchSiblings(b *testing.B) {
	for _, kind := range []struct{ name, node, value string }{
		{"exact", "v=%d", "999"},
		{"cidr", "v~cidr:10.%d.0.0/16", "10.99.1.1"},
		{"wildcard", "v=/api/%d/*", "/api/999/users"},
		{"regex", "v~regex:/api/%d/[a-z]+", "/api/999/users"},
	} {
		b.Run(kind.name, func(b *testing.B) {
			var nodes []policy.Node
			for i := range 1000 {
				if kind.name == "cidr" && i > 255 {
					break
				}
				n := parseNode(b, fmt.Sprintf(kind.node, i))
				n.Limits = limited("", "", fmt.Sprint(kind.name, i)).Limits
				nodes = append(nodes, n)
			}
			p, d := build(b, nodes), policy.Descriptor{{Key: "v", Value: kind.value}}
			b.ReportAllocs()
			for b.Loop() {
				if p.Match(d) == nil {
					b.Fatal("no rule")
				}
			}
		})
	}
}
