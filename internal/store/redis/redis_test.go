package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/redistest"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/redis"
	"github.com/rlsd/rlsd/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a store on the server. It waits long where a test is not about
// time: the machine may be busy.
func open(tb testing.TB, server *redistest.Server, o redis.Options) *redis.Store {
	tb.Helper()
	o.URL = server.URL()
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	s, err := redis.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func client(tb testing.TB, server *redistest.Server) *goredis.Client {
	tb.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr()})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

var hourly = &algo.Limit{Algorithm: algo.FixedWindow, Quota: 1 << 30, Window: algotest.Hour}

func must(key string, l *algo.Limit) store.Op {
	return store.Op{Key: key, Limit: l, Kind: store.Take, Role: store.Must, Cost: 1}
}

func take(s store.Store, ops ...store.Op) ([]store.Op, error) {
	return ops, s.Take(context.Background(), time.UnixMicro(algotest.Epoch), ops)
}

// used returns how many units the bucket has counted.
func used(tb testing.TB, s store.Store, key string) int64 {
	tb.Helper()
	ops, err := take(s, store.Op{Key: key, Limit: hourly, Kind: store.Peek})
	if err != nil || ops[0].Err != nil {
		tb.Fatal(err, ops[0].Err)
	}
	return hourly.Quota - ops[0].Decision.Remaining
}

func TestAcceptance(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storetest.Run(t, func(tb testing.TB) store.Store {
		return open(tb, server, redis.Options{})
	}, 40)
	everyKeyHasTTL(t, client(t, server))
}

func everyKeyHasTTL(t *testing.T, c *goredis.Client) {
	ctx := context.Background()
	n := 0
	for keys := c.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); n++ {
		if ttl := c.PTTL(ctx, keys.Val()).Val(); ttl == -1 {
			t.Errorf("%q never expires", keys.Val())
		}
		if !strings.HasPrefix(keys.Val(), "rlsd:1:{") {
			t.Errorf("%q has no prefix", keys.Val())
		}
	}
	if n == 0 {
		t.Error("no key to look at")
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{})
	c := client(t, server)
	for _, window := range []int64{algotest.Millisecond, 100 * algotest.Millisecond, 1900 * algotest.Millisecond} {
		l := &algo.Limit{Algorithm: algo.TokenBucket, Quota: 1, Window: window, Burst: 1}
		key := fmt.Sprint("brief", window)
		ops := []store.Op{must(key, l)}
		before := time.Now()
		if err := s.Take(context.Background(), time.Now(), ops); err != nil || !ops[0].Decision.Allowed {
			t.Fatal(err, ops)
		}
		names, _ := c.Keys(context.Background(), "*"+key).Result()
		if len(names) != 1 {
			t.Fatalf("keys %q", names)
		}
		ttl := c.PTTL(context.Background(), names[0]).Val()
		most := time.Duration(window)*time.Microsecond + 1001*time.Millisecond
		if ttl > most || ttl < most-time.Since(before)-2*time.Millisecond {
			t.Errorf("window %dµs: TTL %v, want it and a second", window, ttl)
		}
	}
}

// TestTimeline holds that instances whose clocks are an hour apart decide by
// the store's time.
func TestTimeline(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := &algo.Limit{Algorithm: algo.TokenBucket, Quota: 10, Window: algotest.Hour, Burst: 10}
	fast := func() time.Time { return time.Now().Add(30 * time.Minute) }
	slow := func() time.Time { return time.Now().Add(-30 * time.Minute) }
	admitted := 0
	for range 2 {
		for _, now := range []func() time.Time{fast, slow, time.Now} {
			s := open(t, server, redis.Options{Now: now})
			for range 3 {
				ops := []store.Op{must("timeline", l)}
				if err := s.Take(context.Background(), now(), ops); err != nil {
					t.Fatal(err)
				}
				d := ops[0].Decision
				if !d.Allowed {
					if d.RetryAfter > 6*algotest.Minute+algotest.Second {
						t.Errorf("retry after %d", d.RetryAfter)
					}
					continue
				}
				admitted++
				want := int64(admitted) * 6 * algotest.Minute
				if d.ResetAfter > want+algotest.Second || d.ResetAfter < want-algotest.Minute {
					t.Errorf("reset after %d with %d taken, want about %d", d.ResetAfter, admitted, want)
				}
			}
		}
	}
	if admitted != 10 {
		t.Errorf("%d admitted, want 10", admitted)
	}
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{})
	c := client(t, server)

	ctx, stop := context.WithCancel(context.Background())
	var flusher sync.WaitGroup
	flushes := 0
	flusher.Go(func() {
		for ctx.Err() == nil {
			if c.ScriptFlush(context.Background()).Err() == nil {
				flushes++
			}
			time.Sleep(time.Millisecond)
		}
	})
	var takers sync.WaitGroup
	for range 32 {
		takers.Go(func() {
			for range 200 {
				if ops, err := take(s, must("flushed", hourly)); err != nil || ops[0].Err != nil {
					t.Error(err, ops[0].Err)
				}
			}
		})
	}
	takers.Wait()
	stop()
	flusher.Wait()
	if n := used(t, s, "flushed"); n != 32*200 {
		t.Errorf("%d units counted after %d takes and %d flushes", n, 32*200, flushes)
	}
	if flushes < 3 {
		t.Errorf("only %d flushes", flushes)
	}
}

