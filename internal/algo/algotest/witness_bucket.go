package algotest

import (
	"math/big"

	"github.com/rlsd/rlsd/internal/algo"
)

// bucketWitness is a bucket, token or leaky or told by arrival times, that owes
// a rational debt.
type bucketWitness struct {
	debt *big.Rat
	at   int64
}

func (w *bucketWitness) step(l *algo.Limit, now, cost, slack int64) algo.Decision {
	if l.Quota == 0 {
		if cost < 0 {
			return algo.Decision{Allowed: true}
		}
		return algo.Decision{RetryAfter: algo.Never}
	}
	if w.at-now > algo.MaxSkew {
		w.at = now
	}
	later := max(now, w.at)
	rate := big.NewRat(l.Quota, l.Window)
	debt := new(big.Rat).Set(w.debt)
	if most := whole(l.Burst + l.Overdraft); debt.Cmp(most) > 0 {
		debt = most
	}
	debt.Sub(debt, new(big.Rat).Mul(rate, whole(later-w.at)))
	if debt.Sign() < 0 {
		debt.SetInt64(0)
	}

	until := func(most *big.Rat) int64 {
		excess := new(big.Rat).Sub(debt, most)
		if excess.Sign() <= 0 {
			return 0
		}
		return later - now + ceil(excess.Quo(excess, rate))
	}
	capacity := whole(l.Burst + slack)
	d := algo.Decision{Allowed: true}
	ask := max(cost, 1)
	switch limit := new(big.Rat).Sub(capacity, whole(ask)); {
	case cost < 0:
		if debt.Sign() > 0 {
			debt.Add(debt, whole(cost))
			if debt.Sign() < 0 {
				debt.SetInt64(0)
			}
			w.debt, w.at = debt, later
			if debt.Sign() == 0 {
				w.at = 0
			}
		}
	case limit.Sign() < 0:
		d.Allowed, d.RetryAfter = false, algo.Never
	case debt.Cmp(limit) > 0:
		d.Allowed, d.RetryAfter = false, until(limit)
	}
	tooLong := func(delay int64) bool { return l.MaxDelay > 0 && delay > l.MaxDelay }
	if delay := until(new(big.Rat)); l.Algorithm == algo.LeakyBucket && cost >= 0 {
		if tooLong(delay) && d.RetryAfter != algo.Never {
			d.Allowed, d.RetryAfter = false, max(d.RetryAfter, delay-l.MaxDelay)
		}
		if d.Allowed {
			d.Delay = delay
		}
	}
	if d.Allowed && cost > 0 {
		debt.Add(debt, whole(cost))
		w.debt, w.at = debt, later
	}
	d.ResetAfter = until(new(big.Rat))
	if cost < 0 || !tooLong(d.ResetAfter) {
		d.Remaining = max(0, floor(new(big.Rat).Sub(capacity, debt)))
	}
	return d
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ceil(r *big.Rat) int64 { return -floor(new(big.Rat).Neg(r)) }
