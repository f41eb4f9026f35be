// Package redis keeps buckets in Redis: one true count for any number of
// instances.
//
// A request is one call of one script (driver.lua with the twins of package
// algo), so that all it takes is checked and taken in one atomic step. Requests
// under way at the same time share pipelines. A command is never sent twice,
// unless Redis has said that it did not run it.
//
// What it promises: exact counts while the data lives, an answer no later than
// the caller's deadline and the store's own timeout. What it does not: that
// Redis keeps its data. A failover may lose what was not yet replicated, and
// any eviction policy but noeviction forgets buckets under memory pressure.
package redis

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/store"
)

// Options for New.
type Options struct {
	// URL names the server, as in redis://user:password@host:6379/0, rediss://
	// for TLS, or unix:///path.
	URL string
	// Timeout is the most that one Take waits; 0 means 10 ms. A caller's
	// earlier deadline goes first.
	Timeout time.Duration
	// Now is the clock that callers of Take go by. By it the store learns how
	// far that clock is from the one of Redis, and decides by the latter, so
	// that all instances are on one timeline. Without it the caller's time is
	// taken as it is.
	Now func() time.Time
}

// A Store keeps buckets in Redis. It is safe for concurrent use.
type Store struct {
	client   *goredis.Client
	timeout  time.Duration
	clock    *clock
	pipeline *pipeline
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Readier = (*Store)(nil)
)

// silence keeps go-redis from writing to stderr: all that it says there comes
// back as an error too.
var silence = sync.OnceFunc(func() { goredis.SetLogger(silent{}) })

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// New returns a store on the server at o.URL, which need not be up yet. It
// fails if the URL makes no sense.
func New(o Options) (*Store, error) {
	silence()
	opt, err := goredis.ParseURL(o.URL)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // the rest of it quotes the URL, password and all
		}
		return nil, fmt.Errorf("redis URL: %w (want redis://[user:password@]host:port/db)", err)
	}
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Millisecond
	}
	opt.MaxRetries = -1 // a replay is a double charge
	opt.ContextTimeoutEnabled = true
	opt.DialTimeout = time.Second
	opt.DialerRetries = 1
	// A call outlives the caller that has left: its connection is good still, if
	// the reply is only late, and dialling anew would make it later.
	patience := max(2*timeout, 250*time.Millisecond)
	opt.ReadTimeout, opt.WriteTimeout, opt.PoolTimeout = patience, patience, patience
	opt.PipelinePoolSize = -1
	opt.DisableIdentity = true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

	s := &Store{client: goredis.NewClient(opt), timeout: timeout}
	s.clock = newClock(s.client, o.Now)
	s.pipeline = newPipeline(s.client, patience, s.clock.invalidate)
	return s, nil
}

// Take implements [store.Store].
func (s *Store) Take(ctx context.Context, now time.Time, ops []store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	w, err := newWait(ctx, s.timeout)
	if err != nil {
		return err
	}
	defer w.stop()
	offset, err := s.clock.offset(w)
	if err != nil {
		return err
	}
	c := newCall()
	c.encode(now.UnixMicro()+offset, ops)
	if err := s.pipeline.do(w, c); err != nil {
		return err
	}
	err = c.decode(ops)
	c.free()
	return err
}

// Reset implements [store.Store].
func (s *Store) Reset(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	pipe := s.client.Pipeline()
	values := make(map[string]*goredis.StringCmd, len(keys))
	for _, key := range keys {
		values[name(key)] = pipe.Get(ctx, name(key))
	}
	_, _ = pipe.Exec(ctx) // what cannot be read has no logs
	var names []string
	for node, value := range values {
		names = append(names, node)
		for _, id := range recordIDs(value.Val()) {
			if algo.OfID(id) == algo.SlidingWindowLog {
				names = append(names, logName(node, id))
			}
		}
	}
	if err := guard(func() error { return s.client.Unlink(ctx, names...).Err() }); err != nil {
		return fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	return nil
}

// Ready implements [store.Readier].
func (s *Store) Ready(ctx context.Context) error {
	if err := guard(func() error { return s.client.Ping(ctx).Err() }); err != nil {
		return fmt.Errorf("%w: redis: %w", store.ErrUnavailable, err)
	}
	return nil
}

// Close implements [store.Store]. It cuts short what is under way.
func (s *Store) Close() error {
	s.pipeline.cancel()
	s.clock.cancel()
	err := s.client.Close() // nothing else ends a read
	s.pipeline.lanes.Wait()
	<-s.clock.done
	return err
}

// name is the key in Redis: the version of what it holds, a hash tag that no
// client chooses, and the bucket's own key.
func name(key string) string {
	var buf [256]byte
	b := append(buf[:0], "rlsd:1:{"...)
	b = strconv.AppendUint(b, xxhash.Sum64String(key), 36)
	b = append(b, "}:"...)
	return string(append(b, key...))
}