func TestForeignValues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{})
	c := client(t, server)
	ctx := context.Background()
	for name, plant := range map[string]func(key string) error{
		"text":        func(key string) error { return c.Set(ctx, key, "hello", 0).Err() },
		"empty":       func(key string) error { return c.Set(ctx, key, "", 0).Err() },
		"a list":      func(key string) error { return c.RPush(ctx, key, "hello").Err() },
		"another age": func(key string) error { return c.Set(ctx, key, "\x02"+strings.Repeat("x", 40), 0).Err() },
		"cut short":   func(key string) error { return c.Set(ctx, key, "\x01"+strings.Repeat("x", 39), 0).Err() },
	} {
		key := "foreign " + name
		if _, err := take(s, must(key, hourly)); err != nil {
			t.Fatal(err)
		}
		names := c.Keys(ctx, "*"+key).Val()
		if len(names) != 1 {
			t.Fatalf("keys %q", names)
		}
		if err := errors.Join(c.Del(ctx, names[0]).Err(), plant(names[0])); err != nil {
			t.Fatal(err)
		}
		before := c.Dump(ctx, names[0]).Val()
		other := key + "'s neighbour"
		neighbour := must(other, hourly)
		neighbour.Descriptor = 1
		ops, err := take(s, must(key, hourly), neighbour)
		if err != nil {
			t.Fatal(err)
		}
		if !errors.Is(ops[0].Err, store.ErrForeign) {
			t.Errorf("%s: %v, want ErrForeign", name, ops[0].Err)
		}
		if ops[1].Err != nil || !ops[1].Decision.Allowed || used(t, s, other) != 1 {
			t.Errorf("%s: the neighbour came to %+v", name, ops[1])
		}
		if c.Dump(ctx, names[0]).Val() != before {
			t.Errorf("%s: the foreign value was changed", name)
		}
	}
}

// TestFrozen holds that no caller waits past its deadline or the timeout, and
// that the store goes on soon after Redis does.
func TestFrozen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{Timeout: 200 * time.Millisecond})
	if _, err := take(s, must("frozen", hourly)); err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	var worst atomic.Int64
	var takers sync.WaitGroup
	for i := range 20 {
		takers.Go(func() {
			for range 5 {
				budget := 200 * time.Millisecond
				ctx, cancel := context.WithCancel(context.Background())
				if i%2 == 0 {
					budget = 50 * time.Millisecond
					ctx, cancel = context.WithTimeout(context.Background(), budget)
				}
				start := time.Now()
				err := s.Take(ctx, time.UnixMicro(algotest.Epoch), []store.Op{must("frozen", hourly)})
				over := time.Since(start) - budget
				cancel()
				if !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("got %v, want ErrUnavailable", err)
				}
				for old := worst.Load(); int64(over) > old && !worst.CompareAndSwap(old, int64(over)); old = worst.Load() {
				}
			}
		})
	}
	takers.Wait()
	t.Logf("worst answer %v after the budget", time.Duration(worst.Load()))
	// Redis stays frozen until all have their answers, so one that waited for it
	// would wait for ever: a second is for a busy machine.
	if worst.Load() > int64(time.Second) {
		t.Errorf("an answer came %v after the budget", time.Duration(worst.Load()))
	}
	server.Thaw()
	thawed := time.Now()
	for {
		if _, err := take(s, must("frozen", hourly)); err == nil {
			break
		} else if time.Since(thawed) > 5*time.Second {
			t.Fatal("no answer 5 s after the thaw:", err)
		}
	}
	t.Logf("first answer %v after the thaw", time.Since(thawed))
	// 100 takes timed out; what Redis had got of them it may have counted,
	// once, and most of them were never sent.
	if n := used(t, s, "frozen"); n < 2 || n > 102 {
		t.Errorf("%d units counted of 102 takes", n)
	}
}

// TestBrokenConnections holds that a take whose reply is lost is not repeated.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{})
	c := client(t, server)
	ctx, stop := context.WithCancel(context.Background())
	var killer sync.WaitGroup
	killer.Go(func() {
		for ctx.Err() == nil {
			c.ClientKillByFilter(context.Background(), "TYPE", "normal", "SKIPME", "yes")
			time.Sleep(2 * time.Millisecond)
		}
	})
	var acknowledged atomic.Int64
	var takers sync.WaitGroup
	for range 32 {
		takers.Go(func() {
			for range 100 {
				if _, err := take(s, must("broken", hourly)); err == nil {
					acknowledged.Add(1)
				}
			}
		})
	}
	takers.Wait()
	stop()
	killer.Wait()
	n := used(t, s, "broken")
	t.Logf("3200 asked, %d acknowledged, %d counted", acknowledged.Load(), n)
	if n < acknowledged.Load() || n > 3200 {
		t.Errorf("3200 asked, %d acknowledged, %d counted", acknowledged.Load(), n)
	}
	if acknowledged.Load() == 0 {
		t.Error("nothing got through")
	}
}

