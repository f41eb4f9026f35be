package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/limiter"
)

const grammar = `
domain: shop
descriptors:
  - key: bucket
    value: a
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 2, name: first}
  - key: bucket
    value: b
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 3, name: second}
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 4, name: per-user}
  - key: partner
    rate_limit: {unit: minute, requests_per_unit: 10, name: partner, replaces: [{name: per-user}, {name: first}]}
  - key: friend
    rate_limit: {unlimited: true, replaces: [{name: per-user}]}
  - key: model
    rate_limit: {unit: minute, requests_per_unit: 1000, name: tokens}
  - key: strict
    rate_limit: {unit: minute, requests_per_unit: 1000, name: strict, overdraft: off}
  - key: lax
    rate_limit: {unit: minute, requests_per_unit: 10, name: lax, algorithm: token_bucket, overdraft: on}
  - key: bucketed
    rate_limit: {unit: minute, requests_per_unit: 10, name: bucketed, algorithm: token_bucket}
  - key: capped
    rate_limit: {unit: minute, requests_per_unit: 10, name: capped, algorithm: gcra, burst: 5, max_override: 100, shadow: true}
  - key: several
    rate_limits:
      - {unit: second, requests_per_unit: 5, name: tried, shadow: true}
      - {unit: day, requests_per_unit: 10, name: daily, max_override: 20}
      - {unit: minute, requests_per_unit: 9, name: minutely, max_override: 15}
  - key: path
    value: /api/*
    share_threshold: true
    value_to_metric: true
    rate_limit: {unit: minute, requests_per_unit: 3, name: api}
  - key: item
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 3, name: item}
`

func grammarFixture(t *testing.T) *fixture {
	t.Helper()
	return fixtureOf(t, grammar)
}

// TestQuotaMode holds all that two quota descriptors and a strict one can come
// to: the quota ones deny together only, and one that is over is not charged.
func TestQuotaMode(t *testing.T) {
	t.Parallel()
	a, b, user := ask(1, entry("bucket", "a")), ask(1, entry("bucket", "b")), ask(1, entry("user", "bob"))
	f := grammarFixture(t)
	f.expect(f.told(a, b), "allowed true", "0 bucket=a true", "first true left 1", "1 bucket=b true", "second true left 2")
	f.expect(f.told(a, b), "allowed true", "0 bucket=a true", "first true left 0", "1 bucket=b true", "second true left 1")
	f.expect(f.told(a, b, user), "allowed true",
		"0 bucket=a false", "first false left 0", "1 bucket=b true", "second true left 0", "2 user true", "per-user true left 3")
	f.expect(f.told(a, b, user), "allowed false",
		"0 bucket=a false", "first false left 0", "1 bucket=b false", "second false left 0", "2 user true", "per-user true left 3")
	f.expect(f.told(a), "allowed false", "0 bucket=a false", "first false left 0")
	f.expect(f.told(ask(4, entry("user", "bob"))), "allowed false", "0 user false", "per-user false left 3")

	// A strict one that is over denies whatever quotas have left.
	f = grammarFixture(t)
	f.expect(f.told(a, ask(5, entry("user", "bob"))), "allowed false",
		"0 bucket=a true", "first true left 2", "1 user false", "per-user false left 4")
}

func TestReplaces(t *testing.T) {
	t.Parallel()
	f := grammarFixture(t)
	user := ask(1, entry("user", "bob"))
	f.expect(f.told(user, ask(1, entry("partner", "x"))), "allowed true", "0 user true", "1 partner true", "partner true left 9")
	f.expect(f.told(ask(1, entry("friend", "x")), user), "allowed true", "0 friend true", "1 user true")
	f.expect(f.told(ask(1, entry("bucket", "a")), ask(1, entry("partner", "x")), ask(1, entry("bucket", "b"))), "allowed true",
		"0 bucket=a true", "1 partner true", "partner true left 8", "2 bucket=b true", "second true left 2")
	f.expect(f.told(ask(4, entry("user", "bob"))), "allowed true", "0 user true", "per-user true left 0")
	f.expect(*f.observed, "partner allowed", "partner allowed", "second allowed", "per-user allowed")
}

// TestOverdraft plays what Envoy does with a cost that it learns of afterwards:
// a peek before the request, a charge after it.
func TestOverdraft(t *testing.T) {
	t.Parallel()
	postPaid := func(cost int64, key string) limiter.Descriptor {
		d := ask(cost, entry(key, "x"))
		d.PostPaid = true
		return d
	}
	f := grammarFixture(t)
	f.expect(f.told(postPaid(0, "model")), "allowed true", "0 model true", "tokens true left 1000")
	f.expect(f.told(postPaid(10_000, "model")), "allowed false", "0 model false", "tokens false left 0")
	f.expect(f.told(postPaid(0, "model")), "allowed false", "0 model false", "tokens false left 0")

	// A cost of the whole call is not of the descriptor's own; neither is it if
	// the limit is not one of the reference's.
	f.expect(f.told(ask(10_000, entry("model", "y"))), "allowed false", "0 model false", "tokens false left 1000")
	for _, key := range []string{"strict", "bucketed"} {
		before := f.told(postPaid(0, key))
		f.told(postPaid(10_000, key))
		f.expect(f.told(postPaid(0, key)), before...)
	}
	f.expect(f.told(ask(25, entry("lax", "x"))), "allowed false", "0 lax false", "lax false left 0")
	f.expect(f.told(ask(0, entry("lax", "x"))), "allowed false", "0 lax false", "lax false left 0")
}

