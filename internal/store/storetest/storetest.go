// Package storetest is the acceptance suite of [store.Store]: what every
// implementation and every decorator must do.
package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/store"
)

// A Factory makes a store that is empty of the keys under test and takes the
// caller's time for its own. It closes the store with the test.
type Factory func(tb testing.TB) store.Store

// Run checks the stores that the factory makes. Rounds is how many random
// buckets each law of algotest, and how many random requests the model tries.
func Run(t *testing.T, factory Factory, rounds int) {
	t.Run("algorithms", func(t *testing.T) { algotest.Run(t, subject(factory(t), rounds)) })
	for _, c := range []struct {
		name string
		test func(t *testing.T, s store.Store)
	}{
		{"of 64 takers exactly the quota is admitted", exactUnderContention},
		{"several limits of a node are all or nothing", nodeIsAllOrNothing},
		{"several nodes are all or nothing", requestIsAllOrNothing},
		{"requests that cross each other neither deadlock nor overspend", crossing},
		{"the same key twice is taken twice", sameKeyTwice},
		{"retry-after holds for all parts of a bucket", partsRetry},
		{"shadow ops never deny", shadow},
		{"quota descriptors deny when all are over", quota},
		{"a charge and a give-back outlive a denial", chargeOutlivesDenial},
		{"reset forgets", reset},
		{"a clock that stepped back keeps the debt and the promise", clockStepsBack},
		{"a raised limit goes on with its bucket, another window does not", identity},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, factory(t)) })
	}
	t.Run("random requests agree with the model", func(t *testing.T) { agreesWithModel(t, factory(t), rounds) })
}

// subject lets algotest step buckets through a store.
func subject(s store.Store, rounds int) algotest.Subject {
	do := func(tb testing.TB, op store.Op, now int64) algo.Decision {
		tb.Helper()
		return take(tb, s, now, op)[0].Decision
	}
	return algotest.Subject{
		NoSlack: true,
		Forgets: true,
		Rounds:  rounds,
		Step: func(tb testing.TB, key string, l *algo.Limit, now, cost, _ int64) algo.Decision {
			op := store.Op{Key: key, Limit: l, Kind: store.Take, Role: store.Must, Cost: cost}
			switch {
			case cost == 0:
				op.Kind = store.Peek
			case cost < 0:
				op.Kind, op.Cost = store.Give, -cost
			}
			return do(tb, op, now)
		},
		Charge: func(tb testing.TB, key string, l *algo.Limit, now, cost int64) algo.Decision {
			return do(tb, store.Op{Key: key, Limit: l, Kind: store.Charge, Role: store.Must, Cost: cost}, now)
		},
	}
}

const now = algotest.Epoch

// take performs the ops as one request and returns them.
func take(tb testing.TB, s store.Store, now int64, ops ...store.Op) []store.Op {
	tb.Helper()
	if err := s.Take(context.Background(), time.UnixMicro(now), ops); err != nil {
		tb.Fatal(err)
	}
	for _, op := range ops {
		if op.Err != nil {
			tb.Fatal(op.Err)
		}
	}
	return ops
}

func must(key string, l *algo.Limit, cost int64) store.Op {
	return store.Op{Key: key, Limit: l, Kind: store.Take, Role: store.Must, Cost: cost}
}

func in(role store.Role, descriptor int, op store.Op) store.Op {
	op.Role, op.Descriptor = role, descriptor
	return op
}

// left returns what remains in the bucket.
func left(tb testing.TB, s store.Store, key string, l *algo.Limit) int64 {
	tb.Helper()
	return take(tb, s, now, store.Op{Key: key, Limit: l, Kind: store.Peek, Role: store.Must})[0].Decision.Remaining
}

func window(quota int64) *algo.Limit {
	return &algo.Limit{Algorithm: algo.FixedWindow, Quota: quota, Window: algotest.Hour}
}

func tokens(quota, burst int64) *algo.Limit {
	return &algo.Limit{Algorithm: algo.TokenBucket, Quota: quota, Window: algotest.Hour, Burst: burst}
}

func expectLeft(t *testing.T, s store.Store, key string, l *algo.Limit, want int64) {
	t.Helper()
	if got := left(t, s, key, l); got != want {
		t.Errorf("%s: %d left, want %d", key, got, want)
	}
}

func expectAllowed(t *testing.T, ops []store.Op, want ...bool) {
	t.Helper()
	for i, op := range ops {
		if op.Decision.Allowed != want[i] {
			t.Errorf("op %d: allowed %t, want %t", i, op.Decision.Allowed, want[i])
		}
	}
}

