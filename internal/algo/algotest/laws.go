package algotest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
)

// A law holds for a bucket in any state at any time. Check makes its own
// requests around now, where a request of cost has a chance to be allowed.
type law struct {
	name  string
	check func(b *bench, now, cost int64)
}

var laws = []law{
	{"remaining is a promise", func(b *bench, now, cost int64) {
		before := b.peek(now)
		if d := b.step(now, cost); d.Allowed != (cost <= before.Remaining) {
			b.breaks(now, "cost %d with %d left: %+v", cost, before.Remaining, d)
		}
	}},
	{"remaining is what is left", func(b *bench, now, cost int64) {
		d := b.step(now, cost)
		if after := b.peek(now); after.Remaining != d.Remaining || after.ResetAfter != d.ResetAfter {
			b.breaks(now, "said %+v, then %+v", d, after)
		}
	}},
	{"a peek is the next request of one", func(b *bench, now, _ int64) {
		peek := b.peek(now)
		d := b.step(now, 1)
		if peek.Allowed != d.Allowed || peek.RetryAfter != d.RetryAfter {
			b.breaks(now, "peek %+v, then %+v", peek, d)
		}
	}},
	{"a denial changes nothing", func(b *bench, now, cost int64) {
		before := b.peek(now)
		if d := b.step(now, cost); d.Allowed {
			return
		}
		if after := b.peek(now); after != before {
			b.breaks(now, "%+v became %+v", before, after)
		}
	}},
	{"retry after is true and tight", func(b *bench, now, cost int64) {
		d := b.step(now, cost)
		switch {
		case d.Allowed != (d.RetryAfter == 0):
			b.breaks(now, "contradiction: %+v", d)
		case d.RetryAfter == algo.Never && cost <= b.capacity():
			b.breaks(now, "never, though %d fits into %d", cost, b.capacity())
		case d.RetryAfter > 0 && b.step(now+d.RetryAfter-1, cost).Allowed:
			b.breaks(now, "cost %d fits before %dµs", cost, d.RetryAfter)
		case d.RetryAfter > 0 && !b.step(now+d.RetryAfter, cost).Allowed:
			b.breaks(now, "cost %d does not fit after %dµs", cost, d.RetryAfter)
		}
	}},
	{"reset after is true and tight", func(b *bench, now, cost int64) {
		b.step(now, cost)
		d := b.peek(now)
		full := max(0, b.capacity())
		if after := b.peek(now + d.ResetAfter); after.Remaining != full {
			b.breaks(now, "%dµs on, %+v is still %+v", d.ResetAfter, d, after)
		}
		if d.ResetAfter > 0 && d.Remaining < full && b.peek(now+d.ResetAfter-1).Remaining == full {
			b.breaks(now, "full before %dµs", d.ResetAfter)
		}
	}},
	{"a give-back undoes a take", func(b *bench, now, cost int64) {
		before := b.peek(now)
		if !b.step(now, cost).Allowed {
			return
		}
		d := b.step(now, -cost)
		if after := b.peek(now); after != before || d.Remaining != before.Remaining {
			b.breaks(now, "%+v became %+v", before, after)
		}
	}},
	{"a give-back never exceeds full", func(b *bench, now, cost int64) {
		b.step(now, cost)
		d := b.step(now, -algo.MaxCost)
		full := max(0, b.capacity())
		if after := b.peek(now); !d.Allowed || d.Remaining != full || after.Remaining != full {
			b.breaks(now, "%+v, then %+v", d, after)
		}
	}},
	{"a charge is recorded in full up to the overdraft", func(b *bench, now, cost int64) {
		if b.slack != 0 || b.limit.MaxDelay > 0 {
			return
		}
		roomy := b.peek(now)
		owed := b.capacity() - roomy.Remaining // at least
		d := b.charge(now, cost)
		if d.Allowed != (cost <= roomy.Remaining) {
			b.breaks(now, "charge of %d with %d left: %+v", cost, roomy.Remaining, d)
		}
		if !d.Allowed && (d.Remaining != 0 || b.step(now, 1).Allowed) {
			b.breaks(now, "room after an overdraft: %+v", d)
		}
		recorded := cost
		if !d.Allowed {
			recorded = min(cost, max(algo.MaxCharge, roomy.Remaining))
		}
		b.step(now, -recorded)
		if after := b.peek(now); after.Remaining < b.capacity()-owed-1 {
			b.breaks(now, "a charge of %d and a give-back left %+v of %+v", cost, after, roomy)
		}
	}},
	{"a long wait makes whole", func(b *bench, now, cost int64) {
		b.step(now, cost)
		if d := b.peek(now + algo.MaxFill + algo.MaxSkew); d.Remaining != max(0, b.capacity()) {
			b.breaks(now, "%+v after a century", d)
		}
	}},
}

// bench is one bucket under test.
type bench struct {
	tb      testing.TB
	subject Subject
	key     string
	limit   *algo.Limit
	slack   int64
}

func (b *bench) step(now, cost int64) algo.Decision {
	b.tb.Helper()
	return b.subject.Step(b.tb, b.key, b.limit, now, cost, b.slack)
}

func (b *bench) peek(now int64) algo.Decision {
	b.tb.Helper()
	return b.step(now, 0)
}

func (b *bench) charge(now, cost int64) algo.Decision {
	b.tb.Helper()
	return b.subject.Charge(b.tb, b.key, b.limit, now, cost)
}

func (b *bench) capacity() int64 {
	if b.limit.Algorithm.IsBucket() {
		return b.limit.Burst + b.slack
	}
	return b.limit.Quota + b.slack
}

func (b *bench) breaks(now int64, format string, args ...any) {
	b.tb.Helper()
	b.tb.Fatalf("%+v, slack %d, at %d, breaks the law: %s", *b.limit, b.slack, now, fmt.Sprintf(format, args...))
}

func checkLaw(t *testing.T, a algo.Algorithm, s Subject, law law) {
	r := rand.New(rand.NewPCG(1, 2))
	limits := Limits(a)
	for range s.Rounds {
		limits = append(limits, RandomLimit(r, a))
	}
	for i, l := range limits {
		b := &bench{tb: t, subject: s, key: fmt.Sprintf("%s/%d", t.Name(), i), limit: l}
		clock := NewClock(r)
		for range 6 {
			b.slack = s.randomSlack(r, l)
			cost := clock.Tick(r, l)
			now := clock.Now
			if r.IntN(2) == 0 { // bring the bucket near to its edge first
				left := b.peek(now).Remaining
				b.step(now, left)
				cost = 1 + r.Int64N(max(1, min(cost, left)))
			}
			law.check(b, now, cost)
		}
	}
}