// TestOverrides brings limits along for a rule of 10 a minute with a burst of 5
// and at most 100 a minute.
func TestOverrides(t *testing.T) {
	t.Parallel()
	f := grammarFixture(t)
	for _, test := range []struct {
		quota  int64
		window int64
		want   string
	}{
		{20, algotest.Minute, "capped gcra 20 per 1m0s, burst 10, shadow true"},
		{5, algotest.Minute, "capped gcra 5 per 1m0s, burst 2, shadow true"},
		{1, algotest.Hour, "capped gcra 1 per 1h0m0s, burst 1, shadow true"},
		{600, algotest.Hour, "capped gcra 10 per 1m0s, burst 5, shadow true"},
		{100, algotest.Minute, "capped gcra 100 per 1m0s, burst 50, shadow true"},
		{101, algotest.Minute, "capped gcra 100 per 1m0s, burst 50, shadow true"},
		{2, algotest.Second, "capped gcra 100 per 1m0s, burst 50, shadow true"},
		{1 << 32, 1000, "capped gcra 100 per 1m0s, burst 50, shadow true"},
		{6000, algotest.Hour, "capped gcra 100 per 1m0s, burst 50, shadow true"},
		{1728000, 24 * algotest.Hour, "capped gcra 100 per 1m0s, burst 50, shadow true"},
		{1440, 24 * algotest.Hour, "capped gcra 1 per 1m0s, burst 1, shadow true"},
		{1000, 24 * algotest.Hour, "capped gcra 100 per 24h0m0s, burst 1, shadow true"},
		{0, algotest.Minute, "capped gcra 0 per 1m0s, burst 0, shadow true"},
	} {
		d := ask(1, entry("capped", fmt.Sprint(test.quota, test.window)))
		d.Override = &limiter.Override{Quota: test.quota, Window: test.window}
		var v limiter.Verdict
		req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{d}}
		if err := f.Decide(context.Background(), time.UnixMicro(algotest.Epoch), req, &v); err != nil {
			t.Fatal(err)
		}
		l := v.Statuses[0].Results[0].Limit
		got := fmt.Sprintf("%s %v %d per %v, burst %d, shadow %t", l.Name, l.Algorithm, l.Quota,
			time.Duration(l.Window)*time.Microsecond, l.Burst, l.Shadow)
		if got != test.want {
			t.Errorf("%d per %d µs: got %s, want %s", test.quota, test.window, got, test.want)
		}
	}
}

func TestSharedBuckets(t *testing.T) {
	t.Parallel()
	f := grammarFixture(t)
	f.expect(f.told(ask(2, entry("path", "/api/a"))), "allowed true", "0 path=%2Fapi%2F* true", "api true left 1")
	f.expect(f.told(ask(2, entry("path", "/api/b"))), "allowed false", "0 path=%2Fapi%2F* false", "api false left 1")
	f.told(ask(1, entry("item", "7")))
	f.expect(*f.observed, "api allowed", "api of path=%2Fapi%2F* allowed", "api denied", "api of path=%2Fapi%2F* denied",
		"item allowed", "item of item=7 allowed")
}

// TestOverrideOfSeveralLimits holds that the one that stands in for several is no
// weaker than any of them has it.
func TestOverrideOfSeveralLimits(t *testing.T) {
	t.Parallel()
	f := grammarFixture(t)
	d := ask(16, entry("several", "x"))
	d.Override = &limiter.Override{Quota: 1_000_000, Window: 24 * algotest.Hour}
	f.expect(f.told(d), "allowed false", "0 several false", "daily false left 15")
	d.Cost = 15
	f.expect(f.told(d), "allowed true", "0 several true", "daily true left 0")
}

// TestOverridesWithoutARuleAreNobodys holds that a limit of the name that they go
// by has no say in them.
func TestOverridesWithoutARuleAreNobodys(t *testing.T) {
	t.Parallel()
	f := fixtureOf(t, `
domain: shop
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 3, name: override}
  - key: b
    rate_limit: {unlimited: true, replaces: [{name: override}]}
`)
	if err := f.Switches().Set(limiter.Switch{Target: limiter.Target{Domain: "shop", Limit: "override"}, Mode: limiter.Off}); err != nil {
		t.Fatal(err)
	}
	d := ask(1, entry("unknown", "x"))
	d.Override = &limiter.Override{Quota: 0, Window: algotest.Hour}
	f.expect(f.told(d, ask(1, entry("b", "x"))), "allowed false", "0 no rule false", "override false left 0", "1 b true")
}
