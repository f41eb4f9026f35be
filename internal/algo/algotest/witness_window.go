package algotest

import (
	"math/big"
	"slices"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
)

// counterWitness is a sliding window counter whose shares are rational. It
// finds waits by bisection: the estimate only ever falls while nothing is added.
type counterWitness struct {
	used, before *big.Rat
	start        int64
}

func (w *counterWitness) step(l *algo.Limit, now, cost, slack int64) algo.Decision {
	if w.start-now > algo.MaxSkew {
		w.start = now - now%l.Window
	}
	later := max(now, w.start)
	d := algo.Decision{Allowed: true}
	capacity := l.Quota + slack
	ask := max(cost, 1)
	switch {
	case cost < 0:
		if used, before, _ := w.at(l, later); used.Sign() > 0 || before.Sign() > 0 {
			w.roll(l, later)
			w.used.Add(w.used, whole(cost))
			if w.used.Sign() < 0 {
				w.before.Add(w.before, w.used)
				w.used.SetInt64(0)
			}
			if w.before.Sign() < 0 {
				w.before.SetInt64(0)
			}
			if w.used.Sign() == 0 && w.before.Sign() == 0 {
				w.start = 0
			}
		}
	case ask > capacity:
		d.Allowed, d.RetryAfter = false, algo.Never
	case w.estimate(l, later) > capacity-ask:
		d.Allowed, d.RetryAfter = false, w.until(l, now, later, capacity-ask)
	case cost > 0:
		w.roll(l, later)
		w.used.Add(w.used, whole(cost))
	}
	d.Remaining = max(0, capacity-w.estimate(l, later))
	d.ResetAfter = w.until(l, now, later, 0)
	return d
}

// at returns the counts as of a time from start on.
func (w *counterWitness) at(l *algo.Limit, at int64) (used, before *big.Rat, start int64) {
	switch windows := at/l.Window - w.start/l.Window; windows {
	case 0:
		return w.used, w.before, w.start
	case 1:
		return new(big.Rat), w.used, at - at%l.Window
	default:
		return new(big.Rat), new(big.Rat), at - at%l.Window
	}
}

func (w *counterWitness) roll(l *algo.Limit, at int64) { w.used, w.before, w.start = w.at(l, at) }

func (w *counterWitness) estimate(l *algo.Limit, at int64) int64 {
	used, before, start := w.at(l, at)
	share := new(big.Rat).Mul(before, big.NewRat(start+l.Window-at, l.Window))
	return floor(share) + floor(used)
}

func (w *counterWitness) until(l *algo.Limit, now, later, most int64) int64 {
	if w.estimate(l, later) <= most {
		return 0
	}
	low, high := later, later+2*l.Window // too soon, soon enough
	for high-low > 1 {
		if middle := (low + high) / 2; w.estimate(l, middle) <= most {
			high = middle
		} else {
			low = middle
		}
	}
	return high - now
}

// windowWitness counts units in the window that holds the present.
type windowWitness struct {
	used  *big.Int
	start time.Time
}

func (w *windowWitness) step(l *algo.Limit, now, cost, slack int64) algo.Decision {
	present := time.UnixMicro(now).UTC()
	if w.used == nil {
		w.used = new(big.Int)
	}
	if ahead := w.start.Sub(present); ahead > 0 && ahead <= algo.MaxSkew*time.Microsecond {
		present = w.start
	}
	start, end := windowOf(l, present)
	used := w.used
	if start.After(w.start) {
		used = new(big.Int)
	}
	if start.Before(w.start) {
		w.start = start // the clock stepped back
	}

	d := algo.Decision{Allowed: true, ResetAfter: end.UnixMicro() - now}
	capacity := big.NewInt(l.Quota + slack)
	sum := new(big.Int).Add(used, big.NewInt(max(cost, 1)))
	switch {
	case cost < 0:
		if used.Sign() > 0 {
			used = new(big.Int).Add(used, big.NewInt(cost))
			if used.Sign() < 0 {
				used.SetInt64(0)
			}
			w.used, w.start = used, start
			if used.Sign() == 0 {
				w.start = time.Time{}
			}
		}
	case capacity.Cmp(big.NewInt(max(cost, 1))) < 0:
		d.Allowed, d.RetryAfter = false, algo.Never
	case sum.Cmp(capacity) > 0:
		d.Allowed, d.RetryAfter = false, d.ResetAfter
	case cost > 0:
		used = sum
		w.used, w.start = used, start
	}
	d.Remaining = max(0, new(big.Int).Sub(capacity, used).Int64())
	return d
}

// windowOf finds the window by walking the calendar, not by dividing it.
func windowOf(l *algo.Limit, at time.Time) (start, end time.Time) {
	switch l.Calendar {
	case algo.Daily:
		start = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 0, 1)
	case algo.Weekly:
		start = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
		for start.Weekday() != time.Monday {
			start = start.AddDate(0, 0, -1)
		}
		return start, start.AddDate(0, 0, 7)
	case algo.Monthly:
		start = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 1, 0)
	case algo.Yearly:
		start = time.Date(at.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(1, 0, 0)
	case algo.NoCalendar:
	}
	window := time.Duration(l.Window) * time.Microsecond
	start = at.Add(-time.Duration(at.UnixMicro()%l.Window) * time.Microsecond)
	return start, start.Add(window)
}

// logWitness keeps a list of all that was taken and adds it up each time.
type logWitness struct{ taken []taken }

type taken struct{ at, units int64 }

func (w *logWitness) step(l *algo.Limit, now, cost, slack int64) algo.Decision {
	last := int64(0)
	if n := len(w.taken); n > 0 {
		last = w.taken[n-1].at
	}
	if last-now > algo.MaxSkew {
		for i := range w.taken {
			w.taken[i].at -= last - now
		}
		last = now
	}
	later := max(now, last)
	live := logWitness{slices.Clone(w.taken)}
	for len(live.taken) > 0 && live.taken[0].at+l.Window <= later {
		live.taken = live.taken[1:]
	}

	d := algo.Decision{Allowed: true}
	capacity := l.Quota + slack
	ask := max(cost, 1)
	switch {
	case cost < 0:
		if len(live.taken) > 0 {
			live.give(-cost)
			w.taken = live.taken
		}
	case ask > capacity:
		d.Allowed, d.RetryAfter = false, algo.Never
	case live.used()+ask > capacity:
		d.Allowed = false
		rest := live.used()
		for _, t := range live.taken {
			if rest -= t.units; rest+ask <= capacity {
				d.RetryAfter = t.at + l.Window - now
				break
			}
		}
	case cost > 0:
		live.taken = append(live.taken, taken{later, cost})
		w.taken = live.taken
	}
	d.Remaining = max(0, capacity-live.used())
	if n := len(live.taken); n > 0 {
		d.ResetAfter = live.taken[n-1].at + l.Window - now
	}
	return d
}

func (w *logWitness) used() int64 {
	sum := int64(0)
	for _, t := range w.taken {
		sum += t.units
	}
	return sum
}

func (w *logWitness) give(units int64) {
	for n := len(w.taken); n > 0 && units > 0; n-- {
		newest := &w.taken[n-1]
		part := min(units, newest.units)
		newest.units -= part
		units -= part
		if newest.units == 0 {
			w.taken = w.taken[:n-1]
		}
	}
}