func TestAbsentThenThere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	s := open(t, server, redis.Options{Timeout: 50 * time.Millisecond})
	start := time.Now()
	if _, err := take(s, must("absent", hourly)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if waited := time.Since(start); waited > 5*time.Second {
		t.Errorf("waited %v", waited)
	}
	if err := s.Ready(context.Background()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
	server.Restart(t)
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		_, err := take(s, must("absent", hourly))
		if err == nil {
			break
		}
		if time.Since(start) > 5*time.Second {
			t.Fatal(err)
		}
	}
	if err := s.Ready(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestNoTimeLeft(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{})
	for _, left := range []time.Duration{-time.Second, time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), left)
		if err := s.Take(ctx, time.Now(), []store.Op{must("late", hourly)}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v left: got %v, want ErrUnavailable", left, err)
		}
		cancel()
	}
	if n := used(t, s, "late"); n != 0 {
		t.Errorf("%d units taken without time left", n)
	}
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "localhost:6379", "http://host", "redis://:secret@host:port", "redis://:secret@host/zero"} {
		_, err := redis.New(redis.Options{URL: url})
		if err == nil {
			t.Errorf("%q was taken", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the password: %v", url, err)
		}
	}
}

// TestLargeRequest sends as many descriptors as a request may have.
func TestLargeRequest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{})
	r := rand.New(rand.NewPCG(1, 1))
	ops := make([]store.Op, 512)
	for i := range ops {
		ops[i] = must(fmt.Sprint("large", i), hourly)
		ops[i].Descriptor = i
		ops[i].Cost = 1 + r.Int64N(100)
	}
	if _, err := take(s, ops...); err != nil {
		t.Fatal(err)
	}
	for i := range ops {
		if n := used(t, s, ops[i].Key); n != ops[i].Cost {
			t.Fatalf("op %d: %d counted, want %d", i, n, ops[i].Cost)
		}
	}
}

// TestLateReplies holds that a Redis farther away than the timeout allows for
// now and then is answered for in time, and that its connections are kept.
func TestLateReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server, redis.Options{Timeout: 30 * time.Millisecond})
	c := client(t, server)
	warm := func() error { _, err := take(s, must("late", hourly)); return err }
	for start := time.Now(); warm() != nil; {
		if time.Since(start) > 5*time.Second {
			t.Fatal("no answer")
		}
	}
	before := connections(t, c)
	server.Freeze()
	if err := warm(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	server.Thaw()
	for start := time.Now(); warm() != nil; {
		if time.Since(start) > 5*time.Second {
			t.Fatal("no answer after the pause")
		}
	}
	if after := connections(t, c); after > before+2 {
		t.Errorf("%d connections made before a pause, %d after", before, after)
	}
}

// connections returns how many connections the server has taken so far.
func connections(t *testing.T, c *goredis.Client) int {
	t.Helper()
	for line := range strings.Lines(c.Info(context.Background(), "stats").Val()) {
		if n, ok := strings.CutPrefix(line, "total_connections_received:"); ok {
			total, err := strconv.Atoi(strings.TrimSpace(n))
			if err != nil {
				t.Fatal(err)
			}
			return total
		}
	}
	t.Fatal("no total_connections_received")
	return 0
}

// TestGarbage holds that replies that no Redis would send end no more than the
// calls that they answer.
func TestGarbage(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"$4611686018427387904\r\n", "*1000000000000000000\r\n", "~99999999999999\r\n", "hello\r\n", "$3\r\nabc\r\n", "",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					buf := make([]byte, 64<<10)
					for {
						if _, err := conn.Read(buf); err != nil {
							return
						}
						if _, err := conn.Write([]byte(reply)); err != nil {
							return
						}
					}
				}()
			}
		}()
		s, err := redis.New(redis.Options{URL: "redis://" + l.Addr().String(), Timeout: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := take(s, must("garbage", hourly)); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%q: got %v, want ErrUnavailable", reply, err)
		}
		if err := s.Ready(context.Background()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%q: ready: %v", reply, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseDoesNotWait holds that a frozen Redis does not hold up the end.
func TestCloseDoesNotWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := redis.New(redis.Options{URL: server.URL(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := take(s, must("closing", hourly)); err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Take(ctx, time.Now(), []store.Op{must("closing", hourly)}) }()
	time.Sleep(20 * time.Millisecond)
	cancel()
	<-done
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if waited := time.Since(start); waited > 5*time.Second {
		t.Errorf("waited %v", waited)
	}
}
