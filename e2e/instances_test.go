package e2e

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/redistest"
)

// startTwo starts two daemons with their counters in one Redis.
func startTwo(t *testing.T, args ...string) (a, b *daemon) {
	t.Helper()
	redis := redistest.Start(t)
	args = append(args, "--store", "redis", "--redis-url", redis.URL())
	return startRlsd(t, "rlsd-a", args...), startRlsd(t, "rlsd-b", args...)
}

func TestTwoInstancesShareALimitExactly(t *testing.T) {
	t.Parallel()
	const asked, granted = 200, 50
	a, b := startTwo(t)
	e := startEnvoy(t, a, b)

	type found struct {
		allowed, denied atomic.Int64
		errs            [asked]error
		byA, byB        int
	}
	f := undisturbed(t, inOneWindow(time.Hour), func(user string) *found {
		f := &found{byA: -a.decisions(t, "shared"), byB: -b.decisions(t, "shared")}
		var all sync.WaitGroup
		for i := range asked {
			all.Go(func() {
				answer, err := e.send(plan("shared", user))
				switch {
				case err != nil:
					f.errs[i] = err
				case answer.code == 200:
					f.allowed.Add(1)
				case answer.code == 429:
					f.denied.Add(1)
				default:
					f.errs[i] = fmt.Errorf("answer %d", answer.code)
				}
			})
		}
		all.Wait()
		f.byA += a.decisions(t, "shared")
		f.byB += b.decisions(t, "shared")
		return f
	})
	if err := errors.Join(f.errs[:]...); err != nil {
		t.Error(err)
	}
	if f.allowed.Load() != granted || f.denied.Load() != asked-granted {
		t.Errorf("%d were allowed and %d denied of %d at once, want %d allowed", f.allowed.Load(), f.denied.Load(), asked, granted)
	}
	if f.byA == 0 || f.byB == 0 || f.byA+f.byB != asked {
		t.Errorf("the instances decided %d and %d requests, want some each and %d in all", f.byA, f.byB, asked)
	}
}

func TestAnInstanceLeavesUnderLoadAndNobodyNotices(t *testing.T) {
	t.Parallel()
	a, b := startTwo(t, "--drain-delay", "1s")
	e := startEnvoy(t, a, b)

	type found struct {
		sent     int64
		used     uint64
		problems []error
	}
	stayed := false
	f := undisturbed(t, inOneWindow(time.Hour), func(user string) (f found) {
		before := b.peek(t, "edge", "plan=load", "user="+user).GetRemaining()
		l := e.startLoad(plan("load", user))
		defer l.stop()
		l.await(t, 100)
		if !stayed { // else it went in a telling before
			stayed = true
			if a.decisions(t, "load") == 0 {
				t.Error("the instance is not asked at all")
			}
			told := time.Now()
			a.terminate()
			if err := a.wait(); err != nil {
				t.Error(err)
			}
			if took := time.Since(told); took < time.Second {
				t.Errorf("it was gone after %v, before its drain delay was over", took)
			}
		}
		l.await(t, 100)
		l.stop()
		f.sent, f.problems = l.answered.Load(), l.problems
		f.used = before - b.peek(t, "edge", "plan=load", "user="+user).GetRemaining()
		return f
	})
	if err := errors.Join(f.problems...); err != nil {
		t.Errorf("%d requests failed: %v", len(f.problems), err)
	}
	if f.used != uint64(f.sent) {
		t.Errorf("%d requests were answered and %d were counted", f.sent, f.used)
	}
}

// A load is requests without end.
type load struct {
	answered atomic.Int64
	stop     func() // waits until all is still; may be called again

	mu       sync.Mutex
	problems []error // of what was not allowed
}

// startLoad sends the request from several clients over and over again.
func (e *envoy) startLoad(r request) *load {
	const clients, pause = 4, 5 * time.Millisecond
	l := new(load)
	var all sync.WaitGroup
	stopped := make(chan struct{})
	l.stop = sync.OnceFunc(func() {
		close(stopped)
		all.Wait()
	})
	for range clients {
		all.Go(func() {
			for {
				select {
				case <-stopped:
					return
				case <-time.After(pause):
				}
				a, err := e.send(r)
				if err == nil && a.code != 200 {
					err = fmt.Errorf("%s: answer %d", a.path, a.code)
				}
				if err != nil {
					l.mu.Lock()
					l.problems = append(l.problems, err)
					l.mu.Unlock()
				}
				l.answered.Add(1)
			}
		})
	}
	return l
}

// await waits for the next n answers.
func (l *load) await(t *testing.T, n int64) {
	t.Helper()
	from := l.answered.Load()
	eventually(t, func() error {
		if got := l.answered.Load() - from; got < n {
			return fmt.Errorf("%d of %d answers", got, n)
		}
		return nil
	})
}
