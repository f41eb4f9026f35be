package algo_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
)

// pitfalls are faults that other rate limiters shipped, by their numbers in the
// catalogue. Each is tried on a fresh bucket of every algorithm, or of every one
// with a burst, that grants quota a window and as much at once.
var pitfalls = []struct {
	name          string
	buckets       bool
	quota, window int64
	test          func(t *testing.T, j *jar)
}{
	{"PG01 a raised limit admits what it charges", false, 2, second, func(t *testing.T, j *jar) {
		j.drain(epoch)
		j.grant(10)
		for n := range int64(12) {
			now := epoch + n*40*ms
			before := j.peek(now).Remaining
			d := j.take(now, 1)
			if charged := j.peek(now).Remaining == before-1; d.Allowed != charged || d.Allowed != (before > 0) {
				t.Errorf("request %d with %d left: %+v, charged %t", n, before, d, charged)
			}
		}
	}},
	{"PG02 a refund never exceeds full", false, 10, second, func(t *testing.T, j *jar) {
		if d := j.take(epoch, -50); d.Remaining != 10 || j.s != (algo.State{}) {
			t.Errorf("a refund to a fresh bucket: %+v, %v", d, j.s)
		}
		j.take(epoch, 4)
		if d := j.take(epoch, -50); d.Remaining != 10 || j.peek(epoch).Remaining != 10 {
			t.Errorf("a refund of more than was taken: %+v", d)
		}
	}},
	{"PG02b a refund is not lost", false, 10, second, func(t *testing.T, j *jar) {
		j.drain(epoch)
		for refund := range int64(12) {
			d, next := j.take(epoch+1, -refund), j.peek(epoch+1)
			if d.Remaining != next.Remaining || d.ResetAfter != next.ResetAfter {
				t.Errorf("a refund of %d: %+v, then %+v", refund, d, next)
			}
		}
		*j = *newJar(t, j.l.Algorithm, 7, second)
		j.drain(epoch)
		if d, next := j.take(epoch+857_142, -1), j.peek(epoch+857_142); d.ResetAfter != next.ResetAfter {
			t.Errorf("a refund that leaves a fraction: %+v, then %+v", d, next)
		}
	}},
	{"PG04 no fraction is lost", true, 10, second, func(t *testing.T, j *jar) {
		if n := j.demand(190*ms, 60*second, 2); n < 600 || n > 610 {
			t.Errorf("two requests each 190 ms: %d admitted in a minute, want 600 and the burst", n)
		}
		*j = *newJar(t, j.l.Algorithm, 3, second)
		if n := j.demand(333*ms, 1000*second, 2); n < 2998 || n > 3003 {
			t.Errorf("two requests each 333 ms: %d admitted in 1000 s, want 3000 and the burst", n)
		}
	}},
	{"PG04b a partial grant keeps the fraction", true, 10, second, func(t *testing.T, j *jar) {
		j.drain(epoch)
		now := int64(epoch + 260*ms) // 2.6 units
		if d := j.take(now, j.peek(now).Remaining); !d.Allowed || j.peek(now).RetryAfter != 40*ms {
			t.Errorf("%+v and then %+v, want 40 ms to the next", d, j.peek(now))
		}
	}},
	{"PG04c frequent calls refill as rare ones", true, 1, second, func(t *testing.T, j *jar) {
		if n := j.demand(100*ms, hour, 1); n != 3600 {
			t.Errorf("%d admitted in an hour at one a second", n)
		}
	}},
	{"PG06 a time in the future earns nothing", false, 10, hour, func(t *testing.T, j *jar) {
		j.drain(epoch)
		j.drain(epoch + hour + hour/2)
		if d := j.peek(epoch + 1); d.Remaining != 0 {
			t.Errorf("back from the future: %+v", d)
		}
	}},
	{"PG07 the longest window limits", false, 1, algo.MaxWindow, func(t *testing.T, j *jar) {
		for _, now := range []int64{epoch, epoch + 150*algotest.Year} {
			j.s = algo.State{}
			if first, second := j.take(now, 1), j.take(now, 1); !first.Allowed || second.Allowed {
				t.Errorf("at %d: %+v, %+v", now, first, second)
			}
		}
	}},
	{"PG09 reset is exact and that of the capacity", true, 5000, second, func(t *testing.T, j *jar) {
		if d := j.take(epoch, 1); d.ResetAfter != 200 {
			t.Errorf("one of 5000 a second: reset after %d µs, want 200", d.ResetAfter)
		}
		j.l.Burst = 50_000
		if d := j.take(epoch, 49_999); d.ResetAfter != 10*second {
			t.Errorf("a burst of 50,000 at 5000 a second: reset after %d µs", d.ResetAfter)
		}
	}},
	{"PG10 zero denies all", false, 5, hour, func(t *testing.T, j *jar) {
		j.l.Overdraft = 10
		algo.Charge(&j.s, &j.l, epoch, 9)
		j.grant(0)
		for _, s := range []algo.State{{}, j.s} {
			for _, cost := range []int64{0, 1, algo.MaxCost} {
				j.s = s
				if d := j.take(epoch, cost); d.Allowed || d.RetryAfter != algo.Never || d.Remaining != 0 || j.s != s {
					t.Errorf("cost %d: %+v, %v became %v", cost, d, s, j.s)
				}
			}
			if d := j.take(epoch, -1); !d.Allowed || d.Remaining != 0 {
				t.Errorf("a refund: %+v", d)
			}
		}
	}},
	{"PG13 extreme costs", false, algo.MaxQuota, hour, func(t *testing.T, j *jar) {
		for _, quota := range []int64{1, 1<<32 - 1, algo.MaxQuota} {
			j.grant(quota)
			j.take(epoch, 1)
			before := j.s
			for _, cost := range []int64{quota + 1, 1 << 52, algo.MaxCost} {
				if d := j.take(epoch, cost); d.Allowed || d.RetryAfter != algo.Never || j.s != before {
					t.Errorf("cost %d of %d: %+v", cost, quota, d)
				}
			}
			if d := j.take(epoch, -algo.MaxCost); d.Remaining != quota {
				t.Errorf("all of %d given back: %+v", quota, d)
			}
		}
	}},
	{"PG14 no product overflows", false, algo.MaxQuota, algo.MaxWindow, func(t *testing.T, j *jar) {
		j.drain(epoch)
		if d := j.peek(epoch + 1); d.Remaining > 1 || d.RetryAfter > 2*algo.MaxWindow {
			t.Errorf("%+v", d)
		}
	}},
	{"PG15, PG16, PG17 every hit counts, and after ten years none", false, algo.MaxQuota, second, func(t *testing.T, j *jar) {
		for _, quota := range []int64{1e5, 1e6, 1e9, 1<<32 - 1, algo.MaxQuota} {
			*j = *newJar(t, j.l.Algorithm, quota, second)
			for n := range int64(1000) {
				if d := j.take(epoch+333_333, 1); d.Remaining != quota-n-1 {
					t.Fatalf("hit %d of %d: %+v", n+1, quota, d)
				}
			}
			if d := j.peek(epoch + 10*algotest.Year); d.Remaining != quota {
				t.Errorf("after ten years %d are left of %d", d.Remaining, quota)
			}
		}
	}},
	{"PG18 thirds do not drift", true, 3, second, func(t *testing.T, j *jar) {
		j.drain(epoch)
		now := int64(epoch)
		for range 3000 {
			now += j.peek(now).RetryAfter
			if !j.take(now, 1).Allowed {
				t.Fatal("denied when it was told to come")
			}
		}
		if now != epoch+1000*second {
			t.Errorf("3000 units took %d µs", now-epoch)
		}
	}},
	{"PG19 high rates are limits", true, 10_000_000, second, func(t *testing.T, j *jar) {
		for rate := int64(1); rate <= 10_000_000; rate *= 10 {
			*j = *newJar(t, j.l.Algorithm, rate, second)
			j.drain(epoch)
			for _, wait := range []int64{1, 500, ms, 100 * ms, second} {
				if d := j.peek(epoch + wait); d.Remaining != rate*wait/second {
					t.Errorf("%d a second: %d after %d µs, want %d", rate, d.Remaining, wait, rate*wait/second)
				}
			}
		}
	}},
	{"PG20 more than ever fits is never", false, 3, second, func(t *testing.T, j *jar) {
		reset := j.take(epoch, 2).ResetAfter
		if d := j.take(epoch, 4); d != (algo.Decision{RetryAfter: algo.Never, Remaining: 1, ResetAfter: reset}) || reset == 0 {
			t.Errorf("%+v, after a reset of %d", d, reset)
		}
	}},
	{"PG21 a peek is the next take and no more", false, 3, second, func(t *testing.T, j *jar) {
		for n := range int64(40) {
			now := epoch + n*130*ms
			before := j.s
			peek := j.peek(now)
			if j.s != before {
				t.Fatalf("a peek wrote %v over %v", j.s, before)
			}
			if d := j.take(now, 1); d.Allowed != peek.Allowed || d.RetryAfter != peek.RetryAfter {
				t.Errorf("request %d: %+v after %+v", n, d, peek)
			}
		}
		if d := j.peek(epoch + hour); d.Remaining != 3 {
			t.Errorf("idle for long: %+v", d)
		}
	}},
	{"PG22 a changed rate leaves no old wait", true, 10, hour, func(t *testing.T, j *jar) {
		j.drain(epoch)
		j.grant(36_000) // ten a second
		if d := j.peek(epoch); d.RetryAfter > 100*ms {
			t.Errorf("the wait of the old limit goes on: %+v", d)
		}
		j.grant(5)
		if d := j.peek(epoch); d.ResetAfter > hour {
			t.Errorf("more is owed than the new limit lends: %+v", d)
		}
	}},
	{"PG23 a burst around a boundary", false, 100, second, func(t *testing.T, j *jar) {
		admitted := int64(0)
		for now := int64(epoch + 990*ms); now < epoch+1010*ms; now += 100 {
			if j.take(now, 1).Allowed {
				admitted++
			}
		}
		want := int64(101) // of which one came back in 20 ms
		if a := j.l.Algorithm; a == algo.FixedWindow {
			want = 200
		} else if a == algo.SlidingWindowLog {
			want = 100
		}
		if admitted != want {
			t.Errorf("%d in 20 ms, want %d", admitted, want)
		}
	}},
	{"PG24 nothing is granted in debt", false, 10, second, func(t *testing.T, j *jar) {
		j.l.Overdraft = 100
		algo.Charge(&j.s, &j.l, epoch, 60)
		for _, slack := range []int64{0, -5, -20, 5} {
			indebted := *j
			if d := algo.Step(&j.s, &j.l, epoch, 0, slack); d.Remaining != 0 || d.Allowed || *j != indebted {
				t.Errorf("slack %d: %+v", slack, d)
			}
			if d := algo.Step(&indebted.s, &j.l, epoch, -1, slack); d.Remaining != 0 {
				t.Errorf("slack %d, one given back: %+v", slack, d)
			}
		}
	}},
	{"PG25 a clock steps back by a second, and by more", false, 10, 10 * second, func(t *testing.T, j *jar) {
		j.drain(epoch)
		wait := j.peek(epoch).RetryAfter
		faster, stepped, stays := *j, *j, *j
		if d := faster.peek(epoch - second); d.RetryAfter != wait+second || faster != *j {
			t.Errorf("another's clock is a second ahead: %+v, want to wait for %d and a second", d, wait)
		}
		want := wait
		if a := j.l.Algorithm; a == algo.FixedWindow { // moves to the window that holds now, which ends soon
			want = second + 1
		} else if a == algo.SlidingWindowCounter { // so does this, and slides out of it as it would have
			want = wait - 10*second + second + 1
		}
		if d := stepped.peek(epoch - second - 1); d.RetryAfter != want || stepped == *j {
			t.Errorf("the clock stepped: %+v, want to wait for %d", d, want)
		}
		if d := stays.take(epoch-hour, 1); d.Allowed || d.RetryAfter > 20*second {
			t.Errorf("an hour back: %+v", d)
		}
		if d := stays.peek(epoch + hour); d.Remaining != 10 {
			t.Errorf("two hours on: %+v", d)
		}
	}},
	{"PG25 what is ahead and owes nothing needs no wait", false, 10, 10 * second, func(t *testing.T, j *jar) {
		j.take(epoch, 3)
		j.take(epoch, -3)
		if d := j.peek(epoch - second/2); d.ResetAfter != 0 && j.l.Algorithm != algo.FixedWindow {
			t.Errorf("%+v", d)
		}
	}},
	{"PG26 denials are free", false, 10, second, func(t *testing.T, j *jar) {
		if n := j.demand(50*ms, 100*second, 1); n < 1000 || n > 1010 {
			t.Errorf("at twice the limit %d were admitted in 100 s, want 1000 and at most a burst", n)
		}
	}},
}

