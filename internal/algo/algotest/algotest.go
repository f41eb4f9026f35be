// Package algotest is the conformance suite of the algorithms. [Run] plays the
// scripts in testdata, checks the laws, and holds every step against exact
// rational numbers, for any [Subject] that can step a bucket: plain Go, a
// store, or Redis running the Lua twins.
package algotest

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
)

// A Subject steps the bucket named key. Distinct keys are distinct buckets.
type Subject struct {
	// Step behaves as [algo.Step].
	Step func(tb testing.TB, key string, l *algo.Limit, now, cost, slack int64) algo.Decision
	// Charge behaves as [algo.Charge].
	Charge func(tb testing.TB, key string, l *algo.Limit, now, cost int64) algo.Decision
	// Forgets says that the subject drops a bucket that has been as if
	// untouched for algo.MaxSkew, by the limit of its last change. Its clock
	// never steps back further, and its limits do not change at random.
	Forgets bool
	// NoSlack says that the subject has no slack to give: it is only asked
	// with 0.
	NoSlack bool
	// Rounds is how many random buckets each law and the witness try.
	Rounds int
}

// Units of time, in microseconds.
const (
	Millisecond = 1_000
	Second      = 1_000 * Millisecond
	Minute      = 60 * Second
	Hour        = 60 * Minute
	Day         = 24 * Hour
	Month       = 30 * Day
	Year        = 365 * Day
)

// Epoch is the instant at which scripts start, 2024-10-04 00:00 UTC: a whole
// number of days, so that every window in use is aligned to it.
const Epoch = 20_000 * Day

// Run checks the subject against every script, every law and the witness.
func Run(t *testing.T, s Subject) {
	t.Run("scripts", func(t *testing.T) { runScripts(t, s) })
	for _, a := range algo.All() {
		for _, law := range laws {
			t.Run(a.String()+"/"+law.name, func(t *testing.T) { checkLaw(t, a, s, law) })
		}
		t.Run(a.String()+"/agrees with exact rationals", func(t *testing.T) { checkWitness(t, a, s) })
		t.Run(a.String()+"/admits no more than its bound in any window", func(t *testing.T) { checkBound(t, a, s) })
		t.Run(a.String()+"/admits its rate in the long run", func(t *testing.T) { checkRate(t, a, s) })
	}
}

// Limits returns the limits that every suite tries with the algorithm: the
// ordinary ones at which other limiters lost exactness, and the edges.
func Limits(a algo.Algorithm) []*algo.Limit {
	var limits []*algo.Limit
	for _, l := range []algo.Limit{
		{Quota: 1_000_000, Window: Month, Calendar: algo.Monthly},
		{Quota: 10_000_000, Window: Day},
		{Quota: 1<<32 - 1, Window: Second},
		{Quota: 1<<32 - 1, Window: Minute},
		{Quota: 1<<32 - 1, Window: Year, Calendar: algo.Yearly},
		{Quota: 999_983, Window: Month, Calendar: algo.Monthly},
		{Quota: 7, Window: Minute},
		{Quota: 3, Window: Second},
		{Quota: 999_999, Window: Second},
		{Quota: 1, Window: Year, Burst: 100, Calendar: algo.Yearly},
		{Quota: 0, Window: Second},
		{Quota: 1, Window: Second},
	} {
		limits = append(limits, limit(a, l))
	}
	return limits
}

