package policy_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

const second = 1_000_000

func TestBuildMergesDocuments(t *testing.T) {
	t.Parallel()
	plan := policy.Entry{Key: "plan", Value: "premium"}
	snapshot, err := policy.Build([]policy.Document{
		document("a.yaml", "shop", policy.Node{Entry: plan, Children: []policy.Node{limited("user", "", "per-user")}}),
		document("b.yaml", "shop", policy.Node{Entry: plan, Children: []policy.Node{limited("tool", "", "per-tool")}}),
		document("c.yaml", "shop", policy.Node{Entry: plan, Limits: limited("", "", "whole-plan").Limits}),
		document("d.yaml", "edge", policy.Node{Entry: plan, Children: []policy.Node{limited("user", "", "per-user")}}),
		document("e.yaml", "idle"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"edge", "idle", "shop"}, snapshot.Domains()); diff != "" {
		t.Error(diff)
	}
	if snapshot.Policy("nowhere") != nil {
		t.Error("an unknown domain has a policy")
	}
	user, tool := policy.Entry{Key: "user", Value: "bob"}, policy.Entry{Key: "tool", Value: "map"}
	tests := []struct {
		domain     string
		descriptor policy.Descriptor
		want       string
	}{
		{"shop", policy.Descriptor{plan}, "whole-plan"},
		{"shop", policy.Descriptor{plan, user}, "per-user"},
		{"shop", policy.Descriptor{plan, tool}, "per-tool"},
		{"edge", policy.Descriptor{plan}, "none"},
		{"edge", policy.Descriptor{plan, user}, "per-user"},
		{"edge", policy.Descriptor{plan, tool}, "none"},
		{"idle", policy.Descriptor{plan}, "none"},
	}
	for _, test := range tests {
		p := snapshot.Policy(test.domain)
		if p.Domain() != test.domain {
			t.Errorf("the policy of %s is called %s", test.domain, p.Domain())
		}
		if got := answer(p.Match(test.descriptor)); got != test.want {
			t.Errorf("%s %v: got %s, want %s", test.domain, test.descriptor, got, test.want)
		}
	}
}

func TestBuildFaults(t *testing.T) {
	t.Parallel()
	exempt := func(key, value string) policy.Node {
		return policy.Node{Entry: policy.Entry{Key: key, Value: value}}
	}
	unlimited := exempt("a", "x")
	unlimited.Unlimited = true
	twins := limited("a", "", "one")
	twins.Limits = append(twins.Limits, limited("", "", "two").Limits...)
	nested := func(child policy.Node) policy.Node {
		return policy.Node{Entry: policy.Entry{Key: "up"}, Children: []policy.Node{child}}
	}

	tests := []struct {
		name      string
		documents []policy.Document
		want      []string
	}{
		{
			"an entry twice in one list",
			[]policy.Document{document("f", "d", limited("a", "x", "one"), limited("a", "x", "two"))},
			[]string{"f:2: node 1: duplicate of the descriptor at f:1, with the same key and value: merge the two"},
		},
		{
			"an entry twice in one list, though only one limits",
			[]policy.Document{document("f", "d", nested(limited("a", "x", "one")), nested(limited("b", "x", "two")))},
			[]string{"f:2: node 1: duplicate of the descriptor at f:1, with the same key and value: merge the two"},
		},
		{
			"two limits for one entry in two documents",
			[]policy.Document{document("g", "d", limited("a", "x", "two")), document("f", "d", limited("a", "x", "one"))},
			[]string{"g:1: node 0: conflicts with the descriptor at f:1, which has the same key and value: keep the limit of one of them"},
		},
		{
			"an exempt entry that is unlimited elsewhere",
			[]policy.Document{document("f", "d", exempt("a", "x")), document("g", "d", unlimited)},
			[]string{"g:1: node 0: conflicts with the descriptor at f:1, which has the same key and value: keep the limit of one of them"},
		},
		{
			"two limits deep down",
			[]policy.Document{document("f", "d", nested(exempt("a", ""))), document("g", "d", nested(limited("a", "", "one")))},
			[]string{"g:1: node 0: conflicts with the descriptor at f:1, which has the same key and value: keep the limit of one of them"},
		},
		{
			"a name twice in a domain",
			[]policy.Document{document("f", "d", limited("a", "x", "one")), document("g", "d", limited("b", "x", "one"))},
			[]string{`g:1: node 0: the limit at f:1 is called "one" too: names must be unique in a domain`},
		},
		{
			"a name that is another's path",
			[]policy.Document{document("f", "d", limited("a", "x", ""), limited("b", "", "a=x"))},
			[]string{`f:2: node 1: the limit at f:1 is called "a=x" too: names must be unique in a domain`},
		},
		{
			"a name in two domains is fine",
			[]policy.Document{document("f", "d", limited("a", "x", "one")), document("g", "e", limited("a", "x", "one"))},
			nil,
		},
		{
			"two limits that would share a state",
			[]policy.Document{document("f", "d", twins)},
			[]string{"f:1: node 0: same algorithm and window as the limit at f:1: keep the stricter of the two"},
		},
		{
			"all faults of all domains at once",
			[]policy.Document{
				document("f", "d", limited("a", "x", "one"), limited("a", "x", "two"), limited("b", "", "one")),
				document("g", "e", exempt("a", ""), exempt("a", "")),
			},
			[]string{
				"f:2: node 1: duplicate of the descriptor at f:1, with the same key and value: merge the two",
				`f:3: node 2: the limit at f:1 is called "one" too: names must be unique in a domain`,
				"g:2: node 1: duplicate of the descriptor at g:1, with the same key and value: merge the two",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the order of the documents does not matter
				snapshot, err := policy.Build(test.documents)
				var faults policy.Faults
				if errors.As(err, &faults) == (snapshot != nil) {
					t.Fatalf("snapshot %v with error %v", snapshot, err)
				}
				var got []string
				for _, f := range faults {
					got = append(got, f.String())
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error(diff)
				}
				slices.Reverse(test.documents)
			}
		})
	}
}

