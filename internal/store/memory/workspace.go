package memory

import (
	"sync"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/store"
)

// A workspace holds the buckets of one request of several ops while they are
// worked on.
type workspace struct {
	buckets []bucket
	of      []int // the bucket of each op
}

// A bucket is a copy of a record, or of the untouched one that is not there.
type bucket struct {
	shard    *shard
	key      string
	id       uint64
	reserved bool // room for one more is taken
	before   algo.State
	state    algo.State
	reset    int64 // the ResetAfter of state
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// load finds the bucket of each op. An op that would need a bucket for which
// there is no room gets its error here.
func (w *workspace) load(s *Store, now int64, ops []store.Op) {
	w.buckets, w.of = w.buckets[:0], w.of[:0]
	for i := range ops {
		op := &ops[i]
		op.Err = nil
		b := w.bucket(s, op.Key, op.Limit.ID())
		w.of = append(w.of, b)
		if op.Kind != store.Take && op.Kind != store.Charge {
			continue
		}
		grows := op.Limit.Algorithm == algo.SlidingWindowLog
		if b := &w.buckets[b]; !b.reserved && (grows || b.shard.find(b.key, b.id) == nil) {
			if b.reserved = b.shard.reserve(now, 1); !b.reserved {
				op.Decision, op.Err = algo.Decision{}, store.ErrFull
			}
		}
	}
	for i := range w.buckets { // only now: making room may drop a record
		b := &w.buckets[i]
		if r := b.shard.find(b.key, b.id); r != nil {
			b.before, b.state = r.state, r.state
		}
	}
}

// bucket returns the index of the bucket, which it begins if it is the first
// to ask for it.
func (w *workspace) bucket(s *Store, key string, id uint64) int {
	for i := range w.buckets {
		if b := &w.buckets[i]; b.id == id && b.key == key {
			return i
		}
	}
	w.buckets = append(w.buckets, bucket{shard: s.shard(key), key: key, id: id})
	return len(w.buckets) - 1
}

// perform decides all ops. It steps every bucket in order first; if the
// verdict leaves something of that unwritten, it begins anew with what is
// written, and answers what remains for the rest. Then it settles how long those
// have to wait that a bucket was denied together.
func (w *workspace) perform(now int64, ops []store.Op) {
	for i := range ops {
		if ops[i].Err == nil {
			ops[i].Decision = w.step(now, i, &ops[i], ops[i].Kind)
		}
	}
	denied := store.Denied(ops)
	if unwritten(ops, denied) {
		w.anew(now, ops, denied)
	}
	if denied {
		w.settle(now, ops)
	}
}

func (w *workspace) anew(now int64, ops []store.Op, denied bool) {
	for i := range w.buckets {
		w.buckets[i].state = w.buckets[i].before
	}
	for i := range ops {
		if store.Written(ops, i, denied) {
			w.step(now, i, &ops[i], ops[i].Kind)
		}
	}
	for i := range ops {
		if op := &ops[i]; op.Err == nil && !store.Written(ops, i, denied) {
			left := w.step(now, i, op, store.Peek)
			op.Decision.Remaining, op.Decision.ResetAfter = left.Remaining, left.ResetAfter
		}
	}
}

// step performs op i as one of the given kind. Only of an op that is itself a
// peek is nothing kept: a peek on behalf of another may re-date the state.
func (w *workspace) step(now int64, i int, op *store.Op, kind store.Kind) algo.Decision {
	b := &w.buckets[w.of[i]]
	state := b.state
	d := perform(&state, op, kind, now)
	if op.Kind != store.Peek && state != b.state {
		b.state, b.reset = state, d.ResetAfter
	}
	return d
}

// unwritten reports whether a take that fitted is not to be written after all.
func unwritten(ops []store.Op, denied bool) bool {
	for i := range ops {
		if op := &ops[i]; op.Kind == store.Take && op.Err == nil && op.Decision.Allowed && !store.Written(ops, i, denied) {
			return true
		}
	}
	return false
}

// commit keeps the buckets that changed.
func (w *workspace) commit(s *Store, now int64) {
	for i := range w.buckets {
		b := &w.buckets[i]
		if b.state != b.before {
			r := newRecord(b.id, b.state, now+b.reset)
			grows := r.weight()
			if at := b.shard.find(b.key, b.id); at != nil {
				grows -= at.weight()
			}
			s.room.Add(-grows)
			b.shard.keep(b.key, r)
		}
		if b.reserved {
			s.room.Add(1)
		}
		*b = bucket{}
	}
}
