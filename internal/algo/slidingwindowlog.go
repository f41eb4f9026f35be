package algo

import (
	_ "embed"
	"sort"
)

// A sliding window log remembers every request of the last Window and what it
// took: exact, never more than the quota in any window, at the price of 16
// bytes a request in memory and a binary search a step. Requests of the same
// microsecond share an entry. At [MaxLog] entries it denies until the oldest
// lapses.
//
// State: the log. Inside Redis it is a list of (time, sum) under a key of its
// own, and the shift stands in the record.

// MaxLog is the most entries of a log.
const MaxLog = 100_000

//go:embed slidingwindowlog.lua
var slidingWindowLogLua string

// sums are kept modulo 2^53, so that they never end.
const modulus = MaxCost + 1

// A Log is what a sliding_window_log bucket remembers. It is a value: a step
// that changes it makes a new one, which may share memory with it.
type Log struct {
	base    int64   // the sum before the first entry
	shift   int64   // what to add to the entries' times, since a clock stepped back
	total   int64   // the sum of the last entry
	entries []entry // by time
}

// An entry says that the sum of all that was taken until then was sum. The last
// one's sum does not count: it is kept in Log.total, so that a request that
// takes from a bucket many times in its one microsecond copies no entries.
type entry struct{ at, sum int64 }

func stepSlidingWindowLog(d *Decision, s *State, l *Limit, now, cost, slack int64) {
	log := s.Log.orEmpty()
	if last := log.last(); last-now > MaxSkew { // the clock stepped back
		log = &Log{log.base, log.shift - (last - now), log.total, log.entries}
		s.Log = log
	}
	later := max(now, log.last())
	log = log.since(later - l.Window)

	capacity := l.Quota + slack
	if cost < 0 {
		if used := log.used(); used > 0 {
			log = log.give(min(-cost, used))
			*s = State{Log: log}
			if log.used() == 0 {
				*s = State{}
			}
		}
		d.Allowed, d.Remaining, d.ResetAfter = true, log.remaining(capacity), log.reset(l, now)
		return
	}
	d.Remaining, d.ResetAfter = log.remaining(capacity), log.reset(l, now)
	ask := max(cost, 1)
	switch used := log.used(); {
	case ask > capacity:
		d.RetryAfter = Never
		return
	case used+ask > capacity || len(log.entries) >= MaxLog:
		d.RetryAfter = log.until(capacity-ask) + l.Window - now
		return
	}
	d.Allowed = true
	if cost > 0 {
		log = log.add(later, cost)
		s.Log = log
		d.Remaining, d.ResetAfter = log.remaining(capacity), log.reset(l, now)
	}
}

func slidingWindowLogParams(l *Limit, _ int64) [5]int64 {
	return [5]int64{l.Quota, l.Window, 0, l.Overdraft}
}

func (g *Log) orEmpty() *Log {
	if g == nil {
		return new(Log)
	}
	return g
}

// Len returns the number of entries.
func (g *Log) Len() int {
	if g == nil {
		return 0
	}
	return len(g.entries)
}

// last is the time of the last entry, 0 if there is none.
func (g *Log) last() int64 {
	if len(g.entries) == 0 {
		return 0
	}
	return g.entries[len(g.entries)-1].at + g.shift
}

// since returns the log without what is not after the time.
func (g *Log) since(at int64) *Log {
	n := sort.Search(len(g.entries), func(i int) bool { return g.entries[i].at+g.shift > at })
	if n == 0 {
		return g
	}
	if n == len(g.entries) {
		return new(Log)
	}
	return &Log{g.entries[n-1].sum, g.shift, g.total, g.entries[n:]}
}

// used is what the log holds.
func (g *Log) used() int64 {
	return difference(g.total, g.base)
}

func (g *Log) remaining(capacity int64) int64 {
	if len(g.entries) >= MaxLog {
		return 0
	}
	return max(0, capacity-g.used())
}

func (g *Log) reset(l *Limit, now int64) int64 {
	if len(g.entries) == 0 {
		return 0
	}
	return g.last() + l.Window - now
}

// until returns the time of the entry that must lapse for the log to hold at
// most the given units and less than [MaxLog] entries.
func (g *Log) until(most int64) int64 {
	i := sort.Search(len(g.entries)-1, func(i int) bool { return difference(g.total, g.entries[i].sum) <= most })
	return g.entries[i].at + g.shift
}

// add returns the log with units taken at the time, which is not before its
// last entry.
func (g *Log) add(at, units int64) *Log {
	n := len(g.entries)
	if n == 0 {
		return &Log{0, 0, units, []entry{{at: at}}}
	}
	sum := (g.total + units) % modulus
	if g.last() == at {
		return &Log{g.base, g.shift, sum, g.entries}
	}
	added := &Log{g.base, g.shift, sum, append(g.entries, entry{at: at - g.shift})}
	added.entries[n-1].sum = g.total
	return added
}

// give returns the log without its newest units.
func (g *Log) give(units int64) *Log {
	left := g.used() - units
	if left == 0 {
		return new(Log)
	}
	i := sort.Search(len(g.entries)-1, func(i int) bool { return difference(g.entries[i].sum, g.base) >= left })
	// Without room at its end, so that what is added does not overwrite entries of g.
	return &Log{g.base, g.shift, (g.base + left) % modulus, g.entries[: i+1 : i+1]}
}

// difference is a - b of sums.
func difference(a, b int64) int64 {
	if a < b {
		return a - b + modulus
	}
	return a - b
}