func TestPitfalls(t *testing.T) {
	for _, p := range pitfalls {
		t.Run(p.name, func(t *testing.T) {
			for _, a := range algo.All() {
				if !p.buckets || a.IsBucket() {
					t.Run(a.String(), func(t *testing.T) { p.test(t, newJar(t, a, p.quota, p.window)) })
				}
			}
		})
	}
}

// TestPG03OptionsHoldOnEveryState tries slack, charge and a short queue on
// buckets that are absent, there, expired, full and empty.
func TestPG03OptionsHoldOnEveryState(t *testing.T) {
	for name, c := range map[string]struct{ take, give, now int64 }{
		"absent": {0, 0, epoch}, "there": {3, 0, epoch + 1}, "expired": {10, 0, epoch + 3*second},
		"full": {3, 3, epoch}, "empty": {10, 0, epoch},
	} {
		for _, a := range algo.All() {
			j := newJar(t, a, 10, second)
			j.l.Overdraft = 20
			j.take(epoch, c.take)
			j.take(epoch, -c.give)
			now, charged := c.now, *j
			left := j.peek(now).Remaining
			if d := algo.Step(&j.s, &j.l, now, left+5, 5); !d.Allowed || d.Remaining != 0 {
				t.Errorf("%s %s: slack of 5 upon %d: %+v", name, a, left, d)
			}
			if d := algo.Step(&j.s, &j.l, now, 1, 5); d.Allowed {
				t.Errorf("%s %s: more than the slack: %+v", name, a, d)
			}
			if a == algo.LeakyBucket {
				charged.l.MaxDelay = ms // but nobody waits for what has happened
			}
			d := algo.Charge(&charged.s, &charged.l, now, 15)
			if first, second := charged.take(now, left-15), charged.take(now, -1); d.Allowed || first.Remaining != 0 || second.Remaining != 1 {
				t.Errorf("%s %s: a charge of 15 upon %d is not all there: %+v", name, a, left, d)
			}
		}
	}
}

