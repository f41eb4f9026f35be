package redis_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/memory"
)

// The tests of this file are faults that other rate limiters shipped, by their
// numbers in the catalogue; those of the algorithms alone stand in package algo.

// TestPG03OptionsHoldInRedis charges a queue, for which nobody waits, and asks
// for its last place in time.
func TestPG03OptionsHoldInRedis(t *testing.T) {
	s, _ := newRedis(t)
	b := newBoth(s, algo.LeakyBucket, 10, algotest.Second)
	b.l.MaxDelay, b.l.Overdraft = 200*algotest.Millisecond, 10
	b.do(t, algotest.Epoch, store.Take, 2)
	if d := b.do(t, algotest.Epoch, store.Peek, 0); d.Remaining != 8 || d.Delay != b.l.MaxDelay {
		t.Errorf("to be held for no longer than MaxDelay: %+v", d)
	}
	b.do(t, algotest.Epoch, store.Charge, 12)
	if d := b.do(t, algotest.Epoch, store.Peek, 0); d.ResetAfter != 1400*algotest.Millisecond {
		t.Errorf("a charge of 12 upon 2: %+v", d)
	}
}

// TestPG10ZeroDeniesInRedis lowers a limit to nothing under a bucket in debt.
func TestPG10ZeroDeniesInRedis(t *testing.T) {
	s, _ := newRedis(t)
	for _, a := range algo.All() {
		b := newBoth(s, a, 5, algotest.Hour)
		b.l.Overdraft = 10
		b.do(t, algotest.Epoch, store.Charge, 9)
		b.l.Quota, b.l.Burst = 0, 0
		b.do(t, algotest.Epoch, store.Peek, 0)
		b.do(t, algotest.Epoch, store.Take, 1)
	}
}

// TestPG22FractionsInRedis gives back all but a fraction, and lowers the quota
// whose fractions GCRA counts in.
func TestPG22FractionsInRedis(t *testing.T) {
	s, _ := newRedis(t)
	for _, a := range algo.All() {
		b := newBoth(s, a, 7, algotest.Second)
		b.do(t, algotest.Epoch, store.Take, 7)
		b.do(t, algotest.Epoch+857_142, store.Give, 1)
		b.do(t, algotest.Epoch+857_142, store.Peek, 0)
		b.do(t, algotest.Epoch+10*algotest.Second, store.Take, 6)
		b.l.Quota = 3
		b.do(t, algotest.Epoch+10*algotest.Second, store.Take, 1)
		b.do(t, algotest.Epoch+10*algotest.Second, store.Take, 1)
	}
}

// TestPG25ClockStepsInRedis steps back by a second, and by more, which even a
// denial has to remember.
func TestPG25ClockStepsInRedis(t *testing.T) {
	s, _ := newRedis(t)
	for _, back := range []int64{algo.MaxSkew, algo.MaxSkew + 1, algotest.Minute} {
		for _, a := range algo.All() {
			b := newBoth(s, a, 10, algotest.Hour+back)
			now := b.l.Window * 1000
			b.do(t, now, store.Take, 10)
			d := b.do(t, now-back, store.Take, 1)
			b.do(t, now-back+d.RetryAfter-1, store.Take, 1)
			b.do(t, now-back+d.RetryAfter, store.Take, 1)
		}
	}
}

// TestPG26DenialsLeaveNoTrace compares what Redis holds, byte by byte.
func TestPG26DenialsLeaveNoTrace(t *testing.T) {
	s, c := newRedis(t)
	ctx := context.Background()
	small := &algo.Limit{Algorithm: algo.FixedWindow, Quota: 3, Window: algotest.Hour}
	if _, err := take(s, must("traceless", hourly), must("traceless", small)); err != nil {
		t.Fatal(err)
	}
	key := keyOf(t, c, "*traceless")
	before, ttl := c.Dump(ctx, key).Val(), c.PTTL(ctx, key).Val()
	greedy := must("traceless", small)
	greedy.Cost = 3
	ops, err := take(s, must("traceless", hourly), greedy, must("untouched", hourly))
	if err != nil || !store.Denied(ops) {
		t.Fatal(err, ops)
	}
	if c.Dump(ctx, key).Val() != before || c.PTTL(ctx, key).Val() > ttl || c.DBSize(ctx).Val() != 1 {
		t.Errorf("a denied request wrote")
	}
}

