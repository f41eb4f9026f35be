package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestLimits is about what one rlsd, with its counters in its own memory,
// decides for one Envoy.
func TestLimits(t *testing.T) {
	t.Parallel()
	d := startRlsd(t, "rlsd", "--store", "memory")
	e := startEnvoy(t, d)
	for name, test := range map[string]func(*testing.T, *envoy, *daemon){
		"a fixed window counts down and then denies until it ends": testFixedWindow,
		"all of several descriptors must fit or none is charged":   testSeveralDescriptors,
		"a token bucket admits its burst and then its rate":        testTokenBucket,
		"a shadow limit is reported and denies nothing":            testShadow,
		"values that are not UTF-8 are limited as any other":       testInvalidUTF8,
		"a request may bring its limit along":                      testOverride,
		"asking costs nothing and usage is charged afterwards":     testPostCharge,
		"what was taken may be given back":                         testRefund,
		"of two budgets one needs to have room":                    testBudgets,
		"a route may have limits of two domains":                   testDomains,
		"a request may have very many descriptors":                 testManyDescriptors,
		"connections are limited by the network they come from":    testConnections,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e, d)
		})
	}
}

var users atomic.Int64

// undisturbed tells a story with a user of its own, and tells it again with
// another if the time that it took does not fit: what was found then means
// nothing.
func undisturbed[T any](t *testing.T, fits func(began, ended time.Time) bool, story func(user string) T) T {
	t.Helper()
	for range 5 {
		began := time.Now()
		found := story(fmt.Sprintf("user-%d", users.Add(1)))
		if fits(began, time.Now()) {
			return found
		}
	}
	t.Fatal("this machine is too slow for this test")
	var none T
	return none
}

// inOneWindow fits if no window of that length ended in between.
func inOneWindow(length time.Duration) func(began, ended time.Time) bool {
	return func(began, ended time.Time) bool {
		return began.UnixMicro()/length.Microseconds() == ended.UnixMicro()/length.Microseconds()
	}
}

// within fits if it took less.
func within(d time.Duration) func(began, ended time.Time) bool {
	return func(began, ended time.Time) bool { return ended.Sub(began) < d }
}

func testFixedWindow(t *testing.T, e *envoy, _ *daemon) {
	for _, listener := range []string{front, frontRetryAfter} {
		answers := undisturbed(t, inOneWindow(time.Minute), func(user string) []answer {
			r := plan("trial", user)
			r.listener = listener
			return e.askTimes(t, 4, r)
		})
		if got := codes(answers); got != "200 200 200 429" {
			t.Fatalf("%s: three a minute: got %s", listener, got)
		}
		for i, remaining := range []string{"2", "1", "0", "0"} {
			a := &answers[i]
			if got, want := a.one(t, "x-ratelimit-limit"), `3, 3;w=60;name="trial"`; got != want {
				t.Errorf("%s: x-ratelimit-limit of answer %d is %q, want %q", listener, i, got, want)
			}
			if got := a.one(t, "x-ratelimit-remaining"); got != remaining {
				t.Errorf("%s: x-ratelimit-remaining of answer %d is %q, want %s", listener, i, got, remaining)
			}
			checkReset(t, a, time.Minute)
			if got := a.one(t, "retry-after"); a.code == 200 && got != "" {
				t.Errorf("%s: answer %d is no denial and has retry-after %s", listener, i, got)
			}
		}
		denied := &answers[3]
		if got, want := denied.one(t, "retry-after"), denied.one(t, "x-ratelimit-reset"); got != want {
			t.Errorf("%s: retry-after is %q, want that of x-ratelimit-reset, %q", listener, got, want)
		}
		if got := denied.one(t, "x-envoy-ratelimited"); got != "true" {
			t.Errorf("%s: x-envoy-ratelimited is %q", listener, got)
		}
	}
}

// checkReset checks that x-ratelimit-reset tells the seconds, rounded up, to
// the end of the window, at some time between request and answer.
func checkReset(t *testing.T, a *answer, window time.Duration) {
	t.Helper()
	left := func(at time.Time) int64 {
		rest := window.Microseconds() - at.UnixMicro()%window.Microseconds()
		return (rest + 999_999) / 1_000_000
	}
	got, err := strconv.ParseInt(a.one(t, "x-ratelimit-reset"), 10, 64)
	if least, most := left(a.ended), left(a.began); err != nil || got < least || got > most {
		t.Errorf("x-ratelimit-reset is %q, want %d to %d", a.one(t, "x-ratelimit-reset"), least, most)
	}
}