func exactUnderContention(t *testing.T, s store.Store) {
	for _, l := range []*algo.Limit{window(500), tokens(500, 500)} {
		var admitted atomic.Int64
		var takers sync.WaitGroup
		for range 64 {
			takers.Go(func() {
				for range 20 {
					ops := []store.Op{must("contended", l, 1)}
					if err := s.Take(context.Background(), time.UnixMicro(now), ops); err != nil {
						t.Error(err)
					}
					if ops[0].Err == nil && ops[0].Decision.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		takers.Wait()
		if n := admitted.Load(); n != 500 {
			t.Errorf("%s: %d of 1280 takers admitted, want 500", l.Algorithm, n)
		}
	}
}

func nodeIsAllOrNothing(t *testing.T, s store.Store) {
	hour, burst := window(10), tokens(10, 3)
	ops := take(t, s, now, must("node", hour, 3), must("node", burst, 3))
	expectAllowed(t, ops, true, true)
	ops = take(t, s, now, must("node", hour, 1), must("node", burst, 1))
	expectAllowed(t, ops, true, false)
	if got := ops[0].Decision.Remaining; got != 7 {
		t.Errorf("the denied request says %d left of the limit that it fits into, want 7", got)
	}
	expectLeft(t, s, "node", hour, 7)
	expectLeft(t, s, "node", burst, 0)
}

func requestIsAllOrNothing(t *testing.T, s store.Store) {
	l := window(5)
	take(t, s, now, must("two", l, 3))
	ops := take(t, s, now, must("one", l, 4), in(store.Must, 1, must("two", l, 4)), in(store.Must, 2, must("three", l, 4)))
	expectAllowed(t, ops, true, false, true)
	for i, want := range []int64{5, 2, 5} {
		if got := ops[i].Decision.Remaining; got != want {
			t.Errorf("op %d says %d left, want %d", i, got, want)
		}
	}
	expectLeft(t, s, "one", l, 5)
	expectLeft(t, s, "two", l, 2)
	expectLeft(t, s, "three", l, 5)
}

func crossing(t *testing.T, s store.Store) {
	l := window(100)
	var admitted atomic.Int64
	var takers sync.WaitGroup
	for i := range 16 {
		takers.Go(func() {
			a, b := fmt.Sprint("cross", i%4), fmt.Sprint("cross", (i+1)%4)
			for range 40 {
				ops := []store.Op{must(a, l, 1), in(store.Must, 1, must(b, l, 1))}
				if err := s.Take(context.Background(), time.UnixMicro(now), ops); err != nil {
					t.Error(err)
					return
				}
				if !store.Denied(ops) {
					admitted.Add(1)
				}
			}
		})
	}
	takers.Wait()
	spent := int64(0)
	for i := range 4 {
		spent += 100 - left(t, s, fmt.Sprint("cross", i), l)
	}
	if n := admitted.Load(); spent != 2*n {
		t.Errorf("%d requests of two units admitted, %d units spent", n, spent)
	}
}

func sameKeyTwice(t *testing.T, s store.Store) {
	l := window(10)
	ops := take(t, s, now, must("twice", l, 4), in(store.Must, 1, must("twice", l, 4)))
	expectAllowed(t, ops, true, true)
	if got := ops[1].Decision.Remaining; got != 2 {
		t.Errorf("%d left after the second, want 2", got)
	}
	ops = take(t, s, now, must("twice", l, 2), in(store.Must, 1, must("twice", l, 2)))
	expectAllowed(t, ops, true, false)
	expectLeft(t, s, "twice", l, 2)
}

// partsRetry holds that the retry-after of a request that asks a bucket in parts
// is when all of them fit, a peek among them, and that there is none if they
// never do.
func partsRetry(t *testing.T, s store.Store) {
	for _, l := range partsLimits() {
		for i, costs := range [][]int64{
			{1, 1}, {3, 1}, {1, 3}, {2, 1, 4}, {10}, {5, 5}, {6, 1}, {6, 6}, {9, 0}, {10, 0}, {3, 0}, {0, 3}, {4, 0, 4}, {3, 6},
		} {
			key := fmt.Sprint("parts/", l.Algorithm, l.MaxDelay, i)
			at := int64(now) + 3*algotest.Second
			take(t, s, at-algotest.Second/10, must(key, l, 3))
			take(t, s, at, must(key, l, 4))
			ask := func(at int64) (allowed bool, retry int64) {
				var ops []store.Op
				for j, cost := range costs {
					op := in(store.Must, j, must(key, l, cost))
					if cost == 0 {
						op.Kind = store.Peek
					}
					ops = append(ops, op)
				}
				ops = take(t, s, at, ops...)
				for _, op := range ops {
					if retry = max(retry, op.Decision.RetryAfter); op.Decision.RetryAfter == algo.Never {
						return false, algo.Never
					}
				}
				return !store.Denied(ops), retry
			}
			at += algotest.Second / 5
			_, retry := ask(at)
			if retry == algo.Never {
				if in, _ := ask(at + 3*algotest.Minute); in {
					t.Errorf("%v, parts of %d: never, and yet", *l, costs)
				}
				continue
			}
			if early, _ := ask(at + retry - 1); early && retry > 0 {
				t.Errorf("%v, parts of %d: admitted before %d µs", *l, costs, retry)
			}
			if in, _ := ask(at + retry); !in && retry > 0 {
				t.Errorf("%v, parts of %d: denied after %d µs", *l, costs, retry)
			}
		}
	}
}

func partsLimits() (limits []*algo.Limit) {
	for _, a := range algo.All() {
		l := &algo.Limit{Algorithm: a, Quota: 10, Window: 10 * algotest.Second}
		if a.IsBucket() {
			l.Burst = 10
		}
		limits = append(limits, l)
	}
	brief := *limits[algo.LeakyBucket-1]
	brief.MaxDelay = 5 * algotest.Second
	return append(limits, &brief)
}

func shadow(t *testing.T, s store.Store) {
	l := window(2)
	ops := take(t, s, now, must("real", l, 1), in(store.Shadow, 1, must("shade", l, 3)))
	expectAllowed(t, ops, true, false)
	if store.Denied(ops) {
		t.Error("a shadow op denied")
	}
	expectLeft(t, s, "real", l, 1)
	expectLeft(t, s, "shade", l, 2)
	ops = take(t, s, now, must("real", l, 2), in(store.Shadow, 1, must("shade", l, 1)))
	expectAllowed(t, ops, false, true)
	expectLeft(t, s, "shade", l, 2)
	take(t, s, now, must("real", l, 1), in(store.Shadow, 1, must("shade", l, 1)))
	expectLeft(t, s, "shade", l, 1)
}

func quota(t *testing.T, s store.Store) {
	l := window(2)
	both := func(a, b int64) []store.Op {
		return take(t, s, now, in(store.Quota, 0, must("q1", l, a)), in(store.Quota, 1, must("q2", l, b)))
	}
	if store.Denied(both(1, 3)) {
		t.Error("denied with one of two quotas left")
	}
	expectLeft(t, s, "q1", l, 1)
	expectLeft(t, s, "q2", l, 2)
	if !store.Denied(both(2, 3)) {
		t.Error("allowed with all quotas over")
	}
	// A descriptor with a limit that is over takes nothing of its others.
	other := tokens(9, 9)
	ops := take(t, s, now,
		in(store.Quota, 0, must("q1", other, 1)), in(store.Quota, 0, must("q1", l, 2)),
		in(store.Quota, 1, must("q2", l, 1)))
	if store.Denied(ops) {
		t.Error("denied with one of two quotas left")
	}
	expectLeft(t, s, "q1", other, 9)
	expectLeft(t, s, "q2", l, 1)
}

func chargeOutlivesDenial(t *testing.T, s store.Store) {
	l := window(5)
	owing := window(5)
	owing.Overdraft = 100
	take(t, s, now, must("given", l, 5))
	ops := take(t, s, now,
		must("deny", l, 6),
		in(store.Must, 1, store.Op{Key: "charged", Limit: owing, Kind: store.Charge, Cost: 20}),
		in(store.Must, 2, store.Op{Key: "given", Limit: l, Kind: store.Give, Cost: 3}))
	expectAllowed(t, ops, false, false, true)
	expectLeft(t, s, "charged", owing, 0)
	expectLeft(t, s, "given", l, 3)
	take(t, s, now, store.Op{Key: "charged", Limit: owing, Kind: store.Give, Cost: 16})
	expectLeft(t, s, "charged", owing, 1)
}

func reset(t *testing.T, s store.Store) {
	l := window(5)
	log := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: 5, Window: algotest.Hour}
	take(t, s, now, must("a", l, 5), must("a", log, 5), in(store.Must, 1, must("b", l, 5)))
	if err := s.Reset(context.Background(), []string{"a", "never used"}); err != nil {
		t.Fatal(err)
	}
	expectLeft(t, s, "a", l, 5)
	expectLeft(t, s, "a", log, 5)
	expectLeft(t, s, "b", l, 0)
}

func clockStepsBack(t *testing.T, s store.Store) {
	l, other := tokens(10, 10), window(5)
	take(t, s, now, must("stepped", l, 10))
	back := int64(now - 10*algotest.Minute)
	take(t, s, back, store.Op{Key: "stepped", Limit: l, Kind: store.Peek, Role: store.Must})
	expectLeft(t, s, "stepped", l, 0) // a peek changes nothing, not even the time
	ops := take(t, s, back, must("stepped", l, 1), in(store.Must, 1, must("other", other, 1)))
	expectAllowed(t, ops, false, true)
	wait := ops[0].Decision.RetryAfter
	if want := int64(6 * algotest.Minute); wait != want {
		t.Fatalf("retry after %d, want %d", wait, want)
	}
	expectAllowed(t, take(t, s, back+wait-1, must("stepped", l, 1)), false)
	expectAllowed(t, take(t, s, back+wait, must("stepped", l, 1)), true)
}

func identity(t *testing.T, s store.Store) {
	take(t, s, now, must("id", window(5), 5))
	expectLeft(t, s, "id", window(8), 3)
	daily := window(5)
	daily.Window = algotest.Day
	expectLeft(t, s, "id", daily, 5)
	expectLeft(t, s, "id", tokens(5, 5), 5)
	take(t, s, now, must("id", daily, 1))
	expectLeft(t, s, "id", window(8), 3)
}