func TestPG05MonthsAreAsLongAsTheyAre(t *testing.T) {
	j := newJar(t, algo.FixedWindow, 1, 30*day)
	j.l.Calendar = algo.Monthly
	now := time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	for month, days := range []int64{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31} {
		if d := j.take(now, 1); !d.Allowed || d.ResetAfter != days*day {
			t.Errorf("month %d: %+v, want a reset after %d days", month+1, d, days)
		}
		now += days * day
	}
}

// TestPG07Bounds is about P-G10, P-G11, P-G12 and P-G16 too: what is beyond the
// bounds is refused, what is at them is not.
func TestPG07Bounds(t *testing.T) {
	const most = algo.MaxQuota
	queue := algo.Limit{Algorithm: algo.LeakyBucket, Quota: 1, Window: second, Burst: 1}
	for _, c := range []struct {
		valid bool
		limit algo.Limit
	}{
		{true, algo.Limit{Algorithm: algo.FixedWindow, Quota: most, Window: algo.MinWindow}},
		{true, algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: most, Window: algo.MaxWindow, Overdraft: most}},
		{true, algo.Limit{Algorithm: algo.TokenBucket, Quota: most, Window: second, Burst: most, Overdraft: most}},
		{true, algo.Limit{Algorithm: algo.GCRA, Quota: 1, Window: 365 * day, Burst: 60, Overdraft: 40}}, // 100 years
		{true, algo.Limit{Algorithm: algo.TokenBucket, Window: second}},
		{false, algo.Limit{Algorithm: algo.FixedWindow, Quota: most + 1, Window: second}},
		{false, algo.Limit{Algorithm: algo.FixedWindow, Quota: -1, Window: second}},
		{false, algo.Limit{Algorithm: algo.FixedWindow, Quota: 1}}, // as every window below MinWindow
		{false, algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: algo.MinWindow - 1}},
		{false, algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: algo.MaxWindow + 1}},
		{false, algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: second, Overdraft: most + 1}},
		{false, algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: second, Overdraft: -1}},
		{false, algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: second, Burst: 1}},
		{false, algo.Limit{Algorithm: algo.TokenBucket, Quota: 1, Window: second}},
		{false, algo.Limit{Algorithm: algo.TokenBucket, Window: second, Burst: 1}},
		{false, algo.Limit{Algorithm: algo.TokenBucket, Quota: 1, Window: second, Burst: -1}},
		{false, algo.Limit{Algorithm: algo.TokenBucket, Quota: most, Window: second, Burst: most + 1}},
		{false, algo.Limit{Algorithm: algo.GCRA, Quota: 1, Window: 365 * day, Burst: 60, Overdraft: 41}},
		{false, algo.Limit{Algorithm: algo.GCRA, Quota: 1, Window: second, Burst: 1, MaxDelay: 1}},
	} {
		if err := c.limit.Validate(); (err == nil) != c.valid {
			t.Errorf("%+v: %v", c.limit, err)
		}
	}
	for _, delay := range []int64{-1, 0, algo.MaxFill, algo.MaxFill + 1} {
		queue.MaxDelay = delay
		if err := queue.Validate(); (err == nil) != (delay == 0 || delay == algo.MaxFill) {
			t.Errorf("%+v: %v", queue, err)
		}
	}
}