func testSeveralDescriptors(t *testing.T, e *envoy, d *daemon) {
	type found struct {
		answers []answer
		left    uint64 // of the user's limit, after the second
	}
	f := undisturbed(t, inOneWindow(time.Hour), func(user string) (f found) {
		visit := func(tenant string) {
			f.answers = append(f.answers, e.ask(t, request{
				path:    "/several",
				headers: map[string]string{"x-user": user, "x-tenant": user + "-of-" + tenant},
			}))
		}
		visit("a")
		visit("a")
		f.left = d.peek(t, "edge", "user="+user).GetRemaining()
		visit("b")
		visit("c")
		return f
	})
	// Two a user and one a tenant.
	if got := codes(f.answers); got != "200 429 200 429" {
		t.Fatalf("got %s", got)
	}
	if f.left != 1 {
		t.Errorf("after one visit and one that the tenant's limit denied, the user has %d left of 2, want 1", f.left)
	}
	for i, want := range []struct{ limit, deniedBy string }{
		{`1, 2;w=3600;name="per-user", 1;w=3600;name="per-tenant"`, ""},
		{`1, 1;w=3600;name="per-tenant"`, "per-tenant"},
		{`2, 2;w=3600;name="per-user", 1;w=3600;name="per-tenant"`, ""},
		{`2, 2;w=3600;name="per-user"`, "per-user"},
	} {
		a := &f.answers[i]
		if got := a.one(t, "x-ratelimit-limit"); got != want.limit {
			t.Errorf("x-ratelimit-limit of answer %d is %q, want %q", i, got, want.limit)
		}
		if got := a.one(t, "x-ratelimit-remaining"); got != "0" {
			t.Errorf("x-ratelimit-remaining of answer %d is %q, want 0", i, got)
		}
		checkReset(t, a, time.Hour)
		line := e.logOf(t, *a)
		if got := line.Metadata.Rlsd.DeniedBy; got != want.deniedBy {
			t.Errorf("answer %d is denied by %q in the access log, want %q", i, got, want.deniedBy)
		}
		if want.deniedBy == "" {
			continue
		}
		if line.Flags != "RL" || len(line.Metadata.Rlsd.Limits) != 1 || line.Metadata.Rlsd.Limits[0].Limit != want.deniedBy {
			t.Errorf("the access log has of answer %d: %+v", i, line)
		}
	}
}

func testTokenBucket(t *testing.T, e *envoy, _ *daemon) {
	const burst, refill = 10, 2 * time.Second
	type found struct{ atOnce, later []answer }
	// With less than two refills in all, there is one right answer to each.
	f := undisturbed(t, within(2*refill), func(user string) (f found) {
		r := plan("bucket", user)
		began := time.Now()
		f.atOnce = e.askTimes(t, burst+1, r)
		if time.Since(began) >= refill {
			time.Sleep(time.Until(began.Add(2 * refill))) // does not fit any more
			return f
		}
		wait, err := strconv.Atoi(f.atOnce[burst].one(t, "retry-after"))
		if err != nil || wait < 1 || wait > 2 {
			t.Fatalf("a token every two seconds, and retry-after is %q", f.atOnce[burst].one(t, "retry-after"))
		}
		time.Sleep(time.Duration(wait) * time.Second)
		f.later = e.askTimes(t, 2, r)
		return f
	})
	if got, want := codes(f.atOnce), strings.Repeat("200 ", burst)+"429"; got != want {
		t.Errorf("at once: got %s, want %s", got, want)
	}
	for i := range burst {
		if got, want := f.atOnce[i].one(t, "x-ratelimit-remaining"), strconv.Itoa(burst-1-i); got != want {
			t.Errorf("x-ratelimit-remaining of answer %d is %q, want %s", i, got, want)
		}
	}
	denied := &f.atOnce[burst]
	if got, want := denied.one(t, "x-ratelimit-limit"), `30, 30;w=60;name="bucket"`; got != want {
		t.Errorf("x-ratelimit-limit is %q, want %q", got, want)
	}
	if got, want := denied.one(t, "x-ratelimit-reset"), denied.one(t, "retry-after"); got != want {
		t.Errorf("x-ratelimit-reset of the denial is %q, want that of retry-after, %q", got, want)
	}
	if got := codes(f.later); got != "200 429" {
		t.Errorf("after the time that retry-after told: got %s, want 200 429", got)
	}
}

