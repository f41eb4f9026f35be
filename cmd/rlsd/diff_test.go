package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

const oldRules = `domain: shop
descriptors:
  - {key: api_key, rate_limit: {name: per-key, unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 50}}
  - {key: gone, rate_limit: {unit: day, requests_per_unit: 1, time_zone: Europe/Berlin}}
  - {key: path, value: /x}
  - {key: path, value: /y, rate_limit: {unlimited: true}}
  - {key: path, value: /z}
  - {key: same, rate_limit: {unit: hour, requests_per_unit: 1}}
  - key: list
    rate_limits: [{unit: second, requests_per_unit: 1}, {unit: minute, requests_per_unit: 9}]
---
domain: old
descriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 1}}]
`

const newRules = `domain: new
descriptors: [{key: a, value: x/y, rate_limit: {name: fresh, unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, max_delay: 5s}}]
---
domain: shop
descriptors:
  - key: list
    rate_limits: [{unit: minute, requests_per_unit: 9}, {unit: second, requests_per_unit: 1}]
  - {key: api_key, rate_limit: {name: per-key, unit: minute, requests_per_unit: 20, algorithm: gcra, burst: 50, expose: false, failure_mode: open}}
  - {key: path, value: /x, rate_limit: {unlimited: true}}
  - {key: path, value: /y, rate_limit: {unit: second, requests_per_unit: 1}, shadow_mode: true}
  - {key: path, value: "/w*", share_threshold: true, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: same, rate_limit: {unit: hour, requests_per_unit: 1}}
`

const wantDiff = `domain new
  + the domain
  + limit fresh of a=x%2Fy: algorithm leaky_bucket, requests_per_unit 1, unit 1h, burst 1, max_delay 5s
domain old
  - the domain
  - limit a: algorithm fixed_window, requests_per_unit 1, unit 1h, overdraft auto
domain shop
  ~ limit per-key of api_key: algorithm token_bucket -> gcra, requests_per_unit 10 -> 20, unit 1s -> 1m, expose none -> false, failure_mode none -> open
  - limit gone: algorithm fixed_window, requests_per_unit 1, unit day, time_zone Europe/Berlin, overdraft auto
  ~ limit list#2 of list: name list (by path) -> list#2 (by path)
  ~ limit list: name list#2 (by path) -> list (by path)
  + rule path=%2Fw*: kind limited, share_threshold path=%2Fw*
  + limit path=%2Fw*: algorithm fixed_window, requests_per_unit 1, unit 1s, overdraft auto
  ~ rule path=%2Fx: kind exempt -> unlimited
  ~ rule path=%2Fy: kind unlimited -> limited
  + limit path=%2Fy: algorithm fixed_window, requests_per_unit 1, unit 1s, shadow true, overdraft auto
  - rule path=%2Fz: kind exempt
5 added, 4 removed, 5 changed
`

func TestDiffPrintsWhatWouldChange(t *testing.T) {
	before, after := write(t, oldRules), write(t, newRules)
	code, stdout, stderr := rlsd(t, "validate", "--diff", before, after)
	if code != exitDiffer || stderr != "" {
		t.Errorf("%d %q", code, stderr)
	}
	if d := cmp.Diff(wantDiff, stdout); d != "" {
		t.Error(d)
	}
}

func TestDiffInJSON(t *testing.T) {
	before, after := write(t, oldRules), write(t, newRules)
	code, stdout, _ := rlsd(t, "validate", "--output", "json", "--diff", before, after)
	var got diffReport
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if code != exitDiffer || !got.OK || !got.Differ || got.OldHash == got.NewHash || len(got.Changes) != 14 || len(got.Faults) != 0 {
		t.Errorf("%d %s", code, stdout)
	}
	i := slices.IndexFunc(got.Changes, func(c change) bool { return c.Rule == "path=%2Fx" })
	want := change{Domain: "shop", Rule: "path=%2Fx", Change: "changed", Fields: []fieldChange{{"kind", "exempt", "unlimited"}}}
	if d := cmp.Diff(want, got.Changes[i]); d != "" {
		t.Error(d)
	}
}

