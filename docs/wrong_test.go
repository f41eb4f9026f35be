package docs_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
)

// wrongRequests is how many requests each traffic of the table has.
const wrongRequests = 20_000

// wrongTable holds the decisions of a sliding window counter against those of
// a log that knows exactly what the counter admitted.
func wrongTable(*testing.T) table {
	const quota = 100
	var t table
	t.row("traffic", "wrong", "wrongly admitted", "wrong by more than 5 %", "admitted, to a log's", "most in a window")
	row := func(name string, w wrong) {
		share := func(n int) string { return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(w.requests)) }
		t.row(name, share(w.admitted+w.denied), share(w.admitted), share(w.far),
			fmt.Sprintf("%.1f %%", 100*float64(w.byCounter)/float64(w.byLog)), times(w.most, quota))
	}
	for _, load := range []float64{0.5, 0.9, 1.1, 2} {
		row(fmt.Sprintf("even, %g ×", load), compare(quota, wrongRequests, even(load*quota)))
	}
	for _, load := range []float64{0.5, 0.9, 1.1, 2} {
		row(fmt.Sprintf("bursty, %g ×", load), compare(quota, wrongRequests, bursty(load*quota)))
	}
	row("1,000 callers", crowd(quota))
	return t
}

// A gap draws the time from one request to the next, in microseconds.
type gap func(r *rand.Rand) int64

// even spaces requests by half to one and a half of the mean.
func even(perSecond float64) gap {
	return func(r *rand.Rand) int64 { return int64((0.5 + r.Float64()) * second / perSecond) }
}

// bursty sends 1 to 100 requests a millisecond apart, after a random
// (exponential) rest that makes up for their number.
func bursty(perSecond float64) gap {
	left := 0
	return func(r *rand.Rand) int64 {
		if left > 0 {
			left--
			return millisecond
		}
		left = r.IntN(100)
		mean := float64(left+1)*second/perSecond - float64(left)*millisecond
		return int64(r.ExpFloat64() * mean)
	}
}

// crowd is many callers, each with a bucket of its own and random (Poisson)
// requests for half a minute. The busiest sends twice the quota, the second
// half of that, the third a third, and so on.
func crowd(quota int64) wrong {
	var sum wrong
	for caller := range 1000 {
		perSecond := 2 * float64(quota) / float64(caller+1)
		random := func(r *rand.Rand) int64 { return int64(r.ExpFloat64() * second / perSecond) }
		sum.add(compare(quota, int(30*perSecond), random))
	}
	return sum
}

// wrong counts decisions that were.
type wrong struct {
	requests, admitted, denied int
	far                        int // of these, by more than a twentieth of the quota
	byCounter, byLog           int
	most                       int64
}

func (w *wrong) add(o wrong) {
	w.requests += o.requests
	w.admitted += o.admitted
	w.denied += o.denied
	w.far += o.far
	w.byCounter += o.byCounter
	w.byLog += o.byLog
	w.most = max(w.most, o.most)
}

// compare sends the same n requests to a counter, to a log of what the counter
// admitted, and to a log alone.
func compare(quota int64, n int, next gap) wrong {
	r := rand.New(rand.NewPCG(2, 3))
	counter := &algo.Limit{Algorithm: algo.SlidingWindowCounter, Quota: quota, Window: second}
	log := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: quota, Window: second, Overdraft: quota}
	var counted, exact, alone algo.State
	w := wrong{requests: n}
	now := int64(epoch)
	for range n {
		now += next(r)
		holds := 2*quota - algo.Step(&exact, log, now, 0, quota).Remaining
		admitted := algo.Step(&counted, counter, now, 1, 0).Allowed
		switch {
		case admitted && holds >= quota:
			w.admitted++
		case !admitted && holds < quota:
			w.denied++
		}
		if admitted && holds >= quota+quota/20 || !admitted && holds < quota-quota/20 {
			w.far++
		}
		if admitted {
			algo.Step(&exact, log, now, 1, quota)
			w.byCounter++
			w.most = max(w.most, holds+1)
		}
		if algo.Step(&alone, log, now, 1, 0).Allowed {
			w.byLog++
		}
	}
	return w
}
