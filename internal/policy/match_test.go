package policy_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

// A question is a descriptor and what a tree has to say of it.
type question struct {
	line       int
	descriptor policy.Descriptor
	want       string
}

// A matchCase is one block of testdata/match.txt.
type matchCase struct {
	name      string
	nodes     []policy.Node
	questions []question
}

func TestMatch(t *testing.T) {
	t.Parallel()
	cases := readMatchCases(t)
	rows := 0
	for _, c := range cases {
		rows += len(c.questions)
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := build(t, c.nodes)
			for _, q := range c.questions {
				if got := answer(p.Match(q.descriptor)); got != q.want {
					t.Errorf("testdata/match.txt:%d: %v: got %s, want %s", q.line, q.descriptor, got, q.want)
				}
			}
		})
	}
	if rows < 100 {
		t.Errorf("only %d questions were read", rows)
	}
}

// TestMatchAgainstNaive asks random trees random questions and compares with
// naiveMatch.
func TestMatchAgainstNaive(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for range 1_000 {
		nodes := randomNodes(rng, 3)
		p := build(t, nodes)
		for range 30 {
			d := randomDescriptor(rng)
			got, want := answer(p.Match(d)), naiveMatch(nodes, d)
			if got != want {
				t.Fatalf("%v in\n%s\ngot %s, want %s", d, outline(nodes, ""), got, want)
			}
			if want != "none" {
				hits++
			}
		}
	}
	if hits < 2_000 {
		t.Errorf("only %d questions had an answer", hits)
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	p, d := benchmarkPolicy(t), benchmarkDescriptor()
	if n := testing.AllocsPerRun(100, func() { p.Match(d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMatchDoesNotBacktrackInPatterns(t *testing.T) {
	t.Parallel()
	p := build(t, []policy.Node{limited("v", strings.Repeat("*a", 5_000)+"*b", "hard")})
	value := strings.Repeat("a", 100_000)
	start := time.Now()
	if got := answer(p.Match(policy.Descriptor{{Key: "v", Value: value}})); got != "none" {
		t.Errorf("got %s, want none", got)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
}

func BenchmarkMatch(b *testing.B) {
	p, d := benchmarkPolicy(b), benchmarkDescriptor()
	b.ReportAllocs()
	for b.Loop() {
		p.Match(d)
	}
}

func benchmarkPolicy(tb testing.TB) *policy.Policy {
	tb.Helper()
	plan := policy.Node{Entry: policy.Entry{Key: "plan", Value: "premium"}}
	plan.Children = []policy.Node{limited("path", "/api/*/users", "users"), limited("user", "", "any")}
	return build(tb, []policy.Node{plan, limited("plan", "", "free"), limited("api_key", "", "key")})
}

func benchmarkDescriptor() policy.Descriptor {
	return policy.Descriptor{{Key: "plan", Value: "premium"}, {Key: "path", Value: "/api/v1/users"}}
}

// build compiles nodes as the only domain.
func build(tb testing.TB, nodes []policy.Node) *policy.Policy {
	tb.Helper()
	snapshot, err := policy.Build([]policy.Document{{Domain: "test", Nodes: nodes}})
	if err != nil {
		tb.Fatal(err)
	}
	return snapshot.Policy("test")
}

// limited returns a leaf with one limit.
func limited(key, value, name string) policy.Node {
	return policy.Node{
		Entry: policy.Entry{Key: key, Value: value},
		Limits: []policy.Limit{{
			Name:  name,
			Limit: algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: 1_000_000},
		}},
	}
}

// answer describes a rule in one word.
func answer(r *policy.Rule) string {
	switch {
	case r == nil:
		return "none"
	case r.Unlimited:
		return "unlimited"
	case len(r.Limits) == 0:
		return "exempt"
	default:
		return r.Limits[0].Name
	}
}

func readMatchCases(t *testing.T) []matchCase {
	t.Helper()
	file, err := os.Open("testdata/match.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	var cases []matchCase
	var path []*policy.Node // the last node of each level
	scanner := bufio.NewScanner(file)
	for line := 1; scanner.Scan(); line++ {
		text := scanner.Text()
		if name, ok := strings.CutPrefix(text, "== "); ok {
			cases = append(cases, matchCase{name: name})
			path = nil
			continue
		}
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		c := &cases[len(cases)-1]
		if asked, ok := strings.CutPrefix(text, "?"); ok {
			descriptor, want, _ := strings.Cut(asked, "->")
			q := question{line: line, want: strings.TrimSpace(want)}
			q.descriptor = parseDescriptor(t, descriptor)
			c.questions = append(c.questions, q)
			continue
		}
		path = addNode(t, c, path, text)
	}
	return cases
}

// addNode adds the node of a line below the last node of the level above it.
func addNode(t *testing.T, c *matchCase, path []*policy.Node, text string) []*policy.Node {
	t.Helper()
	words := strings.Fields(text)
	node := parseNode(t, words[0])
	if len(words) > 1 {
		if node.Unlimited = words[1] == "unlimited"; !node.Unlimited {
			node.Limits = limited("", "", words[1]).Limits
		}
	}
	siblings := &c.nodes
	level := (len(text) - len(strings.TrimLeft(text, " "))) / 2
	if level > 0 {
		siblings = &path[level-1].Children
	}
	*siblings = append(*siblings, node)
	return append(path[:level], &(*siblings)[len(*siblings)-1])
}

// parseNode reads the entry of a node: key, key=value, key~cidr:network or
// key~regex:expression.
func parseNode(t testing.TB, text string) policy.Node {
	t.Helper()
	key, matcher, ok := strings.Cut(text, "~")
	if !ok {
		return policy.Node{Entry: parseEntry(t, text)}
	}
	node := policy.Node{Entry: policy.Entry{Key: key}}
	var err error
	if network, ok := strings.CutPrefix(matcher, "cidr:"); ok {
		node.Network, err = policy.ParseCIDR(network)
	} else {
		node.Regexp, err = policy.ParseRegexp(strings.TrimPrefix(matcher, "regex:"))
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return node
}

func parseDescriptor(t testing.TB, text string) (d policy.Descriptor) {
	t.Helper()
	for field := range strings.FieldsSeq(text) {
		d = append(d, parseEntry(t, field))
	}
	return d
}

func parseEntry(t testing.TB, text string) policy.Entry {
	t.Helper()
	key, value, _ := strings.Cut(text, "=")
	value, err := strconv.Unquote(`"` + value + `"`)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return policy.Entry{Key: key, Value: value}
}

// naiveMatch is Match written another way: it knows no tree but the nodes as
// stated, ranks all siblings that fit and reads a wildcard as a regular
// expression.
func naiveMatch(nodes []policy.Node, d policy.Descriptor) string {
	if len(d) == 0 {
		return "none"
	}
	var best *policy.Node
	for i := range nodes {
		if n := &nodes[i]; naiveFits(n.Entry, d[0]) && (best == nil || naiveBeats(n.Value, best.Value)) {
			best = n
		}
	}
	switch {
	case best == nil:
		return "none"
	case len(d) > 1:
		return naiveMatch(best.Children, d[1:])
	case best.Unlimited:
		return "unlimited"
	case len(best.Limits) > 0:
		return best.Limits[0].Name
	case len(best.Children) == 0:
		return "exempt"
	default:
		return "none"
	}
}

func naiveFits(rule, e policy.Entry) bool {
	if rule.Key != e.Key || rule.Value == "" {
		return rule.Key == e.Key
	}
	expression := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(rule.Value), `\*`, ".*") + "$"
	return regexp.MustCompile(expression).MatchString(e.Value)
}

// naiveBeats says which of two values that fit wins.
func naiveBeats(v, w string) bool {
	rank := func(v string) string {
		literals := strings.ReplaceAll(v, "*", "")
		switch {
		case v == "":
			return "0"
		case literals == v:
			return "2"
		default:
			return fmt.Sprintf("1 %03d %03d", len(literals), strings.IndexByte(v, '*'))
		}
	}
	if rank(v) != rank(w) {
		return rank(v) > rank(w)
	}
	return v < w
}

func randomNodes(rng *rand.Rand, depth int) []policy.Node {
	var nodes []policy.Node
	seen := map[policy.Entry]bool{}
	for range rng.IntN(6) {
		e := policy.Entry{Key: randomText(rng, "kl", 1, 1), Value: randomText(rng, "ab*", 0, 4)}
		if seen[e] {
			continue
		}
		seen[e] = true
		n := policy.Node{Entry: e}
		switch rng.IntN(4) {
		case 0:
			n.Unlimited = true
		case 1, 2:
			n.Limits = limited("", "", fmt.Sprintf("n%d", rng.Uint64())).Limits
		}
		if depth > 1 && rng.IntN(3) > 0 {
			n.Children = randomNodes(rng, depth-1)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func randomDescriptor(rng *rand.Rand) policy.Descriptor {
	var d policy.Descriptor
	for range rng.IntN(4) {
		d = append(d, policy.Entry{Key: randomText(rng, "kl", 1, 1), Value: randomText(rng, "ab", 0, 5)})
	}
	return d
}

func randomText(rng *rand.Rand, alphabet string, least, most int) string {
	text := make([]byte, least+rng.IntN(most-least+1))
	for i := range text {
		text[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(text)
}

func outline(nodes []policy.Node, indent string) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "%s%s=%s %d limits, unlimited %v\n", indent, n.Key, n.Value, len(n.Limits), n.Unlimited)
		b.WriteString(outline(n.Children, indent+"  "))
	}
	return b.String()
}