func TestBuildNamesLimits(t *testing.T) {
	t.Parallel()
	list := limited("user", "", "")
	list.Limits = nil
	for i, name := range []string{"", "given", "", ""} {
		list.Limits = append(list.Limits, policy.Limit{Name: name, Limit: fixedWindow(int64(i + 1))})
	}
	snapshot, err := policy.Build([]policy.Document{document(
		"f", "d",
		policy.Node{Entry: policy.Entry{Key: "plan", Value: "premium"}, Children: []policy.Node{list}},
		limited("path", "/api/*", ""),
		limited("a b", "1#2=é\"~", ""),
	)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range snapshot.Limits() {
		if l.Domain != "d" || l.Named != (l.Name == "given") {
			t.Errorf("%+v", l)
		}
		got = append(got, l.Name)
	}
	want := []string{
		"given",
		"plan=premium/user", "plan=premium/user#3", "plan=premium/user#4",
		"path=%2Fapi%2F*",
		"a%20b=1%232%3D%C3%A9%22%7E",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	rule := snapshot.Policy("d").Match(policy.Descriptor{{Key: "plan", Value: "premium"}, {Key: "user", Value: "bob"}})
	if rule.Path != "plan=premium/user" {
		t.Errorf("path is %s", rule.Path)
	}
}

func TestLimitsAreSorted(t *testing.T) {
	t.Parallel()
	snapshot, err := policy.Build([]policy.Document{
		document("b.yaml", "one", limited("a", "", "3"), limited("b", "", "4")),
		document("c.yaml", "one", limited("c", "", "5")),
		document("a.yaml", "two", limited("a", "", "6")),
		document("a.yaml", "one", limited("x", "", "1"), limited("y", "", "2")),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range snapshot.Limits() {
		got = append(got, l.Name)
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5", "6"}, got); diff != "" {
		t.Error(diff)
	}
	clear(snapshot.Limits())
	if snapshot.Limits()[0] == nil {
		t.Error("callers can change the snapshot")
	}
}

func TestHashIsThatOfTheRules(t *testing.T) {
	t.Parallel()
	hash := func(documents ...policy.Document) string {
		t.Helper()
		snapshot, err := policy.Build(documents)
		if err != nil {
			t.Fatal(err)
		}
		return snapshot.Hash()
	}
	a, b := limited("a", "x", "one"), limited("b", "", "")
	up := func(children ...policy.Node) policy.Node {
		return policy.Node{Entry: policy.Entry{Key: "up"}, Children: children}
	}
	base := hash(document("f", "d", up(a, b)))
	if len(base) != 32 {
		t.Errorf("hash %q is not 128 bits in hex", base)
	}

	same := map[string]string{
		"again":           hash(document("f", "d", up(a, b))),
		"another order":   hash(document("f", "d", up(b, a))),
		"two documents":   hash(document("f", "d", up(a)), document("g", "d", up(b))),
		"files reordered": hash(document("g", "d", up(b)), document("f", "d", up(a))),
	}
	for name, got := range same {
		if got != base {
			t.Errorf("%s: hash changed", name)
		}
	}

	limit := func(change func(l *policy.Limit)) string {
		changed := limited("a", "x", "one")
		change(&changed.Limits[0])
		return hash(document("f", "d", up(changed, b)))
	}
	star, named := limited("a", "*", "one"), limited("b", "", "up/b")
	seen := map[string]string{base: "base"}
	for name, got := range map[string]string{
		"quota":          limit(func(l *policy.Limit) { l.Quota++ }),
		"window":         limit(func(l *policy.Limit) { l.Window++ }),
		"algorithm":      limit(func(l *policy.Limit) { l.Algorithm, l.Burst = algo.TokenBucket, 1 }),
		"burst":          limit(func(l *policy.Limit) { l.Algorithm, l.Burst = algo.TokenBucket, 2 }),
		"calendar":       limit(func(l *policy.Limit) { l.Calendar = algo.Monthly }),
		"name":           limit(func(l *policy.Limit) { l.Name = "two" }),
		"shadow":         limit(func(l *policy.Limit) { l.Shadow = true }),
		"shadow percent": limit(func(l *policy.Limit) { l.ShadowPercent = 90 }),
		"hidden":         limit(func(l *policy.Limit) { l.Hidden = true }),
		"failure mode":   limit(func(l *policy.Limit) { l.FailureMode = policy.FailClosed }),
		"value":          hash(document("f", "d", up(star, b))),
		"name of a path": hash(document("f", "d", up(a, named))),
		"depth":          hash(document("f", "d", up(up(a, b)))),
		"fewer":          hash(document("f", "d", up(a))),
		"domain":         hash(document("f", "e", up(a, b))),
		"another domain": hash(document("f", "d", up(a, b)), document("g", "e")),
		"none":           hash(),
	} {
		if other, taken := seen[got]; taken {
			t.Errorf("%s: same hash as %s", name, other)
		}
		seen[got] = name
	}
}

func TestFaultsAreSortedAndDistinct(t *testing.T) {
	t.Parallel()
	at := func(file string, line, column int) policy.Source {
		return policy.Source{File: file, Line: line, Column: column}
	}
	faults := policy.Faults{
		{at("b", 0, 0), "", "unreadable"},
		{at("a", 2, 1), "x", "wrong"},
		{at("a", 1, 7), "first", "wrong"},
		{at("a", 1, 7), "second", "wrong"},
		{at("a", 1, 7), "second", "odd"},
		{at("a", 1, 3), "", "wrong"},
	}
	const want = `a:1:3: wrong
a:1:7: second: odd
a:1:7: first: wrong
a:2:1: x: wrong
b: unreadable`
	if diff := cmp.Diff(want, faults.Err().Error()); diff != "" {
		t.Error(diff)
	}
	if err := (policy.Faults{}).Err(); err != nil {
		t.Errorf("no faults are the error %v", err)
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	long := make([]byte, 129)
	for i := range long {
		long[i] = 'x'
	}
	for name, ok := range map[string]bool{
		"per-key": true, "a b/c=d#2 %~": true, string(long[:128]): true,
		"": false, string(long): false, `a"b`: false, `a\b`: false, "é": false, "a\n": false, "\x7f": false, "\xff": false,
	} {
		if err := policy.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestFailureModesHaveNames(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]policy.FailureMode{
		"error": policy.FailError, "open": policy.FailOpen, "closed": policy.FailClosed, "local": policy.FailLocal,
	} {
		got, err := policy.ParseFailureMode(name)
		if got != mode || err != nil || mode.String() != name {
			t.Errorf("%s is %v, %v", name, got, err)
		}
	}
	_, err := policy.ParseFailureMode("ajar")
	const want = `unknown failure mode "ajar", use one of error, open, closed, local`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if got := policy.FailureMode(9).String(); got != "failuremode(9)" {
		t.Errorf("got %s", got)
	}
}

// document returns the nodes as a file states them one to a line, with all that
// is below a node on its line.
func document(file, domain string, nodes ...policy.Node) policy.Document {
	doc := policy.Document{Domain: domain, Source: policy.Source{File: file, Line: 1}}
	for i, n := range nodes {
		doc.Nodes = append(doc.Nodes, placed(n, "node "+string(rune('0'+i)), policy.Source{File: file, Line: i + 1}))
	}
	return doc
}

func placed(n policy.Node, path string, at policy.Source) policy.Node {
	n.Source, n.Path = at, path
	n.Limits, n.Children = slices.Clone(n.Limits), slices.Clone(n.Children)
	for i := range n.Limits {
		n.Limits[i].Source = at
	}
	for i := range n.Children {
		n.Children[i] = placed(n.Children[i], path, at)
	}
	return n
}

func fixedWindow(seconds int64) algo.Limit {
	return algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: seconds * second}
}