func TestPR01TTLOutlivesTheBucket(t *testing.T) {
	s, c := newRedis(t)
	for _, a := range algo.All() {
		b := newBoth(s, a, 1, 1900*algotest.Millisecond)
		b.key = "outlived by " + a.String()
		reset := time.Duration(b.do(t, algotest.Epoch, store.Take, 1).ResetAfter) * time.Microsecond
		for _, key := range c.Keys(context.Background(), "*"+b.key+"*").Val() {
			if ttl := c.PTTL(context.Background(), key).Val(); ttl < reset || ttl > reset+1001*time.Millisecond {
				t.Errorf("%q: TTL %v of a bucket that is full in %v", key, ttl, reset)
			}
		}
	}
}

func TestPR02BriefPeriodsLimit(t *testing.T) {
	s, _ := newRedis(t)
	for _, a := range algo.All() {
		for _, millis := range []int64{1, 10, 100} {
			b := newBoth(s, a, 1, millis*algotest.Millisecond)
			if b.do(t, algotest.Epoch, store.Take, 1); b.do(t, algotest.Epoch, store.Take, 1).Allowed {
				t.Errorf("%s: two admitted in %d ms", a, millis)
			}
		}
	}
}

// TestPR03EveryKeyExpires walks every path that writes.
func TestPR03EveryKeyExpires(t *testing.T) {
	s, c := newRedis(t)
	for i, kinds := range [][]store.Kind{
		{store.Take}, {store.Charge}, {store.Take, store.Give}, {store.Take, store.Charge}, {store.Charge, store.Give, store.Take},
	} {
		for _, a := range algo.All() {
			b := newBoth(s, a, 3, algotest.Second)
			b.key, b.l.Overdraft = fmt.Sprint(a, i), 20
			for _, kind := range kinds {
				for _, cost := range []int64{1, 2, 9} {
					b.do(t, algotest.Epoch, kind, cost)
				}
			}
		}
	}
	everyKeyHasTTL(t, c)
}

func TestPR04WindowBeginsByItself(t *testing.T) {
	s, c := newRedis(t)
	b := newBoth(s, algo.FixedWindow, 5, algotest.Minute)
	b.do(t, algotest.Epoch, store.Peek, 0)
	if n := c.DBSize(context.Background()).Val(); n != 0 {
		t.Errorf("a peek left %d keys", n)
	}
	b.do(t, algotest.Epoch+10*algotest.Second, store.Take, 2)
	b.do(t, algotest.Epoch+10*algotest.Second, store.Give, 2)
	if d := b.do(t, algotest.Epoch+20*algotest.Second, store.Take, 2); d.ResetAfter != 40*algotest.Second {
		t.Errorf("a refund to nothing began another window: %+v", d)
	}
}

