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

func stepFixedWindow(s *State, l *Limit, now, cost, slack int64) Decision {
	used, end, start := s[0], s[1], s[2]
	if now < start || now >= end { // not the window of the state
		begin, finish := l.WindowAt(now)
		switch {
		case start <= begin:
			used, end, start = 0, finish, begin
		case start-now > MaxSkew: // the clock stepped back
			end, start = finish, begin
			*s = State{used, end, start}
		}
	}

	if cost < 0 {
		if used > 0 {
			used = max(0, used+cost)
			*s = State{used, end, start}
		}
		return Decision{Allowed: true, Remaining: max(0, l.Quota+slack-used), ResetAfter: end - now}
	}
	d, record := decide(used, l.Quota+slack, cost, func(int64) int64 { return end - now })
	if record {
		*s = State{used + cost, end, start}
	}
	d.ResetAfter = end - now
	return d
}

func fixedWindowParams(l *Limit, now int64) [4]int64 {
	start, end := l.WindowAt(now)
	return [4]int64{l.Quota, start, end, l.Overdraft}
}
