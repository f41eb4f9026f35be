package redis_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/redistest"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/redis"
)

// TestTwinsOfLog plays the same random traffic to the log in Go and to the one
// in a Redis list: 2,000 steps, or as many as RLSD_STEPS says. Its clock steps
// back by hours, and forward too.
func TestTwinsOfLog(t *testing.T) {
	t.Parallel()
	steps := 2000
	if s := os.Getenv("RLSD_STEPS"); s != "" {
		var err error
		if steps, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
		steps = min(steps, 1_000_000) // a round trip each
	}
	s := open(t, redistest.Start(t), redis.Options{})
	r := rand.New(rand.NewPCG(14, 15))
	for done := 0; done < steps; {
		l := algotest.RandomLimit(r, algo.SlidingWindowLog)
		l.Window = max(l.Window, algotest.Minute) // Redis expires by real time
		clock := algotest.NewClock(r)
		key := "twin" + strconv.Itoa(done)
		var state algo.State
		for range 60 {
			op := store.Op{Key: key, Limit: l, Kind: store.Take, Role: store.Must, Cost: clock.Tick(r, l)}
			before := state
			var want algo.Decision
			switch r.IntN(8) {
			case 0:
				op.Kind = store.Peek
				want = algo.Step(&before, l, clock.Now, 0, 0)
			case 1:
				op.Kind = store.Give
				want = algo.Step(&state, l, clock.Now, -op.Cost, 0)
			case 2:
				op.Kind = store.Charge
				want = algo.Charge(&state, l, clock.Now, op.Cost)
			default:
				want = algo.Step(&state, l, clock.Now, op.Cost, 0)
			}
			ops := []store.Op{op}
			if err := s.Take(context.Background(), time.UnixMicro(clock.Now), ops); err != nil || ops[0].Err != nil {
				t.Fatal(err, ops[0].Err)
			}
			if ops[0].Decision != want {
				t.Fatalf("%+v at %d, kind %d, cost %d\nlua %+v\n go %+v", *l, clock.Now, op.Kind, op.Cost, ops[0].Decision, want)
			}
			done++
		}
	}
}

// TestLogOfTenThousand holds that a log of 10,000 entries counts exactly, keeps
// no more of them than the window holds, and expires.
func TestLogOfTenThousand(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{})
	c := client(t, server)
	const n = 10_000
	l := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: n, Window: algotest.Minute}
	take := func(at int64) algo.Decision {
		ops := []store.Op{must("tenthousand", l)}
		if err := s.Take(context.Background(), time.UnixMicro(at), ops); err != nil || ops[0].Err != nil {
			t.Fatal(err, ops[0].Err)
		}
		return ops[0].Decision
	}
	for i := range int64(n) {
		if d := take(algotest.Epoch + i); !d.Allowed || d.Remaining != n-1-i {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	want := algo.Decision{RetryAfter: algotest.Minute - n, ResetAfter: algotest.Minute - 1}
	if got := take(algotest.Epoch + n); got != want {
		t.Errorf("full: %+v, want %+v", got, want)
	}
	for i := range int64(n / 2) {
		if d := take(algotest.Epoch + algotest.Minute + i); !d.Allowed || d.Remaining != 0 {
			t.Fatalf("a window later, request %d: %+v", i, d)
		}
	}
	lists, _ := c.Keys(context.Background(), "*log:*").Result()
	if len(lists) != 1 || !strings.HasPrefix(lists[0], "rlsd:1:{") {
		t.Fatalf("lists %q", lists)
	}
	if size := c.LLen(context.Background(), lists[0]).Val(); size != n+1 {
		t.Errorf("%d elements, want %d", size, n+1)
	}
	if ttl := c.PTTL(context.Background(), lists[0]).Val(); ttl < 50*time.Second || ttl > 62*time.Second {
		t.Errorf("TTL %v", ttl)
	}
	if err := s.Reset(context.Background(), []string{"tenthousand"}); err != nil {
		t.Fatal(err)
	}
	if left := c.DBSize(context.Background()).Val(); left != 0 {
		t.Errorf("%d keys after a reset", left)
	}
}

// TestLogOverCharged holds that a charge that does not fit leaves nothing that a
// reset does not find.
func TestLogOverCharged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{})
	l := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: 5, Window: algotest.Hour, Overdraft: 10}
	charge := store.Op{Key: "charged", Limit: l, Kind: store.Charge, Role: store.Must, Cost: 9}
	if ops, err := take(s, charge); err != nil || ops[0].Err != nil || ops[0].Decision.Allowed {
		t.Fatal(ops, err)
	}
	if err := s.Reset(context.Background(), []string{"charged"}); err != nil {
		t.Fatal(err)
	}
	if n := client(t, server).DBSize(context.Background()).Val(); n != 0 {
		t.Errorf("%d keys after a reset", n)
	}
	if err := s.Reset(context.Background(), nil); err != nil {
		t.Errorf("a reset of nothing: %v", err)
	}
}

// TestLogGivenAllAndTaken holds that a log that is emptied and taken from in one
// request forgets what lapsed under a clock that has since stepped back.
func TestLogGivenAllAndTaken(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t), redis.Options{})
	l := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: 5, Window: algotest.Minute}
	do := func(at int64, ops ...store.Op) []store.Op {
		if err := s.Take(context.Background(), time.UnixMicro(at), ops); err != nil {
			t.Fatal(err)
		}
		return ops
	}
	op := func(kind store.Kind, cost int64) store.Op {
		return store.Op{Key: "given", Limit: l, Kind: kind, Role: store.Must, Cost: cost}
	}
	back := int64(algotest.Epoch - algotest.Hour)
	do(algotest.Epoch, op(store.Take, 4))
	do(back, op(store.Take, 1))
	do(back+30*algotest.Second, op(store.Give, 1), op(store.Take, 1))
	ops := do(back+61*algotest.Second, op(store.Give, 5), op(store.Take, 5))
	if d := ops[1].Decision; !d.Allowed || d.Remaining != 0 {
		t.Errorf("got %+v", d)
	}
}

// TestForeignLog holds that what is not a log under its key spoils only its op.
func TestForeignLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{})
	c := client(t, server)
	ctx := context.Background()
	l := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: 5, Window: algotest.Hour}
	for name, plant := range map[string]func(key string) error{
		"text":         func(key string) error { return c.Set(ctx, key, "hello", 0).Err() },
		"another list": func(key string) error { return c.RPush(ctx, key, "hello").Err() },
	} {
		if _, err := take(s, must(name, l)); err != nil {
			t.Fatal(err)
		}
		lists := c.Keys(ctx, "*"+strings.ReplaceAll(name, " ", "?")+"*log:*").Val()
		if len(lists) != 1 {
			t.Fatalf("lists %q", lists)
		}
		c.Del(ctx, lists[0])
		if err := plant(lists[0]); err != nil {
			t.Fatal(err)
		}
		ops, err := take(s, must(name, l), must(name, hourly))
		if err != nil {
			t.Fatal(err)
		}
		if ops[0].Err == nil || ops[1].Err != nil || !ops[1].Decision.Allowed {
			t.Errorf("%s: %+v", name, ops)
		}
	}
}
