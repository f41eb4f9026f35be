package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/store"
)

// agreesWithModel plays random requests, of every kind and role over few keys,
// and wants the outcomes of the model.
func agreesWithModel(t *testing.T, s store.Store, rounds int) {
	r := rand.New(rand.NewPCG(5, 6))
	m := model{}
	var limits []*algo.Limit
	for _, a := range algo.All() {
		for _, quota := range []int64{3, 10} {
			l := algo.Limit{Algorithm: a, Quota: quota, Window: quota * 10 * algotest.Second, Overdraft: 20}
			if a.IsBucket() {
				l.Burst = quota + 2
			}
			limits = append(limits, &l)
		}
	}
	clock := algotest.Clock{Now: now}
	for n := range 10 * rounds {
		clock.Now += r.Int64N(20*algotest.Second) - r.Int64N(2*algotest.Second)
		clock.HoldBack()
		at := clock.Now
		ops := make([]store.Op, 1+r.IntN(5))
		for i := range ops {
			ops[i] = store.Op{
				Key:        fmt.Sprint("model", r.IntN(3)),
				Limit:      limits[r.IntN(len(limits))],
				Kind:       []store.Kind{store.Take, store.Take, store.Take, store.Peek, store.Give, store.Charge}[r.IntN(6)],
				Role:       []store.Role{store.Must, store.Must, store.Quota, store.Shadow}[r.IntN(4)],
				Descriptor: i / 2,
				Cost:       1 + r.Int64N(5),
			}
		}
		want := m.take(at, ops)
		got := take(t, s, at, ops...)
		for i := range want {
			if got[i].Decision != want[i] {
				t.Fatalf("request %d at %d, op %d of %+v\n got %+v\nwant %+v", n, at, i, ops, got[i].Decision, want[i])
			}
		}
	}
}

// A model is a store told in the plainest way: it tries all ops on a copy of
// everything, and does what the verdict leaves to do on another.
type model map[string]algo.State

func (m model) take(now int64, ops []store.Op) []algo.Decision {
	out := make([]algo.Decision, len(ops))
	tried := maps.Clone(m)
	for i := range ops {
		out[i] = tried.do(now, &ops[i], ops[i].Kind)
	}
	over := func(i int) bool { return !out[i].Allowed && ops[i].Kind != store.Give }
	overdrawn := map[int]bool{}
	for i, op := range ops {
		if op.Role == store.Quota {
			overdrawn[op.Descriptor] = overdrawn[op.Descriptor] || over(i)
		}
	}
	denied := len(overdrawn) > 0
	for _, all := range overdrawn {
		denied = denied && all
	}
	for i, op := range ops {
		denied = denied || op.Role == store.Must && over(i)
	}
	holds := func(i int) bool {
		switch op := ops[i]; op.Kind {
		case store.Give, store.Charge:
			return true
		case store.Take:
			return !denied && !over(i) && (op.Role != store.Quota || !overdrawn[op.Descriptor])
		default:
			return false
		}
	}
	undone := false
	for i, op := range ops {
		undone = undone || op.Kind == store.Take && !over(i) && !holds(i)
	}
	if !undone {
		maps.Copy(m, tried)
		if denied {
			m.settle(now, ops, out)
		}
		return out
	}
	for i := range ops {
		if holds(i) {
			m.do(now, &ops[i], ops[i].Kind)
		}
	}
	for i := range ops {
		if !holds(i) {
			d := m.do(now, &ops[i], store.Peek)
			out[i].Remaining, out[i].ResetAfter = d.Remaining, d.ResetAfter
		}
	}
	if denied {
		m.settle(now, ops, out)
	}
	return out
}

// settle gives the parts of a denied request that ask one bucket together the
// time at which all of them fit, by bisection.
func (m model) settle(now int64, ops []store.Op, out []algo.Decision) {
	parts := map[string][]int{}
	for i := range ops {
		parts[bucketOf(&ops[i])] = append(parts[bucketOf(&ops[i])], i)
	}
	for bucket, parts := range parts {
		over := func(i int) bool { return ops[i].Role == store.Must && ops[i].Kind != store.Give && !out[i].Allowed }
		if len(parts) < 2 || !slices.ContainsFunc(parts, over) || slices.ContainsFunc(parts, func(i int) bool {
			return ops[i].Kind == store.Charge || out[i].RetryAfter == algo.Never
		}) {
			continue
		}
		fits := func(at int64, s algo.State) bool {
			alone := model{bucket: s}
			for _, i := range parts {
				before := alone[bucket]
				if d := alone.do(at, &ops[i], ops[i].Kind); !d.Allowed {
					if ops[i].Role == store.Must && ops[i].Kind != store.Give {
						return false
					}
					alone[bucket] = before
				}
			}
			return true
		}
		wait := int64(algo.Never)
		if fits(now, algo.State{}) {
			wait = int64(sort.Search(int(algo.MaxWindow), func(t int) bool { return fits(now+int64(t), m[bucket]) }))
		}
		for _, i := range parts {
			if over(i) {
				out[i].RetryAfter = wait
			}
		}
	}
}

func (m model) do(now int64, op *store.Op, kind store.Kind) algo.Decision {
	bucket := bucketOf(op)
	s := m[bucket]
	var d algo.Decision
	switch kind {
	case store.Take:
		d = algo.Step(&s, op.Limit, now, op.Cost, 0)
	case store.Peek:
		d = algo.Step(&s, op.Limit, now, 0, 0)
	case store.Give:
		d = algo.Step(&s, op.Limit, now, -op.Cost, 0)
	case store.Charge:
		d = algo.Charge(&s, op.Limit, now, op.Cost)
	}
	if op.Kind != store.Peek {
		m[bucket] = s
	}
	return d
}

func bucketOf(op *store.Op) string { return fmt.Sprint(op.Key, op.Limit.ID()) }
