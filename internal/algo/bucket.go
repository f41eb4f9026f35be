package algo

import _ "embed"

// A bucket of either kind is kept as a whole number of units that it owes to
// being untouched, so that a zero State is untouched, plus a fraction in units
// of 1/Window, so that repaying them is exact: Quota such units per
// microsecond.
//
// State: whole units owed, fraction owed, time.

//go:embed bucket.lua
var bucketLua string

// stepBucket steps a bucket that is full at Burst.
func stepBucket(d *Decision, s *State, l *Limit, now, cost, slack int64) {
	if l.Quota == 0 {
		d.nothing(cost)
		return
	}
	b := bucket{s.A, s.B, s.C}
	if b.at-now > MaxSkew { // the clock stepped back
		b.at = now
		s.set(b.whole, b.fraction, b.at)
	}
	ahead := max(0, b.at-now)
	b.refill(l, now+ahead)

	capacity := l.Burst + slack
	if cost < 0 {
		if b.owed() > 0 {
			b.give(-cost)
			s.set(b.whole, b.fraction, b.at)
			if b.owed() == 0 {
				s.set(0, 0, 0)
			}
		}
		d.Allowed, d.Remaining, d.ResetAfter = true, max(0, capacity-b.owed()), b.until(l, 0, ahead)
		return
	}
	record := d.decide(b.owed(), capacity, cost, func(most int64) int64 { return b.until(l, most, ahead) })
	if l.Algorithm == LeakyBucket {
		record = b.queue(l, d, ahead) && record
	}
	if record {
		b.whole += cost
		s.set(b.whole, b.fraction, b.at)
	}
	d.ResetAfter = b.until(l, 0, ahead)
	if l.MaxDelay > 0 && d.ResetAfter > l.MaxDelay {
		d.Remaining = 0 // the next one would be held for too long
	}
}

func bucketParams(l *Limit, _ int64) [5]int64 {
	return [5]int64{l.Quota, l.Window, l.Burst, l.Overdraft, l.MaxDelay}
}

// A bucket owes whole + fraction/Window units at time at.
type bucket struct{ whole, fraction, at int64 }

// refill forgets what a limit that was since lowered could not owe, and lets
// the rest leak until now.
func (b *bucket) refill(l *Limit, now int64) {
	if most := l.Burst + l.Overdraft; b.whole >= most {
		b.whole, b.fraction = most, 0
	}
	elapsed := now - b.at
	b.at = now
	if elapsed/l.Window > b.whole/l.Quota {
		b.whole, b.fraction = 0, 0
		return
	}
	units, part := muldiv(elapsed, l.Quota, l.Window)
	b.whole -= units
	b.fraction -= part
	if b.fraction < 0 {
		b.whole--
		b.fraction += l.Window
	}
	if b.whole < 0 {
		b.whole, b.fraction = 0, 0
	}
}

// queue sets how long a request is to be held that d lets in, until the bucket
// has drained of what was there before. It denies one that would be held for
// longer than MaxDelay, and reports whether it is still let in.
func (b *bucket) queue(l *Limit, d *Decision, ahead int64) bool {
	delay := b.until(l, 0, ahead)
	switch late := delay - l.MaxDelay; {
	case l.MaxDelay > 0 && late > 0:
		d.Allowed = false
		if d.RetryAfter != Never {
			d.RetryAfter = max(d.RetryAfter, late)
		}
	case d.Allowed:
		d.Delay = delay
	}
	return d.Allowed
}

// give takes units back, down to owing nothing.
func (b *bucket) give(units int64) {
	b.whole -= units
	if b.whole < 0 {
		b.whole, b.fraction = 0, 0
	}
}

// owed is the debt in units, rounded up.
func (b *bucket) owed() int64 {
	if b.fraction > 0 {
		return b.whole + 1
	}
	return b.whole
}

// until returns how long after a clock that is behind the bucket by ahead it
// takes to owe at most the given units.
func (b *bucket) until(l *Limit, most, ahead int64) int64 {
	if b.owed() <= most {
		return 0
	}
	wait, rest := muldiv(b.whole-most, l.Window, l.Quota)
	rest += b.fraction
	return ahead + wait + (rest+l.Quota-1)/l.Quota
}
