package limiter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/redistest"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/redis"
)

const sixWays = `
domain: shop
descriptors:
  - {key: a, rate_limit: {unit: second, requests_per_unit: 7, algorithm: fixed_window, name: a}}
  - {key: b, rate_limit: {unit: second, requests_per_unit: 7, algorithm: sliding_window_log, name: b}}
  - {key: c, rate_limit: {unit: second, requests_per_unit: 7, algorithm: sliding_window_counter, name: c}}
  - {key: d, rate_limit: {unit: second, requests_per_unit: 7, algorithm: token_bucket, burst: 5, name: d}}
  - {key: e, rate_limit: {unit: second, requests_per_unit: 7, algorithm: leaky_bucket, burst: 5, max_delay: 400ms, name: e}}
  - {key: f, rate_limit: {unit: second, requests_per_unit: 7, algorithm: gcra, burst: 5, name: f}}
  - key: g
    rate_limits:
      - {unit: second, requests_per_unit: 7, name: g1}
      - {unit: minute, requests_per_unit: 100, algorithm: token_bucket, burst: 6, name: g2}
      - {unit: second, requests_per_unit: 1, algorithm: gcra, shadow: true, name: g3}
  - {key: h, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 5, algorithm: gcra, name: h}}
  - {key: i, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 6, name: i}}
  - {key: j, rate_limit: {unit: second, requests_per_unit: 9, name: j, replaces: [{name: a}]}}
  - {key: k, rate_limit: {unit: second, requests_per_unit: 0, name: k}}
`

// TestExplainForetellsDecide asks why and then for the answer, of buckets of
// every algorithm in every state, and holds that asking changed nothing.
func TestExplainForetellsDecide(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		foretells(fixtureOf(t, sixWays))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		s, err := redis.New(redis.Options{URL: redistest.Start(t).URL(), Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		f := fixtureOf(t, sixWays)
		f.store.Store = s
		foretells(f)
	})
}

func foretells(f *fixture) {
	t := f.t
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	now, denied := time.UnixMicro(algotest.Epoch), 0
	for range 4_000 {
		now = now.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
		q := limiter.Question{Domain: "shop", Cost: rng.Int64N(9)}
		req := &limiter.Request{Domain: "shop", CanWait: true}
		for range 1 + rng.IntN(3) {
			d := policy.Descriptor{entry(string(rune('a'+rng.IntN(12))), "x")}
			q.Descriptors = append(q.Descriptors, d)
			req.Descriptors = append(req.Descriptors, ask(q.Cost, d...))
		}
		before := len(*f.observed)
		first, second := f.Explain(context.Background(), now, q), f.Explain(context.Background(), now, q)
		if fmt.Sprintf("%+v", first) != fmt.Sprintf("%+v", second) {
			t.Fatalf("asking changed the answer from %+v to %+v", first, second)
		}
		if len(*f.observed) != before {
			t.Fatal("asking was counted")
		}
		var v limiter.Verdict
		if err := f.Decide(context.Background(), now, req, &v); err != nil {
			t.Fatal(err)
		}
		if first.Allowed != v.Allowed || !twice(q.Descriptors) && first.RetryAfter != retryAfter(&v) || first.Err != nil {
			t.Fatalf("%v at a cost of %d: explained as %t, retry after %d; decided as %t, %d", q.Descriptors, q.Cost,
				first.Allowed, first.RetryAfter, v.Allowed, retryAfter(&v))
		}
		if !v.Allowed {
			denied++
		}
	}
	if denied < 400 || denied > 3_600 {
		t.Errorf("%d were denied", denied)
	}
}

// twice reports whether a descriptor is there twice: the second is told when
// both together would be admitted.
func twice(descriptors []policy.Descriptor) bool {
	for i, d := range descriptors {
		if slices.ContainsFunc(descriptors[:i], func(other policy.Descriptor) bool { return slices.Equal(d, other) }) {
			return true
		}
	}
	return false
}

// retryAfter is the longest of the limits that are enforced, or Never.
func retryAfter(v *limiter.Verdict) (wait int64) {
	if v.Allowed {
		return 0
	}
	for _, s := range v.Statuses {
		for _, r := range s.Results {
			switch {
			case r.Decision.Allowed || r.Limit.Shadow || wait == algo.Never:
			case r.Decision.RetryAfter == algo.Never:
				wait = algo.Never
			default:
				wait = max(wait, r.Decision.RetryAfter)
			}
		}
	}
	return wait
}

// why is an explanation in short.
func (f *fixture) why(cost int64, descriptors ...policy.Descriptor) []string {
	f.t.Helper()
	x := f.Explain(context.Background(), time.UnixMicro(algotest.Epoch),
		limiter.Question{Domain: "shop", Descriptors: descriptors, Cost: cost})
	out := []string{fmt.Sprintf("allowed %t retry after %v by %s", x.Allowed, time.Duration(x.RetryAfter)*time.Microsecond, x.Store)}
	if x.Unknown {
		out[0] = "unknown by " + x.Store
	}
	if x.Err != nil {
		out[0] += ", " + x.Err.Error()
	}
	for _, e := range x.Descriptors {
		rule := "no rule"
		if e.Rule != nil {
			rule = e.Rule.Path + " " + e.Key
		}
		out = append(out, rule)
		for _, s := range e.Limits {
			switch {
			case s.Replaced:
				out = append(out, s.Name+" replaced")
			case s.Err != nil:
				out = append(out, s.Name+" unknown")
			default:
				out = append(out, fmt.Sprintf("%s %t left %d owed %d", s.Name, s.Allowed, s.Remaining, s.Debt))
			}
		}
	}
	return out
}

