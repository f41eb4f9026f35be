package limiter_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/memory"
)

// sw is a switch in short: shadow or off, and then what: nothing for
// everything, a domain, or a domain and a limit.
func sw(words string) limiter.Switch {
	mode, rest, _ := strings.Cut(words, " ")
	s := limiter.Switch{Mode: limiter.Shadowed}
	if mode == "off" {
		s.Mode = limiter.Off
	}
	s.Target.Domain, s.Target.Limit, _ = strings.Cut(rest, " ")
	return s
}

func (f *fixture) set(words ...string) {
	f.t.Helper()
	for _, w := range words {
		if err := f.Switches().Set(sw(w)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestSwitches asks for more than there is of a limit of 3 of the domain shop.
func TestSwitches(t *testing.T) {
	t.Parallel()
	const (
		denied = "denied, over per-user, counted per-user denied"
		shadow = "allowed, over per-user in shadow, counted per-user shadow denied"
		off    = "allowed, over nothing, counted nothing"
	)
	for _, test := range []struct {
		switches []string
		want     string
	}{
		{nil, denied},
		{[]string{"shadow"}, shadow},
		{[]string{"shadow shop"}, shadow},
		{[]string{"shadow shop per-user"}, shadow},
		{[]string{"off shop per-user"}, off},
		{[]string{"shadow edge"}, denied},
		{[]string{"shadow shop banned", "off shop shaded", "off edge edge-user"}, denied},
		// Of several the strongest counts, in whatever order they were set.
		{[]string{"off shop per-user", "shadow", "shadow shop"}, off},
		{[]string{"shadow", "shadow shop", "off shop per-user"}, off},
		// One on the same target takes the place of that before it.
		{[]string{"off shop per-user", "shadow shop per-user"}, shadow},
		{[]string{"shadow shop per-user", "off shop per-user"}, off},
	} {
		f := newFixture(t)
		f.set(test.switches...)
		if got := f.outcome(ask(4, entry("user", "bob"))); got != test.want {
			t.Errorf("%q: %s, want %s", test.switches, got, test.want)
		}
		for _, s := range f.Switches().List() {
			if _, ok := f.Switches().Clear(s.Target); !ok {
				t.Errorf("%q: no switch on %v", test.switches, s.Target)
			}
		}
		if got := f.outcome(ask(4, entry("user", "bob"))); got != denied {
			t.Errorf("%q and cleared: %s, want %s", test.switches, got, denied)
		}
	}
}

// outcome is what one request comes to: the verdict, which limits were over,
// and what was counted.
func (f *fixture) outcome(d limiter.Descriptor) string {
	f.t.Helper()
	*f.observed = nil
	var v limiter.Verdict
	req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{d}}
	if err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); err != nil {
		return err.Error()
	}
	verdict, over, counted := "denied", "nothing", "nothing"
	if v.Allowed {
		verdict = "allowed"
	}
	if v.Statuses[0].Allowed != v.Allowed {
		f.t.Errorf("the status is %t, the verdict %t", v.Statuses[0].Allowed, v.Allowed)
	}
	for _, r := range v.Statuses[0].Results {
		if !r.Decision.Allowed {
			over = r.Limit.Name
			if r.Shadow {
				over += " in shadow"
			}
		}
	}
	if len(*f.observed) > 0 {
		counted = strings.Join(*f.observed, ", ")
	}
	return verdict + ", over " + over + ", counted " + counted
}

func TestASwitchOnOneLimitLeavesTheOthersOfItsRule(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	plan := entry("plan", "premium")
	f.set("off shop plan-minute")
	f.expect(f.told(ask(4, plan)), "allowed true", "0 plan=premium true", "plan-burst true left 0")
	f.expect(f.told(ask(1, plan)), "allowed false", "0 plan=premium false", "plan-burst false left 0")
	f.set("shadow shop plan-burst")
	f.expect(f.told(ask(1, plan)), "allowed true", "0 plan=premium true", "plan-burst false left 0")
	// What was off was not counted.
	f.Switches().Clear(sw("off shop plan-minute").Target)
	f.expect(f.told(ask(1, plan)), "allowed true", "0 plan=premium true", "plan-minute true left 9", "plan-burst false left 0")
}

func TestSwitchesHoldForOverrides(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	over := func(key string) limiter.Descriptor {
		d := ask(2, entry(key, "bob"))
		d.Override = &limiter.Override{Quota: 1, Window: algotest.Minute}
		return d
	}
	f.expect([]string{f.outcome(over("user"))}, "denied, over per-user, counted per-user denied")
	f.set("off shop per-user")
	f.expect([]string{f.outcome(over("user"))}, "allowed, over nothing, counted nothing")
	f.expect([]string{f.outcome(over("nothing"))}, "denied, over override, counted unmatched, override denied")
	f.set("shadow shop")
	f.expect([]string{f.outcome(over("nothing"))}, "allowed, over override in shadow, counted unmatched, override shadow denied")
}

// TestSwitchesNeedNoStore holds that a store that does not answer keeps no
// switch from its effect.
func TestSwitchesNeedNoStore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		switches string
		want     string
		calls    int
	}{
		{"shadow", "allowed, over nothing, counted per-user failed", 1},
		{"shadow shop", "allowed, over nothing, counted per-user failed", 1},
		{"shadow shop per-user", "allowed, over nothing, counted per-user failed", 1},
		{"off shop per-user", "allowed, over nothing, counted nothing", 0},
		{"shadow edge", "store unavailable: gone", 1},
	} {
		f := newFixture(t)
		f.store.fail = fmt.Errorf("%w: gone", store.ErrUnavailable)
		f.set(test.switches)
		if got := f.outcome(ask(1, entry("user", "bob"))); got != test.want || f.store.calls != test.calls {
			t.Errorf("%q: %s after %d calls, want %s after %d", test.switches, got, f.store.calls, test.want, test.calls)
		}
	}
}

func TestASwitchThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, test := range []struct {
		s    limiter.Switch
		want string
	}{
		{sw("shadow shop per-usr"), `the domain "shop" has no limit "per-usr": see /policies for the names`},
		{sw("off edge per-user"), `the domain "edge" has no limit "per-user": see /policies for the names`},
		{sw("shadow shp"), `there is no domain "shp": see /policies for the names`},
		{sw("shadow shp per-user"), `there is no domain "shp": see /policies for the names`},
		{sw("shadow  per-user"), `the limit "per-user" needs its domain`},
		{sw("off"), "only a single limit can be off: name it, or put the whole into shadow"},
		{sw("off shop"), "only a single limit can be off: name it, or put the whole into shadow"},
		{limiter.Switch{}, "to enforce what the rules say, clear the switch"},
	} {
		if err := f.Switches().Set(test.s); err == nil || err.Error() != test.want {
			t.Errorf("%v: %v, want %s", test.s, err, test.want)
		}
	}
	if all := f.Switches().List(); len(all) > 0 {
		t.Errorf("set nonetheless: %v", all)
	}
	if _, ok := f.Switches().Clear(limiter.Target{}); ok {
		t.Error("cleared what was not set")
	}
}

func TestSwitchesExpire(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	at := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	for target, d := range map[string]time.Duration{"shadow shop": time.Hour, "off shop per-user": time.Minute, "off shop banned": 0} {
		s := sw(target)
		if d > 0 {
			s.Until = at.Add(d)
		}
		if err := f.Switches().Set(s); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, d := range []time.Duration{0, time.Minute - 1, time.Minute, time.Minute, time.Hour - 1, time.Hour, 1000 * time.Hour} {
		var over []string
		for _, s := range f.Switches().Expire(at.Add(d)) {
			over = append(over, s.Mode.String()+" "+s.Target.String())
		}
		got = append(got, fmt.Sprintf("%v: %v, %d left, %s", d, over, len(f.Switches().List()), f.outcome(ask(4, entry("user", "bob")))[:10]))
	}
	f.expect(got,
		"0s: [], 3 left, allowed, o",
		"59.999999999s: [], 3 left, allowed, o",
		`1m0s: [off limit "per-user" of the domain "shop"], 2 left, allowed, o`,
		"1m0s: [], 2 left, allowed, o",
		"59m59.999999999s: [], 2 left, allowed, o",
		`1h0m0s: [shadow domain "shop"], 1 left, denied, ov`,
		"1000h0m0s: [], 1 left, denied, ov",
	)
}

// TestSwitchesOutlastTheRules sets switches, changes the rules, and changes
// them back.
func TestSwitchesOutlastTheRules(t *testing.T) {
	t.Parallel()
	parse := func(text string) *policy.Snapshot {
		snapshot, err := file.Parse("rules.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return snapshot
	}
	full, less := parse(rules), parse("domain: edge\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 9, name: edge-user}}]")
	current := full
	l := limiter.New(memory.New(memory.Options{}), "memory", func() *policy.Snapshot { return current }, nobody{})
	for _, s := range []string{"shadow", "shadow shop", "off shop per-user", "off edge edge-user"} {
		if err := l.Switches().Set(sw(s)); err != nil {
			t.Fatal(err)
		}
	}
	idle := func() (states []bool) {
		for _, s := range l.Switches().List() {
			states = append(states, l.Switches().Idle(s.Target))
		}
		return states
	}
	if got := fmt.Sprint(idle()); got != "[false false false false]" {
		t.Errorf("idle at first: %s", got)
	}
	current = less
	if got := fmt.Sprint(idle()); got != "[false true true false]" {
		t.Errorf("idle without the domain: %s", got)
	}
	if got := l.Switches().Mode(less.Limits()[0]); got != limiter.Off {
		t.Errorf("a limit that was read again is %v", got)
	}
	current = full
	for _, limit := range full.Limits() {
		want := limiter.Shadowed
		if limit.Name == "per-user" || limit.Name == "edge-user" {
			want = limiter.Off
		}
		if got := l.Switches().Mode(limit); got != want {
			t.Errorf("%s is %v, want %v", limit.Name, got, want)
		}
	}
}

// TestEnforcePercent asks for more than there is on behalf of many, of a limit
// that is enforced for a tenth of them.
func TestEnforcePercent(t *testing.T) {
	t.Parallel()
	snapshot, err := file.Parse("rules.yaml", []byte(`
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1, name: some, enforce_percent: 10}
`))
	if err != nil {
		t.Fatal(err)
	}
	seen := new(observed)
	l := limiter.New(memory.New(memory.Options{}), "memory", func() *policy.Snapshot { return snapshot }, seen)
	denied := func(user string, override bool) bool {
		d := ask(2, entry("user", user))
		if override {
			d.Override = &limiter.Override{Quota: 1, Window: algotest.Hour}
		}
		var v limiter.Verdict
		req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{d}}
		if err := l.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); err != nil {
			t.Fatal(err)
		}
		if r := v.Statuses[0].Results[0]; r.Decision.Allowed || r.Shadow != v.Allowed || r.Shadow != v.Statuses[0].Allowed {
			t.Fatalf("allowed %t: %+v", v.Allowed, r)
		}
		return !v.Allowed
	}
	counts := map[string]int{}
	for i := range 10_000 {
		user := strconv.Itoa(i)
		first := denied(user, false)
		if denied(user, false) != first || denied(user, true) != first {
			t.Fatalf("user %s is enforced in part", user)
		}
	}
	for _, o := range *seen {
		counts[o]++
	}
	if d, s := counts["some denied"], counts["some shadow denied"]; d < 2700 || d > 3300 || d+s != 30_000 {
		t.Errorf("counted %v, want 3000 of 30000 denied and the rest in shadow", counts)
	}
	if err := l.Switches().Set(sw("shadow shop some")); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if denied(strconv.Itoa(i), false) {
			t.Fatal("a switch does not put the enforced keys into shadow")
		}
	}
}

