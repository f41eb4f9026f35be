// Package memory keeps buckets in the process: the embedded default, for one
// instance or for tests. It promises exact counts while the process lives and
// nothing after that.
//
// The store is bounded in buckets; eight entries of a log count as one. At the bound an op that needs a new bucket
// gets [store.ErrFull] and leaves the rest of its request alone; buckets that
// exist go on, since forgetting one would let a denied caller in. A bucket is
// dropped once it is as if untouched, a few at each call, so no call and no
// background task scans the store.
package memory

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/rlsd/rlsd/internal/store"
)

// Options for New.
type Options struct {
	// MaxBuckets is the most buckets kept; 0 means a million.
	MaxBuckets int
}

// A Store keeps buckets in memory. It is safe for concurrent use.
type Store struct {
	seed   maphash.Seed
	shards [shards]shard
	room   atomic.Int64 // buckets that may still be added
	max    int64
}

const shards = 64 // bits of the set of shards that a request locks

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New(o Options) *Store {
	s := &Store{seed: maphash.MakeSeed(), max: int64(o.MaxBuckets)}
	if s.max <= 0 {
		s.max = 1_000_000
	}
	s.room.Store(s.max)
	for i := range s.shards {
		s.shards[i].nodes = make(map[string]*node)
		s.shards[i].all = s
	}
	return s
}

// Len returns how many buckets there are, as they count towards MaxBuckets.
func (s *Store) Len() int { return int(s.max - s.room.Load()) }

// Take implements [store.Store]. It never fails as a whole and never waits for
// anything but other calls on the same shards.
func (s *Store) Take(_ context.Context, now time.Time, ops []store.Op) error {
	t := now.UnixMicro()
	if len(ops) == 1 {
		sh := s.shard(ops[0].Key)
		sh.lock(t)
		sh.takeOne(t, &ops[0])
		sh.mu.Unlock()
		return nil
	}

	var set uint64
	for i := range ops {
		set |= 1 << s.shardIndex(ops[i].Key)
	}
	for rest := set; rest != 0; rest &= rest - 1 {
		s.shards[bits.TrailingZeros64(rest)].lock(t)
	}
	s.takeAll(t, ops)
	for rest := set; rest != 0; rest &= rest - 1 {
		s.shards[bits.TrailingZeros64(rest)].mu.Unlock()
	}
	return nil
}

// Reset implements [store.Store].
func (s *Store) Reset(_ context.Context, keys []string) error {
	for _, key := range keys {
		sh := s.shard(key)
		sh.mu.Lock()
		if n := sh.nodes[key]; n != nil {
			for i := range n.records {
				s.room.Add(n.records[i].weight())
			}
			n.records = nil
			delete(sh.nodes, key) // its entry in the expiry queue goes when due
		}
		sh.mu.Unlock()
	}
	return nil
}

// Close implements [store.Store]; the store holds nothing to release.
func (s *Store) Close() error { return nil }

func (s *Store) shardIndex(key string) uint64 { return maphash.String(s.seed, key) % shards }

func (s *Store) shard(key string) *shard { return &s.shards[s.shardIndex(key)] }

// expireAnywhere drops a node that is due in a shard that nobody holds.
func (s *Store) expireAnywhere(now int64) bool {
	for i := range s.shards {
		if sh := &s.shards[i]; sh.mu.TryLock() {
			dropped := sh.expireOne(now)
			sh.mu.Unlock()
			if dropped {
				return true
			}
		}
	}
	return false
}

// takeAll performs the ops of one request on shards that are all locked.
func (s *Store) takeAll(now int64, ops []store.Op) {
	w := workspaces.Get().(*workspace)
	defer workspaces.Put(w)
	w.load(s, now, ops)
	w.perform(now, ops)
	w.commit(s, now)
}
