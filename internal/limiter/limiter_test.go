package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/memory"
)

const rules = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3, name: per-user}
  - key: plan
    value: premium
    rate_limits:
      - {unit: minute, requests_per_unit: 10, name: plan-minute}
      - {unit: hour, requests_per_unit: 12, algorithm: token_bucket, burst: 4, name: plan-burst}
  - key: shaded
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1, name: shaded}
  - key: mixed
    rate_limits:
      - {unit: minute, requests_per_unit: 5, name: enforced}
      - {unit: hour, requests_per_unit: 1, shadow: true, name: tried}
  - key: banned
    rate_limit: {unit: minute, requests_per_unit: 0, name: banned}
  - key: free
    rate_limit: {unlimited: true}
  - key: user
    value: boss
  - key: queue
    rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, burst: 5, max_delay: 2s, name: queue}
---
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5, name: edge-user}
`

// observed counts what a limiter reports.
type observed []string

func (o *observed) Decided(l *policy.Limit, outcome limiter.Outcome) {
	*o = append(*o, fmt.Sprint(l.Name, " ", []string{"allowed", "denied", "shadow denied", "peeked", "failed"}[outcome]))
}

func (o *observed) DecidedValue(l *policy.Limit, value string, outcome limiter.Outcome) {
	*o = append(*o, fmt.Sprint(l.Name, " of ", value, " ", []string{"allowed", "denied", "shadow denied", "peeked", "failed"}[outcome]))
}

func (o *observed) Failing(error)                           {}
func (o *observed) UnknownDomain(string, policy.Descriptor) { *o = append(*o, "unknown domain") }
func (o *observed) Unmatched(string, policy.Descriptor)     { *o = append(*o, "unmatched") }

// countingStore counts calls, and fails if told to.
type countingStore struct {
	store.Store

	calls int
	fail  error
}

func (s *countingStore) Take(ctx context.Context, now time.Time, ops []store.Op) error {
	s.calls++
	if s.fail != nil {
		return s.fail
	}
	return s.Store.Take(ctx, now, ops)
}

type fixture struct {
	*limiter.Limiter

	t        *testing.T
	observed *observed
	store    *countingStore
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return fixtureOf(t, rules)
}

func fixtureOf(t *testing.T, rules string) *fixture {
	t.Helper()
	snapshot, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, observed: new(observed), store: &countingStore{Store: memory.New(memory.Options{})}}
	f.Limiter = limiter.New(f.store, "memory", func() *policy.Snapshot { return snapshot }, f.observed)
	return f
}

func ask(cost int64, entries ...policy.Entry) limiter.Descriptor {
	return limiter.Descriptor{Entries: entries, Cost: cost}
}

func entry(key, value string) policy.Entry { return policy.Entry{Key: key, Value: value} }

// told is a verdict in short: a line for the request, then one for each limit.
func (f *fixture) told(descriptors ...limiter.Descriptor) []string {
	f.t.Helper()
	return f.toldOf("shop", descriptors...)
}

func (f *fixture) toldOf(domain string, descriptors ...limiter.Descriptor) []string {
	f.t.Helper()
	var v limiter.Verdict
	req := &limiter.Request{Domain: domain, Descriptors: descriptors}
	if err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); err != nil {
		f.t.Fatal(err)
	}
	if len(v.Statuses) != len(descriptors) {
		f.t.Fatalf("%d statuses for %d descriptors", len(v.Statuses), len(descriptors))
	}
	out := []string{fmt.Sprint("allowed ", v.Allowed)}
	for i, s := range v.Statuses {
		rule := "no rule"
		if s.Rule != nil {
			rule = s.Rule.Path
		}
		out = append(out, fmt.Sprintf("%d %s %t", i, rule, s.Allowed))
		for _, r := range s.Results {
			out = append(out, fmt.Sprintf("%s %t left %d", r.Limit.Name, r.Decision.Allowed, r.Decision.Remaining))
		}
	}
	return out
}

func (f *fixture) expect(got []string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Error(diff)
	}
}

func TestTakesAndDenies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.expect(f.told(ask(2, entry("user", "bob"))), "allowed true", "0 user true", "per-user true left 1")
	f.expect(f.told(ask(2, entry("user", "bob"))), "allowed false", "0 user false", "per-user false left 1")
	f.expect(f.told(ask(0, entry("user", "bob"))), "allowed true", "0 user true", "per-user true left 1")
	f.expect(f.told(ask(3, entry("user", "eve"))), "allowed true", "0 user true", "per-user true left 0")
	f.expect(*f.observed, "per-user allowed", "per-user denied", "per-user peeked", "per-user allowed")
}

func TestSeveralLimitsAndDescriptorsAreAllOrNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.expect(f.told(ask(3, entry("plan", "premium"))),
		"allowed true", "0 plan=premium true", "plan-minute true left 7", "plan-burst true left 1")
	f.expect(f.told(ask(1, entry("user", "bob")), ask(2, entry("plan", "premium"))),
		"allowed false", "0 user true", "per-user true left 3",
		"1 plan=premium false", "plan-minute true left 7", "plan-burst false left 1")
	f.expect(f.told(ask(3, entry("user", "bob"))), "allowed true", "0 user true", "per-user true left 0")
}

func TestSameDescriptorTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	twice := ask(1, entry("user", "bob"))
	f.expect(f.told(twice, twice), "allowed true",
		"0 user true", "per-user true left 2", "1 user true", "per-user true left 1")
	f.expect(f.told(twice, twice), "allowed false",
		"0 user true", "per-user true left 1", "1 user false", "per-user false left 1")
}

func TestShadow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.expect(f.told(ask(2, entry("shaded", ""))), "allowed true", "0 shaded true", "shaded false left 1")
	f.expect(f.told(ask(2, entry("mixed", ""))), "allowed true", "0 mixed true", "enforced true left 3", "tried false left 1")
	f.expect(f.told(ask(4, entry("mixed", ""))), "allowed false", "0 mixed false", "enforced false left 3", "tried false left 1")
	f.expect(*f.observed, "shaded shadow denied", "enforced allowed", "tried shadow denied", "enforced denied", "tried shadow denied")
}

func TestWithoutTheStore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.expect(f.toldOf("nowhere", ask(1, entry("user", "bob")), ask(1)), "allowed true", "0 no rule true", "1 no rule true")
	f.expect(f.told(ask(1, entry("nothing", "here")), ask(1)), "allowed true", "0 no rule true", "1 no rule true")
	f.expect(f.told(ask(1, entry("free", ""))), "allowed true", "0 free true")
	f.expect(f.told(ask(1, entry("user", "boss"))), "allowed true", "0 user=boss true")
	f.expect(f.told(ask(1, entry("banned", ""))), "allowed false", "0 banned false", "banned false left 0")
	if f.store.calls != 0 {
		t.Errorf("the store was asked %d times", f.store.calls)
	}
	f.expect(*f.observed, "unknown domain", "unmatched", "unmatched", "banned denied")

	f.expect(f.told(ask(1, entry("user", "bob")), ask(1, entry("banned", ""))),
		"allowed false", "0 user true", "per-user true left 3", "1 banned false", "banned false left 0")
	f.expect(f.told(ask(3, entry("user", "bob"))), "allowed true", "0 user true", "per-user true left 0")
}

func TestEachDescriptorMayHaveItsDomain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	of := func(domain string) limiter.Descriptor {
		d := ask(2, entry("user", "bob"))
		d.Domain = domain
		return d
	}
	f.expect(f.toldOf("shop", of("edge"), of(""), of("nowhere"), of("nowhere"), of("edge")), "allowed true",
		"0 user true", "edge-user true left 3", "1 user true", "per-user true left 1",
		"2 no rule true", "3 no rule true", "4 user true", "edge-user true left 1")
	f.expect(f.toldOf("", of("shop"), of("edge")), "allowed false",
		"0 user false", "per-user false left 1", "1 user false", "edge-user false left 1")
	f.expect(*f.observed, "unknown domain", "edge-user allowed", "per-user allowed", "edge-user allowed",
		"per-user denied", "edge-user denied")
}

// TestWaiting asks a queue of 5 that drains one a second, of which nothing may
// wait for more than 2 s.
func TestWaiting(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		canWait bool
		want    []string
	}{
		{true, []string{"true 0s", "true 1s", "true 2s", "false 0s", "false 0s", "false 0s"}},
		{false, []string{"true 0s", "true 0s", "true 0s", "true 0s", "true 0s", "false 0s"}},
	} {
		f := newFixture(t)
		req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{ask(1, entry("queue", "x"))}, CanWait: test.canWait}
		var got []string
		var v limiter.Verdict
		for range test.want {
			if err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); err != nil {
				t.Fatal(err)
			}
			delay := time.Duration(v.Statuses[0].Results[0].Decision.Delay) * time.Microsecond
			got = append(got, fmt.Sprint(v.Allowed, " ", delay))
		}
		f.expect(got, test.want...)
	}
}

func TestWhatDecided(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for want, descriptors := range map[string][]limiter.Descriptor{
		"none":          {ask(1, entry("banned", ""))},
		"memory memory": {ask(1, entry("banned", "")), ask(1, entry("user", "bob"))},
	} {
		var v limiter.Verdict
		if err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), &limiter.Request{Domain: "shop", Descriptors: descriptors}, &v); err != nil {
			t.Fatal(err)
		}
		var by []string
		for _, s := range v.Statuses {
			for _, r := range s.Results {
				by = append(by, r.DecidedBy)
			}
		}
		f.expect(by, strings.Fields(want)...)
	}
}

func TestGiveBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.told(ask(3, entry("user", "bob")))
	refund := ask(2, entry("user", "bob"))
	refund.Give = true
	f.expect(f.told(refund), "allowed true", "0 user true", "per-user true left 2")
	refund.Cost = 100
	f.expect(f.told(refund), "allowed true", "0 user true", "per-user true left 3")
}

func TestOverride(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	with := func(d limiter.Descriptor, quota, window int64) limiter.Descriptor {
		d.Override = &limiter.Override{Quota: quota, Window: window}
		return d
	}
	// It replaces the limits of the rule, and counts by its algorithm.
	f.expect(f.told(with(ask(4, entry("user", "bob")), 5, algotest.Minute)), "allowed true", "0 user true", "per-user true left 1")
	f.expect(f.told(with(ask(4, entry("user", "bob")), 8, algotest.Minute)), "allowed true", "0 user true", "per-user true left 0")
	f.expect(f.told(with(ask(1, entry("user", "bob")), 5, algotest.Minute)), "allowed false", "0 user false", "per-user false left 0")
	f.expect(f.told(with(ask(1, entry("user", "bob")), 5, algotest.Hour)), "allowed true", "0 user true", "per-user true left 4")
	f.expect(f.told(ask(1, entry("user", "bob"))), "allowed true", "0 user true", "per-user true left 2")
	// Shadow stays.
	f.expect(f.told(with(ask(3, entry("shaded", "")), 2, algotest.Minute)), "allowed true", "0 shaded true", "shaded false left 2")
	// Without a rule, or one with limits, it is a fixed window.
	f.expect(f.told(with(ask(1, entry("nothing", "here")), 1, algotest.Minute)), "allowed true", "0 no rule true", "override true left 0")
	f.expect(f.told(with(ask(1, entry("nothing", "here")), 1, algotest.Minute)), "allowed false", "0 no rule false", "override false left 0")
	f.expect(f.told(with(ask(1, entry("free", "")), 0, algotest.Minute)), "allowed false", "0 free false", "override false left 0")

	var v limiter.Verdict
	req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{with(ask(1, entry("user", "bob")), 5, 401*algotest.Day)}}
	if err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); !errors.Is(err, limiter.ErrOverride) {
		t.Errorf("401 days: %v, want ErrOverride", err)
	}
}

func TestStoreFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.fail = fmt.Errorf("%w: gone", store.ErrUnavailable)
	var v limiter.Verdict
	req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{ask(1, entry("user", "bob"))}}
	if err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	f.expect(*f.observed, "per-user failed")
}

func TestNoRoom(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.Store = memory.New(memory.Options{MaxBuckets: 1})
	f.told(ask(1, entry("user", "bob")))
	var v limiter.Verdict
	req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{ask(1, entry("user", "eve"))}}
	err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v)
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v, want ErrUnavailable and ErrFull", err)
	}
}

// TestVerdictIsUsedAgain holds that nothing of one answer shows in the next.
func TestVerdictIsUsedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var v limiter.Verdict
	for range 2 {
		for _, d := range [][]limiter.Descriptor{
			{ask(1, entry("plan", "premium")), ask(9, entry("user", "bob"))},
			{ask(1, entry("nothing", "here"))},
			{ask(1, entry("free", "")), ask(1, entry("user", "eve"))},
		} {
			var fresh limiter.Verdict
			peeks := slices.Clone(d)
			for i := range peeks {
				peeks[i].Cost = 0
			}
			req := &limiter.Request{Domain: "shop", Descriptors: peeks}
			for _, out := range []*limiter.Verdict{&v, &fresh} {
				if err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, out); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(fresh.Statuses, v.Statuses, cmpopts.IgnoreUnexported(policy.Rule{})); diff != "" || fresh.Allowed != v.Allowed {
				t.Error(diff)
			}
		}
	}
}

type nobody struct{}

func (nobody) DecidedValue(*policy.Limit, string, limiter.Outcome) {}
func (nobody) Decided(*policy.Limit, limiter.Outcome)              {}
func (nobody) Failing(error)                                       {}
func (nobody) UnknownDomain(string, policy.Descriptor)             {}
func (nobody) Unmatched(string, policy.Descriptor)                 {}

func BenchmarkDecide(b *testing.B) {
	snapshot, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		b.Fatal(err)
	}
	l := limiter.New(memory.New(memory.Options{}), "memory", func() *policy.Snapshot { return snapshot }, nobody{})
	req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{ask(1, entry("user", "bob"))}}
	var v limiter.Verdict
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDenialGoesBeforeFailure holds that a request that is denied for certain
// is denied, though another of its limits cannot be had.
func TestDenialGoesBeforeFailure(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.Store = memory.New(memory.Options{MaxBuckets: 1})
	f.told(ask(3, entry("user", "bob")))
	f.expect(f.told(ask(1, entry("user", "bob")), ask(1, entry("user", "new"))),
		"allowed false", "0 user false", "per-user false left 0", "1 user true")

	f.store.fail = fmt.Errorf("%w: gone", store.ErrUnavailable)
	f.expect(f.told(ask(1, entry("banned", "")), ask(1, entry("user", "bob"))),
		"allowed false", "0 banned false", "banned false left 0", "1 user true")
	f.expect(f.told(ask(1, entry("user", "bob")), ask(4, entry("user", "eve"))),
		"allowed false", "0 user true", "1 user false", "per-user false left 3")
}

// TestNeverTogether holds that a request that wants more of one bucket than it
// holds, in parts, is told so.
func TestNeverTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct{ first, second, want int64 }{{2, 2, algo.Never}, {1, 2, 0}} {
		var v limiter.Verdict
		req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{
			ask(c.first, entry("user", "bob")), ask(c.second, entry("user", "bob")),
		}}
		if err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); err != nil {
			t.Fatal(err)
		}
		if got := v.Statuses[1].Results[0].Decision.RetryAfter; got != c.want {
			t.Errorf("%d and %d of 3: retry after %d, want %d", c.first, c.second, got, c.want)
		}
	}
}