// RandomLimit returns a valid limit with a quota and a burst of up to 2^32 and
// a window of up to 400 days.
func RandomLimit(r *rand.Rand, a algo.Algorithm) *algo.Limit {
	windows := []int64{
		Millisecond, 100 * Millisecond, Second, 7 * Second, Minute, Hour,
		Day, 7 * Day, Month, Year, 366 * Day, algo.MaxWindow,
	}
	l := algo.Limit{Window: windows[r.IntN(len(windows))]}
	if r.IntN(4) == 0 {
		l.Window = algo.MinWindow + r.Int64N(algo.MaxWindow-algo.MinWindow)
	}
	switch r.IntN(4) {
	case 0:
		l.Quota = 1<<32 - 1 - r.Int64N(3)
	case 1:
		l.Quota = 1 + r.Int64N(1<<(1+r.IntN(32)))
	case 2:
		l.Quota = 1_000_000
	default:
		l.Quota = 1 + r.Int64N(1000)
	}
	if r.IntN(2) == 0 {
		l.Burst = 1 + r.Int64N(1<<(1+r.IntN(32)))
	}
	if r.IntN(2) == 0 {
		l.Overdraft = r.Int64N(1 + l.Quota)
	}
	if a == algo.FixedWindow && r.IntN(4) == 0 {
		l.Calendar = algo.Calendar(1 + r.IntN(4))
	}
	if a == algo.LeakyBucket && r.IntN(2) == 0 {
		l.MaxDelay = r.Int64N(1 + l.Window)
	}
	return limit(a, l)
}

// limit makes l one of the algorithm's: a burst where there has to be one, and
// as little of it and of overdraft as comes back within a life.
func limit(a algo.Algorithm, l algo.Limit) *algo.Limit {
	l.Algorithm = a
	if a != algo.FixedWindow {
		l.Calendar = algo.NoCalendar
	}
	if !a.IsBucket() {
		l.Burst = 0
	} else if l.Burst == 0 {
		l.Burst = l.Quota
	}
	if l.Validate() != nil {
		l.Overdraft = 0
	}
	if l.Validate() != nil {
		l.Burst = l.Quota
	}
	if err := l.Validate(); err != nil {
		panic(fmt.Sprintf("%+v: %v", l, err))
	}
	return &l
}

// A Clock is the time of random traffic.
type Clock struct {
	Now     int64
	highest int64
}

// NewClock returns a clock at some time in the two years after Epoch.
func NewClock(r *rand.Rand) *Clock { return &Clock{Now: Epoch + r.Int64N(2*Year)} }

// HoldBack ends a step back at algo.MaxSkew before the latest time there was.
func (c *Clock) HoldBack() {
	c.highest = max(c.highest, c.Now)
	c.Now = max(c.Now, c.highest-algo.MaxSkew)
}

// Tick moves the clock by about the time of a few units, of a part of the
// bucket or, now and then, back, and returns a cost to ask for there.
func (c *Clock) Tick(r *rand.Rand, l *algo.Limit) (cost int64) {
	now := &c.Now
	most := max(1, l.Quota, l.Burst)
	switch r.IntN(8) {
	case 0, 1:
		*now += r.Int64N(3)
	case 2, 3:
		*now += r.Int64N(2 + 3*(l.Window/max(1, l.Quota)))
	case 4, 5:
		*now += r.Int64N(2 + fill(l)/3)
	case 6:
		*now -= r.Int64N(2 + min(l.Window/50, algo.MaxSkew))
	default:
		*now += r.Int64N(2*Hour) - Hour
	}
	switch r.IntN(4) {
	case 0:
		return 1
	case 1:
		return 1 + r.Int64N(most)
	case 2:
		return 1 + r.Int64N(1+most/5)
	default:
		return 1 + r.Int64N(most+2)
	}
}

// fill is about the time in which an empty bucket becomes full.
func fill(l *algo.Limit) int64 {
	if l.Quota == 0 || l.Burst == 0 {
		return l.Window
	}
	hi, lo := bits.Mul64(uint64(l.Burst), uint64(l.Window))
	q, _ := bits.Div64(hi, lo, uint64(l.Quota))
	return int64(q)
}

// randomSlack returns 0 half of the time, and always if there is none.
func (s Subject) randomSlack(r *rand.Rand, l *algo.Limit) int64 {
	if s.NoSlack || r.IntN(2) == 0 {
		return 0
	}
	if r.IntN(2) == 0 {
		return r.Int64N(l.Overdraft + 1)
	}
	return -r.Int64N(1 + max(1, l.Quota, l.Burst))
}
