package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlsd/rlsd/internal/store"
)

func TestChoiceOfTheStore(t *testing.T) {
	for _, test := range []struct {
		store, url, want string
	}{
		{"", "", "memory"},
		{"memory", "", "memory"},
		{"redis", "", "redis://127.0.0.1:6379/0"},
		{"redis", "redis://127.0.0.1:1/2", "redis://127.0.0.1:1/2"},
		{"", "redis://u:secret@127.0.0.1:1/2", "redis://u:xxxxx@127.0.0.1:1/2"},
	} {
		b, err := (&serve{Store: test.store, RedisURL: test.url, StoreTimeout: time.Second}).openStore()
		if err != nil {
			t.Fatal(err)
		}
		if b.name != test.want || (b.readier != nil) != (b.buckets == nil) {
			t.Errorf("--store %q --redis-url %q: %+v, want %s", test.store, test.url, b, test.want)
		}
		b.close(slog.New(slog.DiscardHandler))
	}
}

// flaky is a store that says at what times it would answer.
type flaky struct {
	store.Store
	there func(since time.Duration) bool
	began time.Time
}

func (f *flaky) Ready(ctx context.Context) error {
	if f.there(time.Since(f.began)) {
		return nil
	}
	<-ctx.Done()
	return errors.New("nobody there")
}

func TestTheLogFollowsTheStore(t *testing.T) {
	for _, test := range []struct {
		name  string
		there func(since time.Duration) bool
		want  []string
	}{
		{"always there", func(time.Duration) bool { return true }, nil},
		{"never there", func(time.Duration) bool { return false }, []string{"WARN the store does not answer"}},
		{
			"there late", func(since time.Duration) bool { return since > 5*time.Second },
			[]string{"WARN the store does not answer", "INFO the store answers"},
		},
		{
			"gone in between", func(since time.Duration) bool { return since < 3*time.Second || since > 8*time.Second },
			[]string{"WARN the store does not answer", "INFO the store answers"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				watchStore(ctx, &flaky{there: test.there, began: time.Now()}, slog.New(slog.NewTextHandler(&log, nil)))

				lines := strings.Split(strings.TrimSpace(log.String()), "\n")
				if len(test.want) != strings.Count(log.String(), "\n") {
					t.Fatalf("logged\n%swant %q", log.String(), test.want)
				}
				for i, want := range test.want {
					level, message, _ := strings.Cut(want, " ")
					if !strings.Contains(lines[i], "level="+level) || !strings.Contains(lines[i], message) {
						t.Errorf("line %d is %s, want %s", i, lines[i], want)
					}
				}
			})
		})
	}
}
