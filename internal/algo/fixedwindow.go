package algo

import _ "embed"

// A fixed window counts units in windows aligned to the epoch (months and
// years: to the calendar) and starts again at each boundary. It is the
// cheapest algorithm and, by its nature, admits up to twice the quota around a
// boundary.
//
// State: units used, end of the window, start of the window.

//go:embed fixedwindow.lua
var fixedWindowLua string

func stepFixedWindow(d *Decision, s *State, l *Limit, now, cost, slack int64) {
	used, end, start := s.A, s.B, s.C
	if now < start || now >= end { // not the window of the state
		begin, finish := l.WindowAt(now)
		switch {
		case start <= begin:
			used, end, start = 0, finish, begin
		case start-now > MaxSkew: // the clock stepped back
			end, start = finish, begin
			s.set(used, end, start)
		}
	}

	if cost < 0 {
		if used > 0 {
			used = max(0, used+cost)
			s.set(used, end, start)
			if used == 0 {
				s.set(0, 0, 0)
			}
		}
		d.Allowed, d.Remaining, d.ResetAfter = true, max(0, l.Quota+slack-used), end-now
		return
	}
	if d.decide(used, l.Quota+slack, cost, func(int64) int64 { return end - now }) {
		s.set(used+cost, end, start)
	}
	d.ResetAfter = end - now
}

func fixedWindowParams(l *Limit, now int64) [5]int64 {
	start, end := l.WindowAt(now)
	return [5]int64{l.Quota, start, end, l.Overdraft}
}
