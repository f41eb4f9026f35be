package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rlsd/rlsd/internal/store"
)

const (
	syncEvery  = time.Second            // while all is well
	retryEvery = 100 * time.Millisecond // while Redis does not answer
)

// A clock knows by how much this instance's clock is behind that of Redis. It
// asks before the first command, about once a second, and again before the
// next command after a connection broke: another server may answer then.
type clock struct {
	client *goredis.Client
	now    func() time.Time // nil: nothing to correct
	behind atomic.Int64     // microseconds
	valid  atomic.Bool

	mu    sync.Mutex
	ready chan struct{} // closed once behind is valid

	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

func newClock(client *goredis.Client, now func() time.Time) *clock {
	ctx, cancel := context.WithCancel(context.Background())
	c := &clock{
		client: client, now: now,
		ready: make(chan struct{}), wake: make(chan struct{}, 1),
		cancel: cancel, done: make(chan struct{}),
	}
	go c.run(ctx)
	return c
}

// offset returns what to add to this instance's time, in microseconds. If it
// is not known it waits until it is.
func (c *clock) offset(w *wait) (int64, error) {
	for !c.valid.Load() {
		c.mu.Lock()
		ready := c.ready
		c.mu.Unlock()
		if err := w.until(ready); err != nil {
			return 0, fmt.Errorf("%w: redis: no connection", err)
		}
	}
	return c.behind.Load(), nil
}

// invalidate makes the next command wait for a fresh reading.
func (c *clock) invalidate() {
	c.mu.Lock()
	if c.valid.Swap(false) {
		c.ready = make(chan struct{})
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *clock) run(ctx context.Context) {
	defer close(c.done)
	for ctx.Err() == nil {
		pause := syncEvery
		if err := c.read(ctx); err != nil {
			pause = retryEvery
		}
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-time.After(pause):
		}
	}
}

// read asks Redis for the time and, unless all is well already, loads the
// script: a server that was not asked before does not have it.
func (c *clock) read(ctx context.Context) error {
	pipe := c.client.Pipeline()
	reading := pipe.Time(ctx)
	if !c.valid.Load() {
		pipe.ScriptLoad(ctx, source)
	}
	var sent time.Time
	if c.now != nil {
		sent = c.now()
	}
	if err := guard(func() error { _, err := pipe.Exec(ctx); return err }); err != nil {
		return err
	}
	if c.now != nil {
		middle := sent.Add(c.now().Sub(sent) / 2)
		c.behind.Store(reading.Val().Sub(middle).Microseconds())
	}
	c.mu.Lock()
	if !c.valid.Swap(true) {
		close(c.ready)
	}
	c.mu.Unlock()
	return nil
}

// A wait is the patience of one Take: the earliest of its context's end and
// the store's own timeout.
type wait struct {
	ctx   context.Context //nolint:containedctx // a wait is made and gone within one call
	timer *time.Timer
}

// margin is what a caller needs to make something of the answer before its
// deadline.
const margin = 2 * time.Millisecond

var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

func newWait(ctx context.Context, timeout time.Duration) (*wait, error) {
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)-margin)
	}
	if timeout <= 0 || ctx.Err() != nil {
		return nil, fmt.Errorf("%w: no time left to ask redis", store.ErrUnavailable)
	}
	w := &wait{ctx, timers.Get().(*time.Timer)}
	w.timer.Reset(timeout)
	return w, nil
}

func (w *wait) stop() {
	w.timer.Stop()
	timers.Put(w.timer)
}

// until waits for ready.
func (w *wait) until(ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-w.timer.C:
		return fmt.Errorf("%w: timeout", store.ErrUnavailable)
	case <-w.ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(w.ctx))
	}
}
