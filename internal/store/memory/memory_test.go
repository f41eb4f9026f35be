package memory_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/memory"
	"github.com/rlsd/rlsd/internal/store/storetest"
)

func TestAcceptance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(testing.TB) store.Store { return memory.New(memory.Options{}) }, 500)
}

var perMinute = &algo.Limit{Algorithm: algo.FixedWindow, Quota: 10, Window: algotest.Minute}

func take(s store.Store, key string, l *algo.Limit, at time.Time) error {
	ops := []store.Op{{Key: key, Limit: l, Kind: store.Take, Role: store.Must, Cost: 1}}
	if err := s.Take(context.Background(), at, ops); err != nil {
		return err
	}
	return ops[0].Err
}

func TestBound(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{MaxBuckets: 1000})
	at := time.UnixMicro(algotest.Epoch)
	full := 0
	for i := range 3000 {
		switch err := take(s, strconv.Itoa(i), perMinute, at); {
		case errors.Is(err, store.ErrFull):
			full++
		case err != nil:
			t.Fatal(err)
		}
	}
	if s.Len() != 1000 || full != 2000 {
		t.Fatalf("%d buckets, %d refused, want 1000 and 2000", s.Len(), full)
	}
	if err := take(s, "0", perMinute, at); err != nil {
		t.Errorf("a bucket that exists: %v", err)
	}

	// An op without room spoils itself alone.
	ops := []store.Op{
		{Key: "0", Limit: perMinute, Kind: store.Take, Role: store.Must, Cost: 1},
		{Key: "new", Limit: perMinute, Kind: store.Take, Role: store.Must, Cost: 1, Descriptor: 1},
	}
	if err := s.Take(context.Background(), at, ops); err != nil {
		t.Fatal(err)
	}
	if ops[0].Err != nil || ops[0].Decision.Remaining != 7 || !errors.Is(ops[1].Err, store.ErrFull) {
		t.Errorf("got %+v", ops)
	}
	if s.Len() != 1000 {
		t.Errorf("%d buckets, want 1000", s.Len())
	}

	// A window later there is room again.
	for i := range 1000 {
		if err := take(s, fmt.Sprint("later", i), perMinute, at.Add(61*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != 1000 {
		t.Errorf("%d buckets, want 1000", s.Len())
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	start := time.UnixMicro(algotest.Epoch)
	for i := range 200_000 { // a new key each millisecond for 200 s
		at := start.Add(time.Duration(i) * time.Millisecond)
		if err := take(s, strconv.Itoa(i), perMinute, at); err != nil {
			t.Fatal(err)
		}
		if err := take(s, "hot", perMinute, at); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Len(); n > 62_000 {
		t.Errorf("%d buckets, want about those of the last minute", n)
	}
	if err := s.Reset(context.Background(), []string{"hot"}); err != nil {
		t.Fatal(err)
	}
}

// TestIdleMemory holds the budget of 150 bytes for an idle bucket beyond its
// key.
func TestIdleMemory(t *testing.T) {
	const n = 200_000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("shop/api_key=user-%d", i)
	}
	s := memory.New(memory.Options{})
	before := heap()
	for _, key := range keys {
		if err := take(s, key, perMinute, time.UnixMicro(algotest.Epoch)); err != nil {
			t.Fatal(err)
		}
	}
	each := float64(heap()-before) / n
	t.Logf("%.0f bytes a bucket", each)
	if each > 150 {
		t.Errorf("%.0f bytes a bucket, want at most 150", each)
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(keys)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkTake(b *testing.B) {
	for _, limits := range []int{1, 2, 4} {
		b.Run(fmt.Sprint("ops=", limits), func(b *testing.B) {
			s := memory.New(memory.Options{})
			keys := make([]string, 10_000)
			for i := range keys {
				keys[i] = fmt.Sprintf("shop/api_key=user-%d", i)
			}
			l := &algo.Limit{Algorithm: algo.TokenBucket, Quota: 1_000_000, Window: algotest.Second, Burst: 1_000_000}
			ops := make([]store.Op, limits)
			now := time.UnixMicro(algotest.Epoch)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for j := range ops {
					ops[j] = store.Op{Key: keys[(i+j)%len(keys)], Limit: l, Kind: store.Take, Role: store.Must, Cost: 1, Descriptor: j}
				}
				_ = s.Take(context.Background(), now, ops)
			}
		})
	}
}

// TestLogsCount holds that a log counts for what it holds, and no longer than
// it does.
func TestLogsCount(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{MaxBuckets: 100})
	log := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: 10_000, Window: algotest.Second}
	at := time.UnixMicro(algotest.Epoch)
	n := 0
	for ; n < 10_000; n++ {
		at = at.Add(time.Microsecond)
		if err := take(s, "log", log, at); errors.Is(err, store.ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n < 99*8-8 || n > 100*8 {
		t.Errorf("%d entries in a store of 100 buckets", n)
	}
	if err := take(s, "another", perMinute, at); !errors.Is(err, store.ErrFull) {
		t.Errorf("a bucket beside it: %v, want ErrFull", err)
	}
	at = at.Add(3 * time.Second)
	if err := take(s, "another", perMinute, at); err != nil {
		t.Errorf("a bucket after it: %v", err)
	}
	if s.Len() != 1 {
		t.Errorf("%d buckets, want 1", s.Len())
	}
	for _, key := range []string{"a", "a", "b"} {
		if err := take(s, key, log, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Reset(context.Background(), []string{"a", "b", "another"}); err != nil || s.Len() != 0 {
		t.Errorf("%d buckets after a reset, %v", s.Len(), err)
	}
}

// TestForwardStep holds that a clock that was far ahead for a moment does not
// fill the store for as long.
func TestForwardStep(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{MaxBuckets: 1000})
	perSecond := &algo.Limit{Algorithm: algo.FixedWindow, Quota: 10, Window: algotest.Second}
	at := time.UnixMicro(algotest.Epoch)
	for i := range 1000 {
		if err := take(s, strconv.Itoa(i), perSecond, at.AddDate(0, 1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 { // the clock is right again, and the keys are used on
		if err := take(s, strconv.Itoa(i), perSecond, at); err != nil {
			t.Fatal(err)
		}
	}
	at = at.Add(5 * time.Second)
	for i := range 1000 {
		if err := take(s, fmt.Sprint("new", i), perSecond, at); err != nil {
			t.Fatalf("5 s later, key %d: %v", i, err)
		}
	}
	if s.Len() != 1000 {
		t.Errorf("%d buckets", s.Len())
	}
}
