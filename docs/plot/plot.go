// Package plot draws how each algorithm treats the same traffic, as SVG: what
// it admits and what it denies, and what remains meanwhile. The decisions are
// those of [algo.Step].
package plot

import "github.com/rlsd/rlsd/internal/algo"

// Units of time, in microseconds.
const (
	millisecond = 1_000
	second      = 1_000 * millisecond
)

const (
	// epoch is when traffic begins, at the beginning of a window.
	epoch = 1_728_000_000 * second
	// span is how long it is watched.
	span = 4 * second
	// quota is what the limit grants per second, and what a bucket holds.
	quota = 10
)

// Limit returns the limit that all pictures are of: 10 per second, and a burst
// of 10 where there is one.
func Limit(a algo.Algorithm) *algo.Limit {
	l := &algo.Limit{Algorithm: a, Quota: quota, Window: second}
	if a.IsBucket() {
		l.Burst = quota
	}
	return l
}

// Traffic is a run of requests of one unit each.
type Traffic struct {
	Name, Text string
	Requests   []int64 // since epoch, in order
	block      float64 // height of a request in the picture
}

// All returns the traffic of the pictures: a burst, a steady overload, a
// boundary attack.
func All() []Traffic {
	return []Traffic{
		{
			Name: "Bursts", Text: "15 at once, at 0.5, 1.25 and 3.25 s", block: 5,
			Requests: series(15, millisecond, 500*millisecond, 1250*millisecond, 3250*millisecond),
		},
		{
			Name: "Steady overload", Text: "20 per second from 0.3 s on", block: 12,
			Requests: series(74, 50*millisecond, 300*millisecond),
		},
		{
			Name: "Boundary attack", Text: "10 before and 10 after 1 s and 3 s, 10 at 1.75 s", block: 5,
			Requests: series(10, 5*millisecond,
				950*millisecond, second, 1750*millisecond, 2950*millisecond, 3*second),
		},
	}
}

// series returns n requests a step apart from each of the starts on.
func series(n int, step int64, starts ...int64) []int64 {
	var all []int64
	for _, start := range starts {
		for i := range n {
			all = append(all, start+int64(i)*step)
		}
	}
	return all
}

// Result is what an algorithm made of traffic.
type Result struct {
	Traffic   Traffic
	Decisions []algo.Decision // one for each request
	Admitted  int
	Most      int // admitted within any one second
	levels    []int64
}

// Play lets the algorithm decide the traffic.
func Play(a algo.Algorithm, t Traffic) Result {
	r := Result{Traffic: t}
	var s algo.State
	var admitted []int64
	next, l := 0, Limit(a)
	for at := int64(0); at < span; at += millisecond {
		for ; next < len(t.Requests) && t.Requests[next] <= at; next++ {
			d := algo.Step(&s, l, epoch+t.Requests[next], 1, 0)
			r.Decisions = append(r.Decisions, d)
			if d.Allowed {
				admitted = append(admitted, t.Requests[next])
			}
		}
		r.levels = append(r.levels, level(a, algo.Step(&s, l, epoch+at, 0, 0)))
	}
	r.Admitted = len(admitted)
	first := 0
	for last, at := range admitted {
		for admitted[first] <= at-second {
			first++
		}
		r.Most = max(r.Most, last-first+1)
	}
	return r
}

// level is what the lower half of a panel shows: what remains in thousandths
// of the quota or, of a queue, how long it takes to drain in thousandths of a
// second.
func level(a algo.Algorithm, peek algo.Decision) int64 {
	if a == algo.LeakyBucket {
		return peek.ResetAfter / millisecond
	}
	return peek.Remaining * 1000 / quota
}
