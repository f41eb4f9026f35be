package service

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// headersAt is 18.4 s into a minute.
var headersAt = time.Date(2026, 11, 30, 12, 5, 18, 400_000_000, time.UTC).UnixMicro()

func named(name string, quota int64, window time.Duration) *policy.Limit {
	return &policy.Limit{Domain: "shop", Name: name, Limit: algo.Limit{Algorithm: algo.FixedWindow, Quota: quota, Window: window.Microseconds()}}
}

func left(l *policy.Limit, remaining int64, reset time.Duration) limiter.Result {
	return limiter.Result{Limit: l, Shadow: l.Shadow, Decision: algo.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset.Microseconds()}}
}

func gone(l *policy.Limit, remaining int64, retry time.Duration) limiter.Result {
	d := algo.Decision{Remaining: remaining, RetryAfter: retry.Microseconds(), ResetAfter: time.Hour.Microseconds()}
	if retry < 0 {
		d.RetryAfter = algo.Never
	}
	return limiter.Result{Limit: l, Shadow: l.Shadow, Decision: d}
}

// verdict puts each list of results into a descriptor.
func verdict(descriptors ...[]limiter.Result) *limiter.Verdict {
	v := &limiter.Verdict{Allowed: true}
	for _, results := range descriptors {
		s := limiter.Status{Allowed: true, Results: results}
		for _, r := range results {
			s.Allowed = s.Allowed && (r.Decision.Allowed || r.Shadow)
		}
		v.Allowed = v.Allowed && s.Allowed
		v.Statuses = append(v.Statuses, s)
	}
	return v
}

type results = []limiter.Result