func TestPR05ExactUnderContention(t *testing.T) {
	s, _ := newRedis(t)
	for _, a := range algo.All() {
		b := newBoth(s, a, 100, algotest.Hour)
		var admitted atomic.Int64
		var takers sync.WaitGroup
		for range 64 {
			takers.Go(func() {
				for range 4 {
					ops, err := take(s, must(b.key, &b.l))
					if err != nil || ops[0].Err != nil {
						t.Error(err, ops[0].Err)
					}
					if ops[0].Decision.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		takers.Wait()
		if n := admitted.Load(); n != 100 {
			t.Errorf("%s: %d admitted, want 100", a, n)
		}
	}
}

// TestPR06RequestsAreAllOrNothing plays requests of every kind on few buckets,
// of which many are empty, to Redis and to the store in memory.
func TestPR06RequestsAreAllOrNothing(t *testing.T) {
	s, _ := newRedis(t)
	m := memory.New(memory.Options{MaxBuckets: 1000})
	r := rand.New(rand.NewPCG(41, 42))
	limits := make([]*algo.Limit, 3)
	at := int64(algotest.Epoch)
	for n := range 3000 {
		if n%30 == 0 {
			for i := range limits {
				a := algo.All()[r.IntN(6)]
				limits[i] = &newBoth(s, a, 4, (10+int64(i))*algotest.Minute).l
				limits[i].Overdraft = 5
			}
		}
		at += r.Int64N(2 * algotest.Minute)
		kinds := []store.Kind{store.Take, store.Take, store.Take, store.Peek, store.Give, store.Charge}
		roles := []store.Role{store.Must, store.Must, store.Quota, store.Shadow}
		kinds, roles = kinds[:1+r.IntN(6)], roles[:1+r.IntN(4)]
		ops := make([]store.Op, 1+r.IntN(4))
		for i := range ops {
			ops[i] = store.Op{
				Key: fmt.Sprint("few", n/30, r.IntN(2)), Limit: limits[r.IntN(3)], Cost: 1 + r.Int64N(3), Descriptor: r.IntN(2),
				Kind: kinds[r.IntN(len(kinds))], Role: roles[r.IntN(len(roles))],
			}
		}
		want := slices.Clone(ops)
		if err := errors.Join(s.Take(context.Background(), time.UnixMicro(at), ops), m.Take(context.Background(), time.UnixMicro(at), want)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ops, want) {
			t.Fatalf("request %d\n redis %+v\nmemory %+v", n, ops, want)
		}
	}
}

// TestPR06RequestKeepsTheOthersOfANode takes from one limit of a node and from
// another node, both in one request and as usual, and then has the node written
// anew when two of its limits have long been idle and one has not.
func TestPR06RequestKeepsTheOthersOfANode(t *testing.T) {
	s, c := newRedis(t)
	other := &algo.Limit{Algorithm: algo.FixedWindow, Quota: 10, Window: algotest.Day}
	brief := &algo.Limit{Algorithm: algo.FixedWindow, Quota: 10, Window: algotest.Minute}
	for _, ops := range [][]store.Op{
		{must("node", hourly), must("node", other), must("node", brief)}, {must("node", hourly), must("second", hourly)},
	} {
		if ops, err := take(s, ops...); err != nil || store.Denied(ops) {
			t.Fatal(err, ops)
		}
	}
	if n := used(t, s, "node"); n != 2 {
		t.Errorf("%d units counted, want 2", n)
	}
	late := []store.Op{{Key: "node", Limit: other, Kind: store.Charge, Cost: 1}}
	if err := s.Take(context.Background(), time.UnixMicro(algotest.Epoch+2*algotest.Minute), late); err != nil || late[0].Decision.Remaining != 8 {
		t.Errorf("of the other limit: %v %+v", err, late)
	}
	if n := used(t, s, "node"); n != 2 {
		t.Errorf("%d units counted after a charge, want 2", n)
	}
	if size := c.StrLen(context.Background(), keyOf(t, c, "*:node")).Val(); size != 1+2*40 {
		t.Errorf("%d bytes, want those of the two that live", size)
	}
}

func TestPR07ScriptIsLoadedAgain(t *testing.T) {
	s, c := newRedis(t)
	for range 5 {
		c.ScriptFlush(context.Background())
		var takers sync.WaitGroup
		for range 100 { // some of them share a pipeline
			takers.Go(func() {
				if ops, err := take(s, must("unloaded", hourly)); err != nil || !ops[0].Decision.Allowed {
					t.Error(err, ops)
				}
			})
		}
		takers.Wait()
	}
	if n := used(t, s, "unloaded"); n != 500 {
		t.Errorf("%d counted, want 500", n)
	}
}

// TestPR08TagIsThatOfTheBucket holds that the keys of a node share a slot and
// those of a domain do not.
func TestPR08TagIsThatOfTheBucket(t *testing.T) {
	s, c := newRedis(t)
	for _, key := range []string{"domain {x}", "domain {x} y"} {
		if _, err := take(s, must(key, hourly), must(key, &newBoth(s, algo.SlidingWindowLog, 5, algotest.Hour).l)); err != nil {
			t.Fatal(err)
		}
	}
	keys, tags := c.Keys(context.Background(), "*").Val(), map[string]bool{}
	for _, key := range keys {
		tags[regexp.MustCompile(`^rlsd:1:\{[0-9a-z]+\}:domain`).FindString(key)] = true
	}
	if len(keys) != 4 || len(tags) != 2 {
		t.Errorf("%d tags in %q, want two", len(tags), keys)
	}
}

func TestPR09ExtremesAreExact(t *testing.T) {
	s, _ := newRedis(t)
	for _, a := range algo.All() {
		for _, window := range []int64{algo.MinWindow, algo.MaxWindow} {
			b := newBoth(s, a, algo.MaxQuota, window)
			b.l.Overdraft = algo.MaxQuota
			now := int64(algotest.Epoch + 150*algotest.Year + 1)
			for i, cost := range []int64{1, algo.MaxQuota - 2, algo.MaxCost, 1, 1} {
				b.do(t, now+int64(i), store.Take, cost)
			}
			b.do(t, now+9, store.Charge, algo.MaxCost)
			b.do(t, now+9, store.Give, algo.MaxCost)
		}
	}
}

// TestPR10ForeignRecordIsNoError has a window end long before it began.
func TestPR10ForeignRecordIsNoError(t *testing.T) {
	s, c := newRedis(t)
	for _, kind := range []store.Kind{store.Take, store.Charge} {
		op := must("foreign", hourly)
		if _, err := take(s, op); err != nil {
			t.Fatal(err)
		}
		value := binary.BigEndian.AppendUint64([]byte{1}, hourly.ID())
		for _, word := range []uint64{0, 3, algotest.Epoch - algotest.Day, algotest.Epoch + 5} {
			value = binary.LittleEndian.AppendUint64(value, word)
		}
		c.Set(context.Background(), keyOf(t, c, "*:foreign"), value, time.Minute)
		op.Kind = kind
		if _, err := take(s, op); err != nil {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}

// TestPR10ForeignValuesAreLeftAndHeal plants what is no log and takes it away.
func TestPR10ForeignValuesAreLeftAndHeal(t *testing.T) {
	s, c := newRedis(t)
	ctx := context.Background()
	b := newBoth(s, algo.SlidingWindowLog, 5, algotest.Hour)
	entry := strings.Repeat("x", 16)
	for name, values := range map[string][]any{
		"before": {"hello", entry}, "after": {entry, "hello"},
		"amidst": {entry, "hello", "hello", "hello", entry},
	} {
		b.key = name
		key := planted(t, s, c, b)
		c.RPush(ctx, key, values...)
		if ops, err := take(s, must(name, &b.l), must(name, hourly)); err != nil || !errors.Is(ops[0].Err, store.ErrForeign) || ops[1].Err != nil {
			t.Errorf("%s: %v %+v", name, err, ops)
		}
		if c.LLen(ctx, key).Val() != int64(len(values)) {
			t.Errorf("%s: the foreign value is another", name)
		}
		c.Del(ctx, key)
		if ops, err := take(s, must(name, &b.l)); err != nil || !ops[0].Decision.Allowed {
			t.Errorf("%s has gone: %v %+v", name, err, ops)
		}
	}
}

// TestPR10ALogThatTurnsOutToBeNoneIsNotSaved takes from a log, and only then comes
// upon what is no entry.
func TestPR10ALogThatTurnsOutToBeNoneIsNotSaved(t *testing.T) {
	s, c := newRedis(t)
	ctx := context.Background()
	l := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: 10, Window: algotest.Hour}
	at := int64(algotest.Epoch)
	ask := func(ops ...store.Op) []store.Op {
		at += algotest.Second
		if err := s.Take(ctx, time.UnixMicro(at), ops); err != nil {
			t.Fatal(err)
		}
		return ops
	}
	for range 7 {
		ask(must("late", l))
	}
	list := c.Keys(ctx, "*late*log:*").Val()[0]
	c.LSet(ctx, list, 6, "no entry") // beside the way of the first search
	before := c.Dump(ctx, list).Val()
	wait := must("late", l)
	wait.Cost, wait.Role = 9, store.Shadow
	for i, op := range ask(must("late", l), wait) {
		if !errors.Is(op.Err, store.ErrForeign) {
			t.Errorf("op %d: %v, want ErrForeign", i, op.Err)
		}
	}
	if c.Dump(ctx, list).Val() != before {
		t.Error("the foreign value was changed")
	}
}

// TestPR11FailoverToASlowClock goes on with the states of a server whose clock
// was an hour ahead.
func TestPR11FailoverToASlowClock(t *testing.T) {
	s, _ := newRedis(t)
	for _, a := range algo.All() {
		b := newBoth(s, a, 10, 10*algotest.Minute)
		b.do(t, algotest.Epoch+algotest.Hour, store.Take, 10)
		d := b.do(t, algotest.Epoch, store.Take, 1)
		if d.Allowed || d.RetryAfter > 20*algotest.Minute {
			t.Errorf("%s: %+v", a, d)
		}
		b.do(t, algotest.Epoch+d.RetryAfter, store.Take, 1)
	}
}

// TestPR15LogIsBounded fills a log with as many entries as it may have.
func TestPR15LogIsBounded(t *testing.T) {
	s, c := newRedis(t)
	b := newBoth(s, algo.SlidingWindowLog, 1<<30, algotest.Hour)
	words := []int64{0, 0}
	for i := range int64(algo.MaxLog) {
		words = append(words, algotest.Epoch+i, i+1)
		algo.Step(&b.s, &b.l, algotest.Epoch+i, 1, 0)
	}
	key := planted(t, s, c, b, words...)
	b.do(t, algotest.Epoch+algo.MaxLog, store.Peek, 0)
	b.do(t, algotest.Epoch+algo.MaxLog, store.Take, 1)
	b.do(t, algotest.Epoch+algotest.Hour, store.Take, 1)
	for range 3 { // at one time
		b.do(t, algotest.Epoch+algotest.Hour+5, store.Take, 2)
	}
	if n := c.LLen(context.Background(), key).Val(); n != algo.MaxLog-6+1+2 {
		t.Errorf("%d elements", n)
	}
	b.do(t, algotest.Epoch+algotest.Hour+5, store.Give, 1<<30)
	if n := c.Exists(context.Background(), key).Val(); n != 0 {
		t.Error("nothing is left, but a list")
	}
}