// TestSwitchingWhileDeciding holds that each request is decided by the switches
// of one moment.
func TestSwitchingWhileDeciding(t *testing.T) {
	t.Parallel()
	snapshot, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(memory.New(memory.Options{}), "memory", func() *policy.Snapshot { return snapshot }, nobody{})
	var deciding sync.WaitGroup
	for range 4 {
		deciding.Go(func() {
			var v limiter.Verdict
			req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{ask(4, entry("user", "bob")), ask(4, entry("user", "bob"))}}
			for range 2000 {
				if err := l.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); err != nil {
					t.Error(err)
					return
				}
				if v.Statuses[0].Allowed != v.Statuses[1].Allowed || len(v.Statuses[0].Results) != len(v.Statuses[1].Results) {
					t.Errorf("one request, two minds: %+v", v.Statuses)
					return
				}
			}
		})
	}
	for i := range 500 {
		for _, s := range []string{"shadow", "shadow shop", "shadow shop per-user", "off shop per-user"} {
			set := sw(s)
			set.Until = time.Unix(int64(i), 0)
			if err := l.Switches().Set(set); err != nil {
				t.Fatal(err)
			}
		}
		l.Switches().List()
		l.Switches().Clear(limiter.Target{Domain: "shop"})
		l.Switches().Expire(time.Unix(int64(i), 0))
	}
	deciding.Wait()
	if all := l.Switches().List(); len(all) != 0 {
		t.Errorf("left: %v", all)
	}
}

// underRace reports whether the race detector is on, which makes pools forget.
func underRace() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// TestSwitchesCostNoAllocation holds a decision to the one allocation that it
// has always had, the key, with switches and without.
func TestSwitchesCostNoAllocation(t *testing.T) {
	snapshot, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(memory.New(memory.Options{}), "memory", func() *policy.Snapshot { return snapshot }, nobody{})
	var v limiter.Verdict
	for _, test := range []struct {
		descriptor limiter.Descriptor
		want       float64
	}{
		{ask(1, entry("user", "bob")), 1},
		{ask(1, entry("nothing", "here")), 0},
	} {
		req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{test.descriptor}}
		for _, s := range []string{"", "shadow edge", "shadow", "shadow shop per-user", "off shop banned"} {
			if s != "" {
				if err := l.Switches().Set(sw(s)); err != nil {
					t.Fatal(err)
				}
			}
			got := testing.AllocsPerRun(1000, func() {
				if err := l.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); err != nil {
					t.Fatal(err)
				}
			})
			if got != test.want && !(underRace() && got == test.want+1) {
				t.Errorf("%v with %q: %v allocations, want %v", test.descriptor.Entries, s, got, test.want)
			}
			for _, set := range l.Switches().List() {
				l.Switches().Clear(set.Target)
			}
		}
	}
}
