package algo

import _ "embed"

// GCRA, the generic cell rate algorithm (ITU-T I.371, Annex A), spaces units
// evenly: each moves the theoretical arrival time of the next one on by
// Window/Quota, and a request conforms if that time is then at most the
// tolerance, Burst such spacings, ahead of now.
//
// It decides as a token bucket does, and remembers its debt as time: a limit
// whose rate changes keeps the wait, where a token bucket keeps the units. The
// spacing is exact, whole microseconds and a rest in units of 1/Quota.
//
// State: theoretical arrival time, its rest, the time of the last change.

//go:embed gcra.lua
var gcraLua string

func stepGCRA(d *Decision, s *State, l *Limit, now, cost, slack int64) {
	if l.Quota == 0 {
		d.nothing(cost)
		return
	}
	arrival, rest, at := s.A, s.B, s.C
	if behind := at - now; behind > MaxSkew { // the clock stepped back
		arrival, at = arrival-behind, now
		s.set(arrival, rest, at)
	}
	later := max(now, at)
	ahead := later - now
	debt := spacing{arrival - at, rest}
	if debt.rest >= l.Quota { // left by a higher quota
		debt = spacing{debt.whole + 1, 0}
	}
	if most := l.spacing(l.Burst + l.Overdraft); most.less(debt) {
		debt = most // what a limit that was since lowered could not owe
	}
	debt.whole -= later - at
	if debt.whole < 0 {
		debt = spacing{}
	}

	capacity := l.Burst + slack
	remaining := func() int64 { return l.units(l.spacing(max(0, capacity)).minus(debt, l.Quota)) }
	if cost < 0 {
		if debt != (spacing{}) {
			debt = debt.minus(l.spacing(min(-cost, l.Burst+l.Overdraft)), l.Quota)
			s.set(later+debt.whole, debt.rest, later)
			if debt == (spacing{}) {
				s.set(0, 0, 0)
			}
		}
		d.Allowed, d.Remaining, d.ResetAfter = true, remaining(), debt.wait(ahead)
		return
	}

	d.Remaining, d.ResetAfter = remaining(), debt.wait(ahead)
	ask := max(cost, 1)
	if ask > capacity {
		d.RetryAfter = Never
		return
	}
	if tolerance := l.spacing(capacity - ask); tolerance.less(debt) {
		d.RetryAfter = debt.minus(tolerance, l.Quota).wait(ahead)
		return
	}
	d.Allowed = true
	if cost > 0 {
		debt = debt.plus(l.spacing(cost), l.Quota)
		s.set(later+debt.whole, debt.rest, later)
		d.Remaining, d.ResetAfter = remaining(), debt.wait(ahead)
	}
}

// A spacing is a length of time, whole + rest/quota microseconds.
type spacing struct{ whole, rest int64 }

// spacing returns the time that units are apart from now.
func (l *Limit) spacing(units int64) spacing {
	whole, rest := muldiv(units, l.Window, l.Quota)
	return spacing{whole, rest}
}

// units returns how many whole units fit into a spacing.
func (l *Limit) units(s spacing) int64 {
	units, part := muldiv(s.whole, l.Quota, l.Window)
	return units + (part+s.rest)/l.Window
}

func (s spacing) less(t spacing) bool {
	return s.whole < t.whole || s.whole == t.whole && s.rest < t.rest
}

func (s spacing) plus(t spacing, quota int64) spacing {
	s.whole += t.whole
	if s.rest += t.rest; s.rest >= quota {
		s.whole, s.rest = s.whole+1, s.rest-quota
	}
	return s
}

// minus returns s without t, and nothing if t is more.
func (s spacing) minus(t spacing, quota int64) spacing {
	s.whole -= t.whole
	if s.rest -= t.rest; s.rest < 0 {
		s.whole, s.rest = s.whole-1, s.rest+quota
	}
	if s.whole < 0 {
		return spacing{}
	}
	return s
}

// wait is the spacing in whole microseconds, rounded up, for a clock that is
// behind by ahead.
func (s spacing) wait(ahead int64) int64 {
	switch {
	case s == (spacing{}):
		return 0
	case s.rest > 0:
		return ahead + s.whole + 1
	default:
		return ahead + s.whole
	}
}