func testShadow(t *testing.T, e *envoy, _ *daemon) {
	for _, test := range []struct {
		plan, limit string
		headers     [3]string // x-ratelimit-limit and -remaining
	}{
		{"shadow", "tried-out", [3]string{
			`100, 100;w=3600;name="enforced" 99`,
			`100, 100;w=3600;name="enforced" 98`,
			`100, 100;w=3600;name="enforced" 97`,
		}},
		{"shadow-mode", "all-tried-out", [3]string{" ", " ", " "}},
	} {
		answers := undisturbed(t, inOneWindow(time.Minute), func(user string) []answer {
			return e.askTimes(t, 3, plan(test.plan, user))
		})
		if got := codes(answers); got != "200 200 200" {
			t.Errorf("%s: got %s", test.plan, got)
		}
		for i, want := range test.headers {
			a := &answers[i]
			if got := a.one(t, "x-ratelimit-limit") + " " + a.one(t, "x-ratelimit-remaining"); got != want {
				t.Errorf("%s: the headers of answer %d are %q, want %q", test.plan, i, got, want)
			}
			told := e.logOf(t, *a).Metadata.Rlsd
			if told.DeniedBy != "" {
				t.Errorf("%s: answer %d was denied by %s, says the access log", test.plan, i, told.DeniedBy)
			}
			switch over := i > 0; { // one is granted
			case !over && len(told.Limits) > 0:
				t.Errorf("%s: the access log tells of answer %d: %+v", test.plan, i, told)
			case over && (len(told.Limits) != 1 || told.Limits[0].Limit != test.limit || !told.Limits[0].Shadow):
				t.Errorf("%s: the access log does not tell that answer %d is over %s: %+v", test.plan, i, test.limit, told)
			}
		}
	}
}

func testInvalidUTF8(t *testing.T, e *envoy, _ *daemon) {
	answers := undisturbed(t, inOneWindow(time.Hour), func(user string) (all []answer) {
		for _, odd := range []string{"\xff\xfe", "\xff\xfd", "\ufffd\ufffd"} {
			all = append(all, e.askTimes(t, 2, plan("unnamed", odd+user))...)
		}
		return all
	})
	if got, want := codes(answers), "200 429 200 429 200 429"; got != want {
		t.Errorf("one an hour for each of three: got %s, want %s", got, want)
	}
	for i := range answers {
		if got, want := answers[i].one(t, "x-ratelimit-limit"), "1, 1;w=3600"; got != want {
			t.Errorf("x-ratelimit-limit of answer %d is %q, want %q", i, got, want)
		}
	}
	if n := e.stat(t, "cluster.upstream.ratelimit.error"); n != 0 {
		t.Errorf("%d calls failed", n)
	}
}

func testOverride(t *testing.T, e *envoy, d *daemon) {
	type found struct {
		answers []answer
		left    uint64 // of what the rule grants
	}
	f := undisturbed(t, inOneWindow(time.Minute), func(user string) (f found) {
		f.answers = e.askTimes(t, 4, request{path: "/override", headers: map[string]string{"x-user": user}})
		f.left = d.peek(t, "edge", "route=override", "user="+user).GetRemaining()
		return f
	})
	if got := codes(f.answers); got != "200 200 200 429" {
		t.Errorf("three a minute: got %s", got)
	}
	for i, remaining := range []string{"2", "1", "0", "0"} {
		a := &f.answers[i]
		if got, want := a.one(t, "x-ratelimit-limit"), `3, 3;w=60;name="by-the-rule"`; got != want {
			t.Errorf("x-ratelimit-limit of answer %d is %q, want %q", i, got, want)
		}
		if got := a.one(t, "x-ratelimit-remaining"); got != remaining {
			t.Errorf("x-ratelimit-remaining of answer %d is %q, want %s", i, got, remaining)
		}
		checkReset(t, a, time.Minute)
	}
	if f.left != 1000 {
		t.Errorf("the limit of the rule has %d left, want all of its 1000", f.left)
	}
}

func testPostCharge(t *testing.T, e *envoy, d *daemon) {
	const budget, response = 100, uint64(len("ok\n"))
	type found struct {
		answers []answer
		left    []uint64 // after each
	}
	f := undisturbed(t, inOneWindow(time.Hour), func(user string) (f found) {
		began, before := time.Now(), uint64(budget)
		for range 2 {
			f.answers = append(f.answers, e.ask(t, request{path: "/llm", headers: map[string]string{"x-user": user}}))
			var left uint64
			eventually(t, func() error { // the charge comes after the response
				left = d.peek(t, "llm", "budget=bytes", "user="+user).GetRemaining()
				if left == before && inOneWindow(time.Hour)(began, time.Now()) {
					return fmt.Errorf("nothing is charged: %d are left", left)
				}
				return nil
			})
			f.left = append(f.left, left)
			before = left
		}
		return f
	})
	for i, had := range []uint64{budget, budget - response} {
		if got := f.answers[i].one(t, "x-ratelimit-remaining"); f.answers[i].code != 200 || got != strconv.FormatUint(had, 10) {
			t.Errorf("answer %d: %d with %q remaining, want 200 with %d", i, f.answers[i].code, got, had)
		}
		if f.left[i] != had-response {
			t.Errorf("after answer %d there are %d left, want %d", i, f.left[i], had-response)
		}
	}
}