func TestExplainSaysHowBucketsStand(t *testing.T) {
	t.Parallel()
	one := func(key, value string) policy.Descriptor { return policy.Descriptor{entry(key, value)} }
	f := grammarFixture(t)
	f.expect(f.why(1, one("user", "bob")), "allowed true retry after 0s by memory", "user shop/user=bob", "per-user true left 4 owed 0")
	f.told(ask(3, entry("user", "bob")))
	f.expect(f.why(1, one("user", "bob")), "allowed true retry after 0s by memory", "user shop/user=bob", "per-user true left 1 owed 0")
	f.expect(f.why(5, one("user", "bob")), "allowed false retry after -1µs by memory", "user shop/user=bob", "per-user false left 1 owed 0")
	f.expect(f.why(1, one("user", "bob"), one("user", "bob")), "allowed false retry after 1m0s by memory",
		"user shop/user=bob", "per-user true left 1 owed 0", "user shop/user=bob", "per-user false left 1 owed 0")
	f.expect(f.why(9, one("user", "bob"), one("partner", "x")), "allowed true retry after 0s by memory",
		"user shop/user=bob", "per-user replaced", "partner shop/partner=x", "partner true left 10 owed 0")
	f.expect(f.why(1, one("friend", "x"), one("no", "such")), "allowed true retry after 0s by none", "friend ", "no rule")

	f.told(ask(12, entry("lax", "x")), ask(0, entry("user", "bob")))
	f.expect(f.why(1, one("lax", "x")), "allowed false retry after 0s by memory", "lax shop/lax=x", "lax false left 0 owed 2")
	f.expect(f.why(0, one("lax", "x")), "allowed false retry after 18s by memory", "lax shop/lax=x", "lax false left 0 owed 2")
	f.expect(f.why(99, one("lax", "y")), "allowed false retry after 0s by memory", "lax shop/lax=y", "lax false left 10 owed 0")
}

// TestExplainWithoutTheStore holds that what is denied for certain is, and that
// the rest is explained.
func TestExplainWithoutTheStore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.fail = fmt.Errorf("%w: gone", store.ErrUnavailable)
	user, banned := policy.Descriptor{entry("user", "bob")}, policy.Descriptor{entry("banned", "")}
	f.expect(f.why(1, user), "unknown by memory, store unavailable: gone", "user shop/user=bob", "per-user unknown")
	f.expect(f.why(4, user), "allowed false retry after -1µs by memory, store unavailable: gone", "user shop/user=bob", "per-user unknown")
	f.expect(f.why(1, policy.Descriptor{entry("shaded", "")}), "allowed true retry after 0s by memory, store unavailable: gone",
		"shaded shop/shaded=", "shaded unknown")
	f.expect(f.why(1, banned), "allowed false retry after -1µs by none", "banned shop/banned=", "banned false left 0 owed 0")
	f.expect(f.why(1, user, banned), "allowed false retry after -1µs by memory, store unavailable: gone",
		"user shop/user=bob", "per-user unknown", "banned shop/banned=", "banned false left 0 owed 0")
	f.expect(*f.observed)
	if f.store.calls != 4 {
		t.Errorf("the store was asked %d times", f.store.calls)
	}
}

// TestExplainKnowsWhatIsInForce holds that switches and percentages count in what
// is foretold.
func TestExplainKnowsWhatIsInForce(t *testing.T) {
	t.Parallel()
	f := fixtureOf(t, `
domain: shop
descriptors:
  - key: user
    rate_limits:
      - {unit: minute, requests_per_unit: 1, name: minute}
      - {unit: hour, requests_per_unit: 0, name: hour}
      - {unit: day, requests_per_unit: 0, name: day, enforce_percent: 0}
`)
	for _, test := range []struct {
		limit   string
		mode    limiter.Mode
		allowed bool
		modes   []limiter.Mode
	}{
		{"", 0, false, []limiter.Mode{limiter.Enforced, limiter.Enforced, limiter.Shadowed}},
		{"minute", limiter.Shadowed, false, []limiter.Mode{limiter.Shadowed, limiter.Enforced, limiter.Shadowed}},
		{"hour", limiter.Shadowed, true, []limiter.Mode{limiter.Enforced, limiter.Shadowed, limiter.Shadowed}},
		{"hour", limiter.Off, true, []limiter.Mode{limiter.Enforced, limiter.Off, limiter.Shadowed}},
	} {
		if test.limit != "" {
			target := limiter.Target{Domain: "shop", Limit: test.limit}
			if err := f.Switches().Set(limiter.Switch{Target: target, Mode: test.mode}); err != nil {
				t.Fatal(err)
			}
		}
		x := f.Explain(context.Background(), time.UnixMicro(algotest.Epoch), limiter.Question{
			Domain: "shop", Descriptors: []policy.Descriptor{{entry("user", "bob")}}, Cost: 1,
		})
		var modes []limiter.Mode
		for _, l := range x.Descriptors[0].Limits {
			modes = append(modes, l.Mode)
		}
		if x.Allowed != test.allowed || !slices.Equal(modes, test.modes) {
			t.Errorf("%s %v: allowed %t, in force %v, want %t, %v", test.limit, test.mode, x.Allowed, modes, test.allowed, test.modes)
		}
		if test.limit != "" {
			f.Switches().Clear(limiter.Target{Domain: "shop", Limit: test.limit})
		}
	}
}
