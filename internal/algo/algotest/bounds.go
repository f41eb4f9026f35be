package algotest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
)

// Bound returns the most units that the algorithm may admit in any window of
// the limit, whatever the traffic.
func Bound(l *algo.Limit) int64 {
	switch l.Algorithm {
	case algo.SlidingWindowLog:
		return l.Quota
	case algo.FixedWindow, algo.SlidingWindowCounter:
		return 2 * l.Quota
	default:
		return l.Quota + l.Burst
	}
}

// checkBound attacks a bucket with bursts at awkward times and counts what any
// window saw of them.
func checkBound(t *testing.T, a algo.Algorithm, s Subject) {
	r := rand.New(rand.NewPCG(8, 9))
	for round := range max(1, s.Rounds/20) {
		l := limit(a, algo.Limit{Quota: 1 + r.Int64N(30), Window: Second + r.Int64N(Minute), Burst: 1 + r.Int64N(30)})
		key := fmt.Sprintf("%s/%d", t.Name(), round)
		worst := WorstWindow(l, Attack(r, l, 200), func(now, cost int64) algo.Decision {
			return s.Step(t, key, l, now, cost, 0)
		})
		if bound := Bound(l); worst > bound {
			t.Fatalf("%+v admitted %d in a window, at most %d may be", *l, worst, bound)
		}
	}
}

// A Request is one of a run of traffic.
type Request struct{ At, Cost int64 }

// Attack returns requests that ask for much around the boundaries of windows
// and as soon as something may have come back.
func Attack(r *rand.Rand, l *algo.Limit, n int) []Request {
	requests := make([]Request, n)
	now := int64(Epoch)
	for i := range requests {
		switch r.IntN(5) {
		case 0:
			now += l.Window - now%l.Window - r.Int64N(2) // the end of a window, or just before
		case 1:
			now += r.Int64N(1 + l.Window/8)
		case 2:
			now += l.Window/max(1, l.Quota) + r.Int64N(3)
		default:
			now += r.Int64N(2)
		}
		requests[i] = Request{now, 1 + r.Int64N(max(1, l.Quota))}
	}
	return requests
}

// WorstWindow plays the requests, each of which asks again unit by unit where
// it is denied as a whole, and returns the most units that any window admitted.
func WorstWindow(l *algo.Limit, requests []Request, step func(now, cost int64) algo.Decision) int64 {
	var admitted []Request
	take := func(at, cost int64) bool {
		if !step(at, cost).Allowed {
			return false
		}
		admitted = append(admitted, Request{at, cost})
		return true
	}
	for _, q := range requests {
		if !take(q.At, q.Cost) {
			for range q.Cost {
				if !take(q.At, 1) {
					break
				}
			}
		}
	}
	worst, sum, first := int64(0), int64(0), 0
	for _, q := range admitted {
		sum += q.Cost
		for admitted[first].At <= q.At-l.Window {
			sum -= admitted[first].Cost
			first++
		}
		worst = max(worst, sum)
	}
	return worst
}

// checkRate takes all that remains, at phases that no rate is a multiple of, and
// wants the sum to be within 0.1 % of what the limit grants: no fraction of a
// unit may be lost between two requests. That is for buckets, which credit
// continuously; of a window, what lapses between two requests is gone.
func checkRate(t *testing.T, a algo.Algorithm, s Subject) {
	r := rand.New(rand.NewPCG(10, 11))
	for i, phase := range []int64{7, 150 * Millisecond, 190 * Millisecond, 333 * Millisecond} {
		for _, quota := range []int64{3, 7, 1000, 999_983, 1<<32 - 1} {
			if !a.IsBucket() || quota*phase < 2000*Second/int64(s.Rounds) {
				continue // too few units to tell 0.1 %
			}
			l := limit(a, algo.Limit{Quota: quota, Window: Second})
			key := fmt.Sprintf("%s/%d/%d", t.Name(), i, quota)
			share := admittedShare(l, phase, s.Rounds, r, func(now, cost int64) algo.Decision {
				return s.Step(t, key, l, now, cost, 0)
			})
			if share > 1.001 || share < 0.999 {
				t.Errorf("%d a second every %d µs: %.5f of the rate", quota, phase, share)
			}
		}
	}
}

// admittedShare asks n times, each time for all that remains, and returns what
// was admitted in proportion to what the limit grants.
func admittedShare(l *algo.Limit, phase int64, n int, r *rand.Rand, step func(now, cost int64) algo.Decision) float64 {
	now := int64(Epoch) + r.Int64N(Second)
	// Empty it first: a full bucket is a grant of its own.
	step(now, step(now, 0).Remaining)
	start, sum := now, int64(0)
	for range n {
		now += phase
		d := step(now, 0)
		if d.Remaining > 0 && step(now, d.Remaining).Allowed {
			sum += d.Remaining
		}
	}
	granted := float64(l.Quota) * float64(now-start) / float64(l.Window)
	return float64(sum) / granted
}
