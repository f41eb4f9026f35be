package algo

import _ "embed"

// A sliding window counter estimates what a window that ends now holds: what
// the fixed window that holds now has counted, and of the one before the share
// that the sliding window still covers, as if its requests had come evenly.
//
//	floor(before * (Window-elapsed) / Window) + used
//
// The formula is Cloudflare's ("How we built rate limiting capable of scaling
// to millions of domains", 2017). It needs no more memory than a fixed window,
// but on traffic made for it admits up to twice the quota in a window.
//
// State: units used in the window, units used in the one before, its start.

//go:embed slidingwindowcounter.lua
var slidingWindowCounterLua string

func stepSlidingWindowCounter(d *Decision, s *State, l *Limit, now, cost, slack int64) {
	c := slidingCounter{s.A, s.B, s.C}
	if c.start-now > MaxSkew { // the clock stepped back
		c.start = now - now%l.Window
		s.set(c.used, c.before, c.start)
	}
	later := max(now, c.start)
	ahead := later - now
	c.roll(later, l.Window)

	elapsed := later - c.start
	capacity := l.Quota + slack
	if cost < 0 {
		if c.used > 0 || c.before > 0 {
			c.give(-cost)
			s.set(c.used, c.before, c.start)
			if c.used == 0 && c.before == 0 {
				s.set(0, 0, 0)
			}
		}
		d.Allowed = true
		d.Remaining = max(0, capacity-c.estimate(elapsed, l.Window))
		d.ResetAfter = c.until(0, 0, elapsed, ahead, l.Window)
		return
	}
	if d.decide(c.estimate(elapsed, l.Window), capacity, cost, func(int64) int64 {
		return c.until(capacity, max(cost, 1), elapsed, ahead, l.Window)
	}) {
		c.used += cost
		s.set(c.used, c.before, c.start)
	}
	d.ResetAfter = c.until(0, 0, elapsed, ahead, l.Window)
}

func slidingWindowCounterParams(l *Limit, _ int64) [5]int64 {
	return [5]int64{l.Quota, l.Window, 0, l.Overdraft}
}

// A slidingCounter has counted used units since start and before units in the
// window that ended there.
type slidingCounter struct{ used, before, start int64 }

// roll begins the window that holds now.
func (c *slidingCounter) roll(now, window int64) {
	switch begin := now - now%window; begin - c.start {
	case 0:
	case window:
		*c = slidingCounter{0, c.used, begin}
	default:
		*c = slidingCounter{0, 0, begin}
	}
}

// give takes units back, the newest first, down to none.
func (c *slidingCounter) give(units int64) {
	rest := max(0, units-c.used)
	c.used = max(0, c.used-units)
	c.before = max(0, c.before-rest)
}

// estimate is what the sliding window holds.
func (c *slidingCounter) estimate(elapsed, window int64) int64 {
	slid, _ := muldiv(c.before, window-elapsed, window)
	return slid + c.used
}

// until returns how long it takes until the estimate leaves room for cost in
// the capacity, if nothing is added: in this window, as the one before slides
// out, or in the next, as this one does.
func (c *slidingCounter) until(capacity, cost, elapsed, ahead, window int64) int64 {
	var wait int64
	if room := capacity - cost - c.used; room >= 0 {
		wait = slidesTo(c.before, room, window) - elapsed
	} else {
		wait = window - elapsed + slidesTo(c.used, capacity-cost, window)
	}
	if wait <= 0 {
		return 0
	}
	return ahead + wait
}

// slidesTo returns how much of a window has to pass until at most room is left
// of the count of the one before.
func slidesTo(count, room, window int64) int64 {
	if count <= room {
		return 0
	}
	k, r := muldiv(room+1, window, count)
	if r > 0 {
		k++
	}
	return window - k + 1
}
