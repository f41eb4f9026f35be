package algo_test

import (
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
)

// TestLogIsBounded holds that a log of MaxLog entries denies, though units are
// left, until its oldest lapses, and says so beforehand.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	l := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: 1 << 30, Window: algotest.Hour}
	var s algo.State
	for i := range int64(algo.MaxLog) {
		d := algo.Step(&s, l, algotest.Epoch+i, 10, 0)
		want := l.Quota - 10*(i+1)
		if i == algo.MaxLog-1 {
			want = 0
		}
		if !d.Allowed || d.Remaining != want {
			t.Fatalf("request %d: %+v, want %d left", i, d, want)
		}
	}
	now := int64(algotest.Epoch + algotest.Minute)
	want := algo.Decision{RetryAfter: 59 * algotest.Minute, ResetAfter: 59*algotest.Minute + algo.MaxLog - 1}
	if got := algo.Step(&s, l, now, 1, 0); got != want {
		t.Errorf("full: %+v, want %+v", got, want)
	}
	if !algo.Step(&s, l, now+want.RetryAfter, 1, 0).Allowed {
		t.Error("still full when the oldest has lapsed")
	}
	if n := s.Log.Len(); n != algo.MaxLog {
		t.Errorf("%d entries, want %d", n, algo.MaxLog)
	}
}

// TestLogSumsWrap runs the sum past 2^53, where it begins anew.
func TestLogSumsWrap(t *testing.T) {
	t.Parallel()
	l := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: algo.MaxQuota, Window: algotest.Second}
	var s algo.State
	now := int64(algotest.Epoch)
	for range 3 << 13 { // of 2^40 units each
		now += algotest.Second / 2
		d := algo.Step(&s, l, now, algo.MaxQuota/2, 0)
		if full := now >= algotest.Epoch+algotest.Second; !d.Allowed || full != (d.Remaining == 0) {
			t.Fatalf("at %d: %+v", now, d)
		}
	}
}

func BenchmarkLog(b *testing.B) {
	const entries = 10_000
	l := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: entries, Window: algotest.Second}
	var s algo.State
	now := int64(algotest.Epoch)
	for range entries {
		now += algotest.Second / entries
		algo.Step(&s, l, now, 1, 0)
	}
	b.Run("admitted", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			now += algotest.Second / entries
			algo.Step(&s, l, now, 1, 0)
		}
	})
	b.Run("denied", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			algo.Step(&s, l, now, 1, 0)
		}
	})
}

// TestLogVersionsAreApart gives back from a log and takes again, and goes back to
// the log before, as a store does with a request that is denied after all.
func TestLogVersionsAreApart(t *testing.T) {
	t.Parallel()
	l := &algo.Limit{Algorithm: algo.SlidingWindowLog, Quota: 100, Window: algotest.Hour}
	var before algo.State
	for i := range int64(10) {
		algo.Step(&before, l, algotest.Epoch+i*algotest.Second, 1, 0)
	}
	now := int64(algotest.Epoch + algotest.Minute)
	retry := func(cost int64) algo.Decision {
		s := before
		return algo.Step(&s, l, now, cost, 0)
	}
	var want [11]algo.Decision
	for i := range want {
		want[i] = retry(90 + int64(i))
	}
	for range 2 {
		tried := before
		algo.Step(&tried, l, now, -5, 0)
		algo.Step(&tried, l, now, 1, 0)
		algo.Step(&tried, l, now+1, 1, 0)
	}
	for i := range want {
		if got := retry(90 + int64(i)); got != want[i] {
			t.Errorf("a cost of %d: %+v, want %+v", 90+i, got, want[i])
		}
	}
}
