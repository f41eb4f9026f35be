package main

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/telemetry"
)

// A configuration is the rules in force. They follow their files while watch
// runs.
type configuration struct {
	current  atomic.Pointer[file.Status]
	watcher  *file.Watcher
	observer *telemetry.Telemetry
	logger   *slog.Logger

	unsaved bool
	retry   time.Time // when to try next to save the state
	lament  string    // why it could not be saved, once that is logged
}

// stateRetry is how long to wait after the state could not be saved.
const stateRetry = 10 * time.Second

func newConfiguration(ctx context.Context, w *file.Watcher, first *file.Report, observer *telemetry.Telemetry, logger *slog.Logger) *configuration {
	c := &configuration{watcher: w, observer: observer, logger: logger}
	c.enforce(first)
	for _, f := range first.StateFaults {
		logger.WarnContext(ctx, "the state directory holds what is of no use", "fault", f.String())
	}
	c.complain(ctx, first)
	return c
}

func (c *configuration) snapshot() *policy.Snapshot { return c.current.Load().Snapshot }

// watch takes over what changes until ctx ends: at each tick what has come to
// rest, at each hangup everything.
func (c *configuration) watch(ctx context.Context, ticks <-chan time.Time, hangups <-chan os.Signal) {
	c.save(ctx, time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks:
			if r := c.watcher.Poll(now); r != nil {
				c.publish(ctx, r, "files changed")
			}
		case <-hangups:
			c.publish(ctx, c.watcher.Reload(time.Now()), "SIGHUP")
		}
		c.save(ctx, time.Now())
	}
}

// publish puts new rules into force and tells of it.
func (c *configuration) publish(ctx context.Context, r *file.Report, cause string) {
	c.enforce(r)
	c.observer.Reloaded(len(r.Status.Faults) == 0)
	level := slog.LevelInfo
	if len(r.Status.Faults) > 0 {
		level = slog.LevelWarn
	}
	c.logger.Log(ctx, level, "rules reloaded", "cause", cause, "version", r.Status.Version, "hash", r.Status.Snapshot.Hash(),
		"added", r.Added, "changed", r.Changed, "removed", r.Removed, "stale", len(r.Status.Stale), "faults", len(r.Status.Faults))
	c.complain(ctx, r)
}

func (c *configuration) enforce(r *file.Report) {
	s := r.Status
	c.observer.Follow(s.Snapshot.Hash(), s.Snapshot.Limits())
	c.current.Store(s)
	c.observer.Configured(telemetry.Configuration{
		Version: s.Version, Changed: s.Changed, Files: len(s.Files), StaleDomains: len(s.Stale),
		Right: len(s.Faults) == 0, LastFailed: s.LastFailed,
	})
	c.unsaved, c.retry = true, time.Time{}
}

// complain logs what was not wrong before, and what no longer is.
func (c *configuration) complain(ctx context.Context, r *file.Report) {
	for _, f := range r.NewFaults {
		c.logger.ErrorContext(ctx, "the rules have a fault", "fault", f.String())
	}
	for _, domain := range r.NewlyStale {
		c.logger.WarnContext(ctx, "a domain stands on its last good rules until the faults are mended", "domain", domain)
	}
	for _, domain := range r.Recovered {
		c.logger.InfoContext(ctx, "a domain no longer stands on its last good rules", "domain", domain)
	}
}

// save keeps what is good for the next start.
func (c *configuration) save(ctx context.Context, now time.Time) {
	if !c.unsaved || now.Before(c.retry) {
		return
	}
	err := c.watcher.SaveState()
	c.unsaved = err != nil
	if err == nil {
		c.lament = ""
		return
	}
	c.retry = now.Add(stateRetry)
	if lament := err.Error(); lament != c.lament {
		c.lament = lament
		c.logger.ErrorContext(ctx, "the last good rules cannot be kept for the next start; rlsd keeps trying", "error", err)
	}
}
