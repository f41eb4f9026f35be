package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/store"
)

var (
	//go:embed driver.lua
	driver string
	//go:embed longway.lua
	longWay string

	source = script()
	digest = goredis.NewScript(source).Hash()
)

// script puts last what the usual request has no need of: Lua pays for every
// function that it gets to, called or not.
func script() string { return algo.Script() + driver + algo.LogScript() + longWay }

const (
	lanes    = 2    // pipelines under way at once, each on its connection
	maxBatch = 128  // calls in a pipeline
	maxQueue = 1024 // calls that wait for one; more are refused
)

// A pipeline sends calls to Redis, as many in a round trip as have come in
// meanwhile. Callers wait on their own and may leave at any time; a call whose
// caller has left before it was sent is dropped.
type pipeline struct {
	client  *goredis.Client
	timeout time.Duration
	broken  func()          // told of every transport error
	ctx     context.Context //nolint:containedctx // of all batches; ends with the pipeline
	cancel  context.CancelFunc
	queue   chan *call
	lanes   sync.WaitGroup
}

func newPipeline(client *goredis.Client, timeout time.Duration, broken func()) *pipeline {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pipeline{
		client: client, timeout: timeout, broken: broken, ctx: ctx, cancel: cancel,
		queue: make(chan *call, maxQueue),
	}
	for range lanes {
		p.lanes.Go(p.run)
	}
	return p
}

// do sends the call and waits for its reply. After an error the call belongs
// to the pipeline.
func (p *pipeline) do(w *wait, c *call) error {
	select {
	case p.queue <- c:
	default:
		return fmt.Errorf("%w: redis: %d calls wait already", store.ErrUnavailable, maxQueue)
	}
	if err := w.until(c.done); err != nil {
		c.abandoned.Store(true)
		return fmt.Errorf("%w waiting for redis", err)
	}
	return c.err
}

func (p *pipeline) run() {
	batch := make([]*call, 0, maxBatch)
	for {
		select {
		case <-p.ctx.Done():
			return
		case c := <-p.queue:
			runtime.Gosched() // let those who are about to ask share the round trip
			batch = p.fill(append(batch[:0], c))
			p.send(batch)
			clear(batch)
		}
	}
}

// fill adds what waits in the queue.
func (p *pipeline) fill(batch []*call) []*call {
	for len(batch) < maxBatch {
		select {
		case c := <-p.queue:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// send performs the batch. Redis refuses a script that it does not know,
// without running it; then, and only then, a call is sent again: behind the
// script first, and if that was flushed in between, with it.
func (p *pipeline) send(batch []*call) {
	for _, by := range []func(*goredis.Pipeline, *call){byDigest, byDigest, bySource} {
		if batch = p.exec(batch, by); len(batch) == 0 {
			return
		}
	}
	for _, c := range batch {
		c.finish("", fmt.Errorf("%w: redis: the script cannot be loaded", store.ErrUnavailable))
	}
}

func byDigest(pipe *goredis.Pipeline, c *call) { c.queueOn(pipe, "evalsha", digest) }
func bySource(pipe *goredis.Pipeline, c *call) { c.queueOn(pipe, "eval", source) }

// exec sends the calls in one round trip and returns those that were refused.
func (p *pipeline) exec(batch []*call, queueOn func(*goredis.Pipeline, *call)) (refused []*call) {
	ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
	defer cancel()
	pipe := p.client.Pipeline().(*goredis.Pipeline)
	sent := batch[:0]
	for i, c := range batch {
		switch {
		case c.abandoned.Load():
			continue
		case i == 0 && c.cmd != nil: // refused before
			pipe.ScriptLoad(ctx, source)
		}
		queueOn(pipe, c)
		sent = append(sent, c)
	}
	if len(sent) == 0 {
		return nil
	}
	failed := guard(func() error { _, err := pipe.Exec(ctx); return err })
	if failed != nil && !isReply(failed) {
		p.broken()
	}
	for _, c := range sent {
		reply, err := c.cmd.Text()
		if errors.Is(failed, errPanicked) {
			err = failed
		}
		switch {
		case err == nil:
			c.finish(reply, nil)
		case goredis.HasErrorPrefix(err, "NOSCRIPT"):
			refused = append(refused, c)
		default:
			c.finish("", fmt.Errorf("%w: redis: %s", store.ErrUnavailable, firstLine(err)))
		}
	}
	return refused
}

var errPanicked = errors.New("the client cannot make sense of the reply")

// guard keeps a panic of go-redis, which some replies of no Redis bring about,
// from ending the process.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanicked, p)
		}
	}()
	return do()
}

// isReply reports whether the error is what Redis answered.
func isReply(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
