package algotest

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
)

// A witness decides as an algorithm is defined to, by other means than the
// algorithm: exact rationals, no bound, no thought of speed.
type witness interface {
	step(l *algo.Limit, now, cost, slack int64) algo.Decision
}

func newWitness(a algo.Algorithm) witness {
	switch a {
	case algo.FixedWindow:
		return &windowWitness{}
	case algo.TokenBucket:
		return &bucketWitness{debt: new(big.Rat)}
	default:
		return nil
	}
}

// checkWitness plays takes, peeks, give-backs and changed limits on clocks
// that step to and fro, and wants every decision equal.
func checkWitness(t *testing.T, a algo.Algorithm, s Subject) {
	r := rand.New(rand.NewPCG(3, 4))
	limits := Limits(a)
	for range s.Rounds {
		limits = append(limits, RandomLimit(r, a))
	}
	for i, l := range limits {
		w := newWitness(a)
		key := fmt.Sprintf("%s/%d", t.Name(), i)
		clock := NewClock(r)
		for n := range 30 {
			cost := clock.Tick(r, l)
			if s.Forgets {
				clock.HoldBack()
			}
			now := clock.Now
			switch r.IntN(8) {
			case 0:
				cost = 0
			case 1:
				cost = -cost
			case 2:
				if !s.Forgets { // what a bucket owed may lapse by the old limit
					l = Changed(r, l)
				}
			}
			slack := s.randomSlack(r, l)
			want := w.step(l, now, cost, slack)
			if got := s.Step(t, key, l, now, cost, slack); got != want {
				t.Fatalf("step %d: %+v at %d, cost %d, slack %d\n got %+v\nwant %+v", n, *l, now, cost, slack, got, want)
			}
		}
	}
}

// Changed returns the limit as another configuration might have it: another
// quota and burst over the same window.
func Changed(r *rand.Rand, l *algo.Limit) *algo.Limit {
	c := *l
	c.Quota = 1 + r.Int64N(1+2*l.Quota)
	c.Burst = 0
	switch r.IntN(4) {
	case 0: // hardly another
		c.Quota, c.Burst = l.Quota, max(1, l.Burst-r.Int64N(3))
	case 1, 2:
		c.Burst = 1 + r.Int64N(1+2*l.Burst)
	}
	return limit(c.Algorithm, c)
}

// bucketWitness is a token bucket that owes a rational debt.
type bucketWitness struct {
	debt *big.Rat
	at   int64
}

func (w *bucketWitness) step(l *algo.Limit, now, cost, slack int64) algo.Decision {
	if l.Quota == 0 {
		if cost < 0 {
			return algo.Decision{Allowed: true}
		}
		return algo.Decision{RetryAfter: algo.Never}
	}
	if w.at-now > algo.MaxSkew {
		w.at = now
	}
	later := max(now, w.at)
	rate := big.NewRat(l.Quota, l.Window)
	debt := new(big.Rat).Set(w.debt)
	if most := whole(l.Burst + l.Overdraft); debt.Cmp(most) > 0 {
		debt = most
	}
	debt.Sub(debt, new(big.Rat).Mul(rate, whole(later-w.at)))
	if debt.Sign() < 0 {
		debt.SetInt64(0)
	}

	until := func(most *big.Rat) int64 {
		excess := new(big.Rat).Sub(debt, most)
		if excess.Sign() <= 0 {
			return 0
		}
		return later - now + ceil(excess.Quo(excess, rate))
	}
	capacity := whole(l.Burst + slack)
	d := algo.Decision{Allowed: true}
	ask := max(cost, 1)
	switch limit := new(big.Rat).Sub(capacity, whole(ask)); {
	case cost < 0:
		if debt.Sign() > 0 {
			debt.Add(debt, whole(cost))
			if debt.Sign() < 0 {
				debt.SetInt64(0)
			}
			w.debt, w.at = debt, later
		}
	case limit.Sign() < 0:
		d.Allowed, d.RetryAfter = false, algo.Never
	case debt.Cmp(limit) > 0:
		d.Allowed, d.RetryAfter = false, until(limit)
	case cost > 0:
		debt.Add(debt, whole(cost))
		w.debt, w.at = debt, later
	}
	d.Remaining = max(0, floor(new(big.Rat).Sub(capacity, debt)))
	d.ResetAfter = until(new(big.Rat))
	return d
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ceil(r *big.Rat) int64 { return -floor(new(big.Rat).Neg(r)) }

// windowWitness counts units in the window that holds the present.
type windowWitness struct {
	used  *big.Int
	start time.Time
}

func (w *windowWitness) step(l *algo.Limit, now, cost, slack int64) algo.Decision {
	present := time.UnixMicro(now).UTC()
	if w.used == nil {
		w.used = new(big.Int)
	}
	if ahead := w.start.Sub(present); ahead > 0 && ahead <= algo.MaxSkew*time.Microsecond {
		present = w.start
	}
	start, end := windowOf(l, present)
	used := w.used
	if start.After(w.start) {
		used = new(big.Int)
	}
	if start.Before(w.start) {
		w.start = start // the clock stepped back
	}

	d := algo.Decision{Allowed: true, ResetAfter: end.UnixMicro() - now}
	capacity := big.NewInt(l.Quota + slack)
	sum := new(big.Int).Add(used, big.NewInt(max(cost, 1)))
	switch {
	case cost < 0:
		if used.Sign() > 0 {
			used = new(big.Int).Add(used, big.NewInt(cost))
			if used.Sign() < 0 {
				used.SetInt64(0)
			}
			w.used, w.start = used, start
		}
	case capacity.Cmp(big.NewInt(max(cost, 1))) < 0:
		d.Allowed, d.RetryAfter = false, algo.Never
	case sum.Cmp(capacity) > 0:
		d.Allowed, d.RetryAfter = false, d.ResetAfter
	case cost > 0:
		used = sum
		w.used, w.start = used, start
	}
	d.Remaining = max(0, new(big.Int).Sub(capacity, used).Int64())
	return d
}

// windowOf finds the window by walking the calendar, not by dividing it.
func windowOf(l *algo.Limit, at time.Time) (start, end time.Time) {
	switch l.Calendar {
	case algo.Monthly:
		start = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 1, 0)
	case algo.Yearly:
		start = time.Date(at.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(1, 0, 0)
	case algo.NoCalendar:
	}
	window := time.Duration(l.Window) * time.Microsecond
	start = at.Add(-time.Duration(at.UnixMicro()%l.Window) * time.Microsecond)
	return start, start.Add(window)
}
