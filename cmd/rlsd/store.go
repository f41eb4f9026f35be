package main

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/memory"
	"github.com/rlsd/rlsd/internal/store/redis"
)

// What --store may be.
const (
	memoryStore = "memory"
	redisStore  = "redis"
)

const defaultRedisURL = "redis://127.0.0.1:6379/0"

// A backend is a store and what else serve wants to know of it.
type backend struct {
	store   store.Store
	kind    string        // memoryStore or redisStore
	name    string        // for the log, without a password
	readier store.Readier // nil if the store is always there
	buckets func() int    // nil if the store cannot tell
}

// openStore opens the store that the flags name. It does not wait for Redis.
func (c *serve) openStore() (*backend, error) {
	if c.Store == memoryStore || c.Store == "" && c.RedisURL == "" {
		s := memory.New(memory.Options{MaxBuckets: c.MemoryMaxBuckets})
		return &backend{store: s, kind: memoryStore, name: memoryStore, buckets: s.Len}, nil
	}
	address := c.RedisURL
	if address == "" {
		address = defaultRedisURL
	}
	s, err := redis.New(redis.Options{URL: address, Timeout: c.StoreTimeout, Now: time.Now})
	if err != nil {
		return nil, err
	}
	name := redisStore
	if u, err := url.Parse(address); err == nil {
		name = u.Redacted()
	}
	return &backend{store: s, kind: redisStore, name: name, readier: s}, nil
}

func (b *backend) close(logger *slog.Logger) {
	if err := b.store.Close(); err != nil {
		logger.Warn("closing the store", "error", err)
	}
}

const (
	probeInterval = time.Second
	probeTimeout  = 500 * time.Millisecond
)

// watchStore asks the store once a second whether it would answer, until ctx
// ends, and logs each time that this changes. Nothing else depends on it: a
// store that is gone is the business of each limit's failure mode, and were
// this instance to call itself unready, so would all others at the same time.
func watchStore(ctx context.Context, r store.Readier, logger *slog.Logger) {
	if r == nil {
		return
	}
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for there := true; ; {
		err := probe(ctx, r)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && there:
			logger.WarnContext(ctx, "the store does not answer: requests that need it are UNAVAILABLE, and rlsd keeps trying", "error", err)
		case err == nil && !there:
			logger.InfoContext(ctx, "the store answers")
		}
		there = err == nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func probe(ctx context.Context, r store.Readier) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return r.Ready(ctx)
}