// What a rule file holds neither starts a line nor reaches the terminal.
func TestDiffPrintsNothingOfFilesRaw(t *testing.T) {
	const evil = `x\nFORGED line\e[31mred\x9b31m\u202e`
	rules := func(n int) string {
		return write(t, strings.NewReplacer("EVIL", evil, "N", strconv.Itoa(n)).Replace(`domain: "EVIL"
descriptors:
  - {key: "EVIL", value: "EVIL", rate_limit: {name: n, unit: hour, requests_per_unit: N}, metadata: {"EVIL": "EVIL N"}}
  - {key: by-path, value: "EVIL", rate_limit: {unit: hour, requests_per_unit: N}}
  - {key: "EVIL", value: gone N}
  - {key: "EVIL", value: here N, rate_limit: {name: m N, unit: hour, requests_per_unit: 1, replaces: [{name: n}]}}
`))
	}
	code, stdout, stderr := rlsd(t, "validate", "--diff", rules(1), rules(2))
	if code != exitDiffer || stderr != "" {
		t.Errorf("%d %q", code, stderr)
	}
	for line := range strings.Lines(stdout) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "FORGED") || visible(line) != line {
			t.Errorf("printed raw: %q", line)
		}
	}
}

func TestFaultsPrintNothingOfFilesRaw(t *testing.T) {
	const evil = `x\nFORGED line\e[31mred\x9b31m\u202e`
	bad := write(t, strings.ReplaceAll(`domain: "EVIL"
"EVIL": 1
descriptors:
  - {key: "EVIL", value: "EVIL", rate_limit: {name: "EVIL", unit: "EVIL", requests_per_unit: 1, algorithm: "EVIL", replaces: [{name: "EVIL"}]}, "EVIL": 1}
  - {key: "EVIL", value: "EVIL", metadata: {"EVIL": .nan}}
  - {key: "EVIL", rate_limit: {time_zone: "EVIL", unit: day, requests_per_unit: 1, "EVIL": "EVIL"}, metadata: {"EVIL": {"EVIL": 1, "EVIL": 2}}}
`, "EVIL", evil))
	for _, command := range [][]string{{"validate", bad}, {"validate", "--diff", bad, write(t, goodPolicy)}} {
		code, stdout, stderr := rlsd(t, command...)
		if code != exitFault || stdout != "" || strings.Count(stderr, "\n") < 5 {
			t.Errorf("%d %q %s", code, stdout, stderr)
		}
		for line := range strings.Lines(stderr) {
			line = strings.TrimSuffix(line, "\n")
			if !strings.HasPrefix(line, bad+":") || visible(line) != line {
				t.Errorf("printed raw: %q", line)
			}
		}
	}
}

func TestDiffOfReplaces(t *testing.T) {
	rules := func(replaces string, quota int) string {
		return write(t, fmt.Sprintf(`domain: d
descriptors:
  - {key: k, rate_limit: {name: n, unit: hour, requests_per_unit: %d, replaces: [%s]}}
  - {key: l, rate_limits: [{name: a, unit: hour, requests_per_unit: 1}, {name: b, unit: day, requests_per_unit: 1}, {name: a b, unit: minute, requests_per_unit: 1}]}
`, quota, replaces))
	}
	const one, two, turned = "{name: a b}", "{name: a}, {name: b}", "{name: b}, {name: a}"
	const other = "  ~ limit n of k: requests_per_unit 1 -> 2\n"
	for _, test := range []struct {
		before, after string
		quota         int
		want          string
	}{
		{one, two, 2, "domain d\n" + `  ~ rule k: replaces ["a b"] -> ["a","b"]` + "\n" + other + "0 added, 0 removed, 2 changed\n"},
		{one, two, 1, "domain d\n" + `  ~ rule k: replaces ["a b"] -> ["a","b"]` + "\n0 added, 0 removed, 1 changed\n"},
		{two, turned, 2, "domain d\n" + other + "0 added, 0 removed, 1 changed\n"},
		{two, turned, 1, "no difference\n"},
		{one, "", 1, "domain d\n" + `  ~ rule k: replaces ["a b"] -> none` + "\n0 added, 0 removed, 1 changed\n"},
	} {
		if _, stdout, stderr := rlsd(t, "validate", "--diff", rules(test.before, 1), rules(test.after, test.quota)); stdout != test.want || stderr != "" {
			t.Errorf("%s and %s: %s%s, want %s", test.before, test.after, stdout, stderr, test.want)
		}
	}
}