func TestPG08FirstRequestIsAdmitted(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for n := range 2000 {
		j := jar{l: *algotest.RandomLimit(r, algo.All()[n%6])}
		if d := j.take(epoch+r.Int64N(algotest.Year), 1); !d.Allowed {
			t.Fatalf("%+v: %+v", j.l, d)
		}
	}
}

func TestPG14CountTimesWindowDoesNotOverflow(t *testing.T) {
	j := newJar(t, algo.SlidingWindowCounter, 1_000_000, day)
	j.drain(epoch)
	// floor(1,000,000 * 23/24) are still there an hour into the next day.
	if d := j.peek(epoch + day + hour); d.Remaining != 1_000_000-958_333 {
		t.Errorf("%+v", d)
	}
}

// TestPG22RestOfAHigherQuota lowers the quota whose fractions GCRA counts in.
func TestPG22RestOfAHigherQuota(t *testing.T) {
	j := newJar(t, algo.GCRA, 7, second)
	j.take(epoch, 6) // 857,142 µs and six sevenths, of which six thirds make no more than one
	j.l.Quota = 3
	for n, reset := range []int64{857_143, 857_143 + 333_334, 857_143 + 666_667} {
		if d := j.take(epoch, min(1, int64(n))); d.ResetAfter != reset {
			t.Errorf("request %d: %+v, want a reset after %d", n, d, reset)
		}
	}
}
