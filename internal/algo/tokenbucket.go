package algo

import _ "embed"

// A token bucket holds up to Burst tokens and gains Quota of them per Window.
// Each request takes its cost in tokens or is denied.
//
// The bucket is kept as what it owes to being full, so that a zero State is
// full, and as a whole number of tokens plus a fraction in units of 1/Window
// token, so that refilling is exact: Quota such units per microsecond.
//
// State: whole tokens owed, fraction owed, time.

//go:embed tokenbucket.lua
var tokenBucketLua string

func stepTokenBucket(s *State, l *Limit, now, cost, slack int64) Decision {
	if l.Quota == 0 {
		if cost < 0 {
			return Decision{Allowed: true}
		}
		return Decision{RetryAfter: Never}
	}
	b := bucket{s[0], s[1], s[2]}
	if b.at-now > MaxSkew { // the clock stepped back
		b.at = now
		*s = b.state()
	}
	ahead := max(0, b.at-now)
	b.refill(l, now+ahead)

	capacity := l.Burst + slack
	if cost < 0 {
		if b.owed() > 0 {
			b.give(-cost)
			*s = b.state()
		}
		return Decision{Allowed: true, Remaining: max(0, capacity-b.owed()), ResetAfter: b.until(l, 0, ahead)}
	}
	d, record := decide(b.owed(), capacity, cost, func(most int64) int64 { return b.until(l, most, ahead) })
	if record {
		b.whole += cost
		*s = b.state()
	}
	d.ResetAfter = b.until(l, 0, ahead)
	return d
}

func bucketParams(l *Limit, _ int64) [4]int64 {
	return [4]int64{l.Quota, l.Window, l.Burst, l.Overdraft}
}

// A bucket owes whole + fraction/Window units at time at.
type bucket struct{ whole, fraction, at int64 }

func (b *bucket) state() State { return State{b.whole, b.fraction, b.at} }

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
