package docs_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
)

// Units and the beginning of time.
const (
	millisecond = algotest.Millisecond
	second      = algotest.Second
	epoch       = algotest.Epoch
)

// How hard the search tries: climbs from random beginnings, steps of a climb,
// requests of an attack.
const (
	climbs = 12
	steps  = 350
	length = 16
)

// worstTable searches for the traffic that gets most out of each algorithm.
func worstTable(t *testing.T) table {
	const quota = 100
	var out table
	out.row("100 per second", "in any second", "bound", "in any 10 ms", "bound")
	for _, c := range []struct {
		name  string
		limit algo.Limit
		queue bool // count what goes on, not what is admitted
		short int64
	}{
		{"`fixed_window`", algo.Limit{Algorithm: algo.FixedWindow}, false, 2 * quota},
		{"`sliding_window_log`", algo.Limit{Algorithm: algo.SlidingWindowLog}, false, quota},
		{"`sliding_window_counter`", algo.Limit{Algorithm: algo.SlidingWindowCounter}, false, quota + 1},
		{"`token_bucket`, burst 100", algo.Limit{Algorithm: algo.TokenBucket, Burst: quota}, false, quota + 1},
		{"`token_bucket`, burst 25", algo.Limit{Algorithm: algo.TokenBucket, Burst: 25}, false, 26},
		{"`gcra`, burst 100", algo.Limit{Algorithm: algo.GCRA, Burst: quota}, false, quota + 1},
		{"`leaky_bucket`, burst 100", algo.Limit{Algorithm: algo.LeakyBucket, Burst: quota}, false, quota + 1},
		{"the same, as it goes on", algo.Limit{Algorithm: algo.LeakyBucket, Burst: quota}, true, 2},
	} {
		l := &c.limit
		l.Quota, l.Window = quota, second
		long := algotest.Bound(l)
		if c.queue {
			long = quota + 1
		}
		row := []any{c.name}
		for _, in := range []struct{ span, bound int64 }{{second, long}, {10 * millisecond, c.short}} {
			found := search(l, in.span, c.queue)
			if found > in.bound {
				t.Errorf("%s admitted %d in %d µs, at most %d may be", c.name, found, in.span, in.bound)
			}
			row = append(row, times(found, quota), times(in.bound, quota))
		}
		out.row(row...)
	}
	return out
}

func times(n, quota int64) string { return fmt.Sprintf("%.2f ×", float64(n)/float64(quota)) }

// search climbs to the most units that any span of time can be made to admit.
func search(l *algo.Limit, span int64, queue bool) int64 {
	r := rand.New(rand.NewPCG(1, uint64(l.Algorithm)))
	best, tries := int64(0), climbs
	if queue {
		tries /= 8 // unit by unit, each step takes long
	}
	for climb := range tries {
		attack := make([]algotest.Request, length)
		for i := range attack {
			attack[i] = algotest.Request{At: epoch + r.Int64N(3*l.Window), Cost: 1 + r.Int64N(l.Quota)}
		}
		if climb%2 == 0 {
			attack = algotest.Attack(r, l, length)
		}
		inOrder(attack)
		score := admits(l, attack, span, queue)
		for range steps {
			other := mutated(r, l, attack)
			if reached := admits(l, other, span, queue); reached >= score {
				attack, score = other, reached
			}
		}
		best = max(best, score)
	}
	return best
}

// mutated returns the attack with one request of another cost or at another
// time: a microsecond up to a window from where it was, almost a window after
// another request, or when something of that one has come back.
func mutated(r *rand.Rand, l *algo.Limit, attack []algotest.Request) []algotest.Request {
	attack = slices.Clone(attack)
	q := &attack[r.IntN(len(attack))]
	far := l.Window >> r.IntN(20)
	switch r.IntN(5) {
	case 0:
		q.Cost = 1 + r.Int64N(l.Quota)
	case 1:
		q.At = attack[r.IntN(len(attack))].At + l.Window - 1 - r.Int64N(1+far)
	case 2:
		q.At = attack[r.IntN(len(attack))].At + (1+r.Int64N(l.Quota))*l.Window/l.Quota
	default:
		q.At = max(epoch, q.At+r.Int64N(2*far+1)-far)
	}
	inOrder(attack)
	return attack
}

func inOrder(attack []algotest.Request) {
	slices.SortStableFunc(attack, func(a, b algotest.Request) int { return cmp.Compare(a.At, b.At) })
}

// admits plays the attack, in which each request takes as much of its cost as
// remains, and returns the most units that the span saw. Into a queue they come
// one by one, and are counted when they go on.
func admits(l *algo.Limit, attack []algotest.Request, span int64, queue bool) int64 {
	var s algo.State
	seen := make([]algotest.Request, 0, len(attack))
	for _, q := range attack {
		take := min(q.Cost, algo.Step(&s, l, q.At, 0, 0).Remaining)
		switch {
		case queue:
			for range take {
				seen = append(seen, algotest.Request{At: q.At + algo.Step(&s, l, q.At, 1, 0).Delay, Cost: 1})
			}
		case take > 0:
			algo.Step(&s, l, q.At, take, 0)
			seen = append(seen, algotest.Request{At: q.At, Cost: take})
		}
	}
	worst, sum, first := int64(0), int64(0), 0
	for _, q := range seen {
		sum += q.Cost
		for seen[first].At <= q.At-span {
			sum -= seen[first].Cost
			first++
		}
		worst = max(worst, sum)
	}
	return worst
}
