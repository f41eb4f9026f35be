package memory

import (
	"slices"
	"sync"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/store"
)

// A shard is a part of the keys under a lock of its own.
type shard struct {
	mu    sync.Mutex
	nodes map[string]*node
	due   queue
	all   *Store
	_     [64]byte // keeps neighbours off each other's cache line
}

// A node holds the buckets of one key.
type node struct {
	key     string
	records []record
	due     int64 // the time of its entry in the queue; other entries are void
}

// A record is one bucket of a node. It is kept until it has been as if
// untouched for algo.MaxSkew, so that a clock a little behind finds it still.
type record struct {
	id    uint64 // algo.Limit.ID
	until int64
	state algo.State
}

// weight is how many buckets' room the record takes: one, and for a log one
// more for every eight entries.
func (r *record) weight() int64 { return weight(r.state) }

func weight(s algo.State) int64 { return 1 + int64(s.Log.Len()/8) }

func newRecord(id uint64, state algo.State, untouched int64) record {
	return record{id, untouched + algo.MaxSkew, state}
}

// lock takes the shard and drops a few of the nodes that are due, more than
// one call can add.
func (sh *shard) lock(now int64) {
	sh.mu.Lock()
	for range 2 {
		if !sh.expireOne(now) {
			return
		}
	}
}

// expireOne drops the node that is due first and reports whether another may
// be due.
func (sh *shard) expireOne(now int64) bool {
	if len(sh.due) == 0 || sh.due[0].at > now {
		return false
	}
	n := sh.due[0].node
	if sh.due[0].at != n.due {
		sh.due.removeFirst()
		return true
	}
	last := int64(0)
	kept := n.records[:0]
	for _, r := range n.records {
		if r.until > now {
			kept = append(kept, r)
			last = max(last, r.until)
		} else {
			sh.all.room.Add(r.weight())
		}
	}
	n.records = kept
	if len(kept) > 0 {
		n.due = last
		sh.due.replaceFirst(last)
		return true
	}
	sh.due.removeFirst()
	if sh.nodes[n.key] == n {
		delete(sh.nodes, n.key)
	}
	return true
}

// reserve makes sure that buckets of a weight may be added, dropping what is due,
// here or in a shard that is free, if there is no room. A caller that adds none
// gives the room back. Records may have moved afterwards.
func (sh *shard) reserve(now, weight int64) bool {
	for sh.all.room.Add(-weight) < 0 {
		sh.all.room.Add(weight)
		if !sh.expireOne(now) && !sh.all.expireAnywhere(now) {
			return false
		}
	}
	return true
}

// find returns the bucket, or nil if it is untouched.
func (sh *shard) find(key string, id uint64) *record {
	n := sh.nodes[key]
	if n == nil {
		return nil
	}
	for i := range n.records {
		if n.records[i].id == id {
			return &n.records[i]
		}
	}
	return nil
}

// add keeps a new bucket, for which there is room.
func (sh *shard) add(key string, r record) {
	n := sh.nodes[key]
	if n == nil {
		n = &node{key: key, due: r.until}
		sh.nodes[key] = n
		sh.due.push(entry{r.until, n})
	}
	n.records = slices.Grow(n.records, 1)
	n.records = append(n.records, r)
}

// keep puts the record in the place of the one that there is, or adds it, for
// which there is room.
func (sh *shard) keep(key string, r record) {
	at := sh.find(key, r.id)
	if at == nil {
		sh.add(key, r)
		return
	}
	*at = r
	n := sh.nodes[key]
	if n.due > r.until && n.due > n.last() {
		n.due = n.last()
		sh.due.push(entry{n.due, n})
	}
}

// last is when all of the node's buckets have lapsed.
func (n *node) last() int64 {
	last := int64(0)
	for i := range n.records {
		last = max(last, n.records[i].until)
	}
	return last
}

// takeOne performs a request of a single op.
func (sh *shard) takeOne(now int64, op *store.Op) {
	id := op.Limit.ID()
	op.Err = nil
	r := sh.find(op.Key, id)
	var state algo.State
	if r != nil {
		state = r.state
	}
	before := state
	op.Decision = perform(&state, op, op.Kind, now)
	if state == before || op.Kind == store.Peek {
		return
	}
	grows := weight(state)
	if r != nil {
		grows -= r.weight()
	}
	if grows > 0 && !sh.reserve(now, grows) {
		op.Decision, op.Err = algo.Decision{}, store.ErrFull
		return
	}
	if grows < 0 {
		sh.all.room.Add(-grows)
	}
	sh.keep(op.Key, newRecord(id, state, now+op.Decision.ResetAfter))
}

// perform steps the state as the kind of op wants it.
func perform(state *algo.State, op *store.Op, kind store.Kind, now int64) algo.Decision {
	switch kind {
	case store.Peek:
		return algo.Step(state, op.Limit, now, 0, 0)
	case store.Give:
		return algo.Step(state, op.Limit, now, -op.Cost, 0)
	case store.Charge:
		return algo.Charge(state, op.Limit, now, op.Cost)
	default:
		return algo.Step(state, op.Limit, now, op.Cost, 0)
	}
}