func TestDiffOfTheSameRulesIsNone(t *testing.T) {
	parts := strings.Split(oldRules, "---\n")
	before, after := write(t, oldRules), write(t, "# turned round\n"+parts[1]+"---\n"+parts[0])
	if code, stdout, stderr := rlsd(t, "validate", "--diff", before, after); code != exitDone || stdout != "no difference\n" || stderr != "" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	code, stdout, _ := rlsd(t, "validate", "--diff", "--output", "json", before, after)
	var got diffReport
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitDone || !got.OK || got.Differ || got.Changes == nil {
		t.Errorf("%d %v %s", code, err, stdout)
	}
}

func TestDiffOfFaultyRulesNamesTheFaultsOfBoth(t *testing.T) {
	good, bad := write(t, goodPolicy), write(t, badPolicy)
	for _, test := range []struct {
		before, after string
		faults        int
	}{{good, bad, 2}, {bad, good, 2}, {bad, "nowhere", 3}} {
		code, stdout, stderr := rlsd(t, "validate", "--diff", test.before, test.after)
		if code != exitFault || stdout != "" || strings.Count(stderr, "\n") != test.faults {
			t.Errorf("%d %q\n%s", code, stdout, stderr)
		}
		code, stdout, stderr = rlsd(t, "validate", "--diff", "--output", "json", test.before, test.after)
		var got diffReport
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitFault || got.OK || len(got.Faults) != test.faults || stderr != "" {
			t.Errorf("%d %v %s", code, err, stdout)
		}
	}
}

// Whatever field a limit or a rule has, a change of it is seen, also of one that
// is added later.
func TestNoFieldEscapesDiff(t *testing.T) {
	node := func() policy.Node {
		return policy.Node{Entry: policy.Entry{Key: "a", Value: "*"}, Limits: []policy.Limit{{
			Name: "n", Limit: algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: 1_000_000},
		}}}
	}
	snapshot := func(n policy.Node) *policy.Snapshot {
		s, err := policy.Build([]policy.Document{{Domain: "d", Nodes: []policy.Node{n}}, {
			Domain: "d", Nodes: []policy.Node{{Entry: policy.Entry{Key: "other"}, Limits: []policy.Limit{{Name: "o"}}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := snapshot(node())
	check := func(field string, n policy.Node) {
		t.Helper()
		changes := compare(base, snapshot(n))
		if len(changes) == 0 || slices.ContainsFunc(changes[0].Fields, func(f fieldChange) bool { return f.Field == "hash" }) {
			t.Errorf("%s: %+v", field, changes)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Limit]()) {
		if f.Anonymous || slices.Contains([]string{"Domain", "Named", "Source", "Overdraft"}, f.Name) {
			continue
		}
		n := node()
		alter(t, reflect.ValueOf(&n.Limits[0]).Elem().FieldByIndex(f.Index))
		check("Limit."+f.Name, n)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policy.Node]()) {
		if f.Anonymous || slices.Contains([]string{"Limits", "Source", "Path"}, f.Name) {
			continue
		}
		n := node()
		if f.Name == "Unlimited" {
			n.Limits = nil
		}
		alter(t, reflect.ValueOf(&n).Elem().FieldByIndex(f.Index))
		check("Node."+f.Name, n)
	}
}

// alter sets a field to another value.
func alter(t *testing.T, v reflect.Value) {
	t.Helper()
	parsed := func(value any, err error) reflect.Value {
		if err != nil {
			t.Fatal(err)
		}
		return reflect.ValueOf(value)
	}
	switch v.Interface().(type) {
	case *time.Location:
		v.Set(reflect.ValueOf(time.FixedZone("X", 3600)))
		return
	case []policy.Reference:
		v.Set(reflect.ValueOf([]policy.Reference{{Name: "o"}}))
		return
	case []policy.Node:
		v.Set(reflect.ValueOf([]policy.Node{{Entry: policy.Entry{Key: "b"}}}))
		return
	case map[string]any:
		v.Set(reflect.ValueOf(map[string]any{"a": true}))
		return
	}
	switch v.Type().String() {
	case "netip.Prefix":
		v.Set(parsed(policy.ParseCIDR("10.0.0.0/8")))
		return
	case "*regexp.Regexp":
		v.Set(parsed(policy.ParseRegexp("a")))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString("b*")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	default:
		t.Fatalf("teach this test to alter a %v", v.Type())
	}
}
