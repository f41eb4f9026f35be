package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rlsd/rlsd/internal/policy"
)

// TestExplainFindsWhatMatchFinds asks random trees, networks and expressions
// among them, and holds that the way that is told leads where Match goes.
func TestExplainFindsWhatMatchFinds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	whys, bys := map[policy.Why]int{}, map[policy.By]int{}
	for range 300 {
		nodes := moreNodes(t, rng, randomNodes(rng, 3))
		p := build(t, nodes)
		for range 30 {
			d := randomDescriptor(rng)
			for i := range d {
				if rng.IntN(3) == 0 {
					d[i].Value = fmt.Sprintf("10.%d.0.1", rng.IntN(3))
				}
			}
			x := p.Explain(d)
			if x.Rule != p.Match(d) || (x.Rule != nil) != (x.Why == policy.Matched) {
				t.Fatalf("%v in\n%s\ngot %s as %d, want %s", d, outline(nodes, ""), answer(x.Rule), x.Why, answer(p.Match(d)))
			}
			whys[x.Why]++
			for _, level := range x.Levels {
				bys[level.Found.By]++
				if len(level.Passed) > 5 || level.More < 0 {
					t.Fatalf("%v in\n%s\npassed over %d and %d more", d, outline(nodes, ""), len(level.Passed), level.More)
				}
			}
		}
	}
	for why := policy.Matched; why <= policy.TooShallow; why++ {
		if whys[why] < 50 {
			t.Errorf("only %d ways ended as %d", whys[why], why)
		}
	}
	for by := policy.None; by <= policy.AnyValue; by++ {
		if bys[by] < 50 {
			t.Errorf("only %d entries went by %s", bys[by], by)
		}
	}
}

// moreNodes adds networks and expressions at every level.
func moreNodes(t *testing.T, rng *rand.Rand, nodes []policy.Node) []policy.Node {
	for i := range nodes {
		nodes[i].Children = moreNodes(t, rng, nodes[i].Children)
	}
	for _, text := range []string{
		"k~cidr:10.0.0.0/8", "k~cidr:10.1.0.0/16", "l~cidr:10.2.0.0/16", "k~regex:a+b?", "k~regex:[ab]+", "l~regex:b.*",
	} {
		if rng.IntN(2) == 0 {
			n := parseNode(t, text)
			n.Limits = limited("", "", strconv.FormatUint(rng.Uint64(), 36)).Limits
			nodes = append(nodes, n)
		}
	}
	rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes
}

func TestExplain(t *testing.T) {
	t.Parallel()
	node := func(text string, children ...policy.Node) policy.Node {
		n := parseNode(t, text)
		n.Children = children
		return n
	}
	p := build(t, []policy.Node{
		node("plan=premium", node("user"), node("tool")),
		node("plan=pre*", node("seat")),
		node("plan", node("seat")),
		node("ip~cidr:10.0.0.0/8"), node("ip~cidr:10.1.0.0/16"), node("ip=10.2.0.1"), node("ip~regex:[a-z]+"), node("ip"),
		node("one=1"), node("one=2"), node("one=3"), node("one=4"), node("one=5"), node("one=6"), node("one=77"), node("one=888"),
	})
	for _, test := range []struct{ asked, want string }{
		{"", "the descriptor has no entries, near ip one plan"},
		{"plam=premium", "plam=premium by none | unknown key, near plan ip one"},
		{"plan=premium", "plan=premium by exact, not wildcard pre*, not any value | too shallow, near tool user"},
		{"plan=premium user=bob", "plan=premium by exact, not wildcard pre*, not any value | user=bob by any value | plan=premium/user"},
		{"plan=premium seat=1", "plan=premium by exact, not wildcard pre* to plan=pre*/seat, not any value to plan/seat | seat=1 by none | unknown key, near user tool"},
		{"plan=prelude seat=1", "plan=prelude by wildcard, not any value to plan/seat, misses exact premium | seat=1 by any value | plan=pre*/seat"},
		{"plan=premium user=bob tool=map", "plan=premium by exact, not wildcard pre*, not any value | user=bob by any value | tool=map by none | too deep"},
		{"ip=10.1.2.3", "ip=10.1.2.3 by network, not network 10.0.0.0/8 to ip~cidr:10.0.0.0%2F8, not any value to ip, misses exact 10.2.0.1 | ip~cidr:10.1.0.0%2F16"},
		{"ip=abc", "ip=abc by expression, not any value to ip, misses exact 10.2.0.1, misses network 10.0.0.0/8, misses network 10.1.0.0/16 | ip~regex:[a-z]+"},
		{"one=78", "one=78 by none, misses exact 77, misses exact 1, misses exact 2, misses exact 3, misses exact 4, and 3 more | unknown value"},
	} {
		if diff := cmp.Diff(test.want, told(p.Explain(parseDescriptor(t, test.asked)))); diff != "" {
			t.Errorf("%s: %s", test.asked, diff)
		}
	}
}

// told is an explanation in one line.
func told(x policy.Explanation) string {
	var parts []string
	for _, l := range x.Levels {
		words := []string{fmt.Sprintf("%s=%s by %s", l.Entry.Key, l.Entry.Value, l.Found.By)}
		for _, s := range l.Passed {
			word := "misses"
			if s.Covers {
				word = "not"
			}
			if s.Instead != nil {
				s.Text += " to " + s.Instead.Path
			}
			words = append(words, strings.Join(strings.Fields(fmt.Sprint(word, " ", s.By, " ", s.Text)), " "))
		}
		if l.More > 0 {
			words = append(words, fmt.Sprintf("and %d more", l.More))
		}
		parts = append(parts, strings.Join(words, ", "))
	}
	end := []string{
		policy.NoEntries: "the descriptor has no entries", policy.UnknownKey: "unknown key", policy.UnknownValue: "unknown value",
		policy.TooDeep: "too deep", policy.TooShallow: "too shallow",
	}[x.Why]
	if x.Rule != nil {
		end = x.Rule.Path
	}
	if len(x.Keys.Near) > 0 {
		end += ", near " + strings.Join(x.Keys.Near, " ")
	}
	return strings.Join(append(parts, end), " | ")
}

// TestExplainIsBounded asks where very many rules are.
func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	var nodes []policy.Node
	for i := range 1_500 {
		for _, text := range []string{"v=%d", "v=*a%d", "v~regex:b%d", "v~cidr:2001:db8:%x::/48", "k%d"} {
			nodes = append(nodes, parseNode(t, fmt.Sprintf(text, i)))
		}
	}
	p := build(t, slices.Concat(nodes, []policy.Node{parseNode(t, "w=x")}))
	x := p.Explain(policy.Descriptor{{Key: "v", Value: "none of them"}})
	if l := x.Levels[0]; x.Why != policy.UnknownValue || len(l.Passed) != 5 || l.More != 4*1_500-5 {
		t.Errorf("passed over %v and %d more", l.Passed, l.More)
	}
	x = p.Explain(policy.Descriptor{{Key: "none of them"}})
	if x.Why != policy.UnknownKey || len(x.Keys.Near) != 5 || x.Keys.More != 1_502-5 {
		t.Errorf("keys %v and %d more", x.Keys.Near, x.Keys.More)
	}
}

func TestNearDomains(t *testing.T) {
	t.Parallel()
	snapshot, err := policy.Build([]policy.Document{{Domain: "shop"}, {Domain: "edge"}, {Domain: "shop-eu"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(policy.Names{Near: []string{"shop", "edge", "shop-eu"}}, snapshot.NearDomains("shpo")); diff != "" {
		t.Error(diff)
	}
}