func TestHeaders(t *testing.T) {
	t.Parallel()
	minute, hour := named("minute", 10, time.Minute), named("hour", 100, time.Hour)
	shadow, hidden := named("shadow", 1, time.Minute), named("hidden", 1, time.Minute)
	shadow.Shadow, hidden.Hidden = true, true
	never := time.Duration(-1)
	for _, test := range []struct {
		name    string
		verdict *limiter.Verdict
		want    string
	}{
		{"nothing is limited", verdict(results{}, nil), ""},
		{
			"seconds are rounded up", verdict(results{left(minute, 9, 41_000_001*time.Microsecond)}),
			`"minute";q=10;w=60 | "minute";r=9;t=42 | 10 9 42`,
		},
		{
			"untouched", verdict(results{left(minute, 10, 0)}),
			`"minute";q=10;w=60 | "minute";r=10;t=0 | 10 10 0`,
		},
		{
			"the least remaining stands for the request",
			verdict(results{left(hour, 9, time.Second)}, results{left(minute, 8, time.Second)}),
			`"hour";q=100;w=3600, "minute";q=10;w=60 | "hour";r=9;t=1, "minute";r=8;t=1 | 10 8 1`,
		},
		{
			"of equals the longest reset",
			verdict(results{left(minute, 9, time.Second), left(hour, 9, time.Minute)}),
			`"minute";q=10;w=60, "hour";q=100;w=3600 | "minute";r=9;t=1, "hour";r=9;t=60 | 100 9 60`,
		},
		{
			"denied: the longest wait, though another leaves less",
			verdict(results{gone(minute, 0, time.Second)}, results{gone(hour, 3, 1500*time.Millisecond), left(named("n", 1, time.Second), 0, time.Minute)}),
			`Retry-After 2 | "minute";q=10;w=60, "hour";q=100;w=3600, "n";q=1;w=1 | "minute";r=0;t=1, "hour";r=3;t=2, "n";r=0;t=60 | 100 3 2`,
		},
		{
			"denied for ever: no Retry-After, and the end of the window",
			verdict(results{gone(minute, 4, never), gone(hour, 0, time.Second)}),
			`"minute";q=10;w=60, "hour";q=100;w=3600 | "minute";r=4;t=42, "hour";r=0;t=1 | 10 4 42`,
		},
		{
			"neither shadow nor hidden",
			verdict(results{gone(shadow, 0, time.Second), left(hidden, 0, time.Second), left(minute, 9, time.Second)}),
			`"minute";q=10;w=60 | "minute";r=9;t=1 | 10 9 1`,
		},
		{
			"only a hidden one denied",
			verdict(results{gone(hidden, 0, 90*time.Millisecond), left(minute, 9, time.Second)}),
			`Retry-After 1 | "minute";q=10;w=60 | "minute";r=9;t=1`,
		},
		{
			"windows below a second have no w, others are rounded up",
			verdict(results{left(named("a", 1, 999*time.Millisecond), 1, 0), left(named("b", 1, 1001*time.Millisecond), 1, 0)}),
			`"a";q=1, "b";q=1;w=2 | "a";r=1;t=0, "b";r=1;t=0 | 1 1 0`,
		},
		{
			"a limit of several descriptors comes once, as the one that binds most",
			verdict(results{left(minute, 7, time.Second)}, results{left(hour, 9, time.Second)}, results{left(minute, 6, time.Second)}, results{left(minute, 8, time.Second)}),
			`"minute";q=10;w=60, "hour";q=100;w=3600 | "minute";r=6;t=1, "hour";r=9;t=1 | 10 6 1`,
		},
		{
			"one that denied binds more than one that leaves less",
			verdict(results{left(minute, 0, time.Second)}, results{gone(minute, 1, time.Minute)}),
			`Retry-After 60 | "minute";q=10;w=60 | "minute";r=1;t=60 | 10 1 60`,
		},
		{
			"limits that callers bring along for one rule are one",
			verdict(results{left(named("rule", 10, time.Minute), 7, time.Second)}, results{left(named("rule", 5, time.Hour), 3, time.Second)}),
			`"rule";q=5;w=3600 | "rule";r=3;t=1 | 5 3 1`,
		},
		{
			"names are quoted", verdict(results{left(named(`a"b\c`+"\n\x7fé", 1, time.Second), 1, 0)}),
			`"a\"b\\c????";q=1;w=1 | "a\"b\\c????";r=1;t=0 | 1 1 0`,
		},
		{
			"numbers have 15 digits at most, and 32 bits where Envoy has them so", verdict(results{left(named("big", 1<<53, time.Second), 1<<53, 0)}),
			`"big";q=999999999999999;w=1 | "big";r=999999999999999;t=0 | 4294967295 4294967295 0`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, brief(t, test.verdict)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLimitsOfOneNameAreToldApart(t *testing.T) {
	t.Parallel()
	a, b := named("user", 10, time.Minute), named("user", 20, time.Minute)
	b.Domain = `é"`
	want := `"shop/user";q=10;w=60, "other";q=1;w=60, "??\"/user";q=20;w=60 | ` +
		`"shop/user";r=1;t=1, "other";r=9;t=1, "??\"/user";r=2;t=1 | 10 1 1`
	got := brief(t, verdict(results{left(a, 1, time.Second), left(named("other", 1, time.Minute), 9, time.Second)}, results{left(b, 2, time.Second)}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOfManyLimitsThoseThatBindMostAreTold(t *testing.T) {
	t.Parallel()
	var many results
	for i := range 500 {
		many = append(many, left(named("limit"+strconv.Itoa(i), 1000, time.Minute), int64(999-i), time.Second))
	}
	many = append(many, gone(named("denier", 10, time.Minute), 0, time.Minute))
	for range 3 {
		many = append(many, left(named("last", 1000, time.Minute), 999, time.Second))
	}
	var policies, limits string
	for _, h := range headers(verdict(many), headersAt) {
		switch h.GetName() {
		case "RateLimit-Policy":
			policies = h.GetValue()
		case "RateLimit":
			limits = h.GetValue()
		}
	}
	readList(t, policies, "qw")
	readList(t, limits, "rt")
	if n := strings.Count(limits, `"limit`); n != maxShown-1 || !strings.Contains(limits, `"limit485";r=514;t=1`) || strings.Contains(limits, `"limit484"`) {
		t.Errorf("%d are told besides the one that denied: %s", n, limits)
	}
	if !strings.Contains(limits, `"denier";r=0;t=60`) {
		t.Errorf("the one that denied is not told: %s", limits)
	}
}

// The hot path pays for one string.
func TestHeadersCostOneAllocation(t *testing.T) {
	v := verdict(results{left(named("minute", 10, time.Minute), 9, time.Second)}, results{left(named("hour", 100, time.Hour), 99, time.Second)})
	var c clientView
	if n := testing.AllocsPerRun(100, func() { c.see(v, headersAt, IETF|XRateLimit|Reference) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// brief is the headers in short, once they have been read back.
func brief(t *testing.T, v *limiter.Verdict) string {
	t.Helper()
	var parts, legacy []string
	for _, h := range headers(v, headersAt) {
		switch name := h.GetName(); {
		case name == "Retry-After":
			integer(t, h.GetValue())
			parts = append(parts, name+" "+h.GetValue())
		case strings.HasPrefix(name, "X-RateLimit-"):
			integer(t, h.GetValue())
			legacy = append(legacy, h.GetValue())
		default:
			want := "rt"
			if name == "RateLimit-Policy" {
				want = "qw"
			}
			readList(t, h.GetValue(), want)
			parts = append(parts, h.GetValue())
		}
	}
	if legacy != nil {
		parts = append(parts, strings.Join(legacy, " "))
	}
	return strings.Join(parts, " | ")
}

// integer reads an Integer of structured fields that is not negative.
func integer(t *testing.T, s string) {
	t.Helper()
	if n, err := strconv.ParseUint(s, 10, 64); err != nil || len(s) > 15 || strconv.FormatUint(n, 10) != s {
		t.Errorf("%q is no integer of at most 15 digits: %v", s, err)
	}
}

// readList reads a List of structured fields (RFC 9651) as narrowly as the
// draft has it: Strings with the parameters named, in order, the first of which
// must be there, all Integers. No two Strings are the same.
func readList(t *testing.T, s, parameters string) {
	t.Helper()
	seen := map[string]bool{}
	for rest := s; ; {
		end := 1
		for end < len(rest) && rest[end] != '"' {
			switch c := rest[end]; {
			case c == '\\' && end+1 < len(rest) && strings.ContainsRune(`"\`, rune(rest[end+1])):
				end++
			case c == '\\' || c < ' ' || c > '~':
				t.Fatalf("a String must not hold %q: %s", c, s)
			}
			end++
		}
		if end >= len(rest) || rest[0] != '"' || seen[rest[:end]] {
			t.Fatalf("no String that is new at %q in %s", rest, s)
		}
		seen[rest[:end]] = true
		member, more, found := strings.Cut(rest[end+1:], ", ")
		for i, name := range parameters {
			value, has := strings.CutPrefix(member, ";"+string(name)+"=")
			if !has && (i == 0 || name != 'w') {
				t.Fatalf("no parameter %c in %s", name, s)
			}
			if has {
				digits := value[:len(value)-len(strings.TrimLeft(value, "0123456789"))]
				integer(t, digits)
				member = value[len(digits):]
			}
		}
		if member != "" {
			t.Fatalf("%q is too much in %s", member, s)
		}
		if !found {
			return
		}
		rest = more
	}
}
