package algotest

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

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
	case algo.SlidingWindowLog:
		return &logWitness{}
	case algo.SlidingWindowCounter:
		return &counterWitness{used: new(big.Rat), before: new(big.Rat)}
	case algo.TokenBucket, algo.LeakyBucket, algo.GCRA:
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
	if c.Algorithm != algo.GCRA { // whose debt is time, not units
		c.Quota = 1 + r.Int64N(1+2*l.Quota)
	}
	c.Burst = 0
	switch r.IntN(4) {
	case 0: // hardly another
		c.Quota, c.Burst = l.Quota, max(1, l.Burst-r.Int64N(3))
	case 1, 2:
		c.Burst = 1 + r.Int64N(1+2*l.Burst)
	}
	return limit(c.Algorithm, c)
}
