package main

import (
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

func TestWindowsAreWrittenAsPeopleDo(t *testing.T) {
	for want, l := range map[string]algo.Limit{
		"1s":     {Window: time.Second.Microseconds()},
		"10s":    {Window: 10 * time.Second.Microseconds()},
		"100ms":  {Window: 100 * time.Millisecond.Microseconds()},
		"1m":     {Window: time.Minute.Microseconds()},
		"1m30s":  {Window: 90 * time.Second.Microseconds()},
		"20m":    {Window: 20 * time.Minute.Microseconds()},
		"24h":    {Window: 24 * time.Hour.Microseconds()},
		"1h0m5s": {Window: time.Hour.Microseconds() + 5*time.Second.Microseconds()},
		"month":  {Window: 30 * 24 * time.Hour.Microseconds(), Calendar: algo.Monthly},
		"year":   {Window: 365 * 24 * time.Hour.Microseconds(), Calendar: algo.Yearly},
	} {
		if got := window(&policy.Limit{Limit: l}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
