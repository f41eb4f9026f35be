package service

import (
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
)

const second = 1_000_000 // microseconds

type unit = rls.RateLimitResponse_RateLimit_Unit

// units of a response, the largest first, in microseconds.
var units = [...]struct {
	unit   unit
	length int64
}{
	{rls.RateLimitResponse_RateLimit_YEAR, 365 * 86_400 * second},
	{rls.RateLimitResponse_RateLimit_MONTH, 30 * 86_400 * second},
	{rls.RateLimitResponse_RateLimit_WEEK, 7 * 86_400 * second},
	{rls.RateLimitResponse_RateLimit_DAY, 86_400 * second},
	{rls.RateLimitResponse_RateLimit_HOUR, 3_600 * second},
	{rls.RateLimitResponse_RateLimit_MINUTE, 60 * second},
	{rls.RateLimitResponse_RateLimit_SECOND, second},
}

// unitOf tells a window as Envoy does, the largest unit that divides it times
// a multiplier, which is nil for 1. Windows that are not whole seconds have no
// unit.
func unitOf(window int64) (unit, *wrapperspb.UInt32Value) {
	for _, u := range units {
		switch {
		case window == u.length:
			return u.unit, nil
		case window%u.length == 0:
			return u.unit, wrapperspb.UInt32(uint32(window / u.length)) //nolint:gosec // at most 400 days of seconds
		}
	}
	return rls.RateLimitResponse_RateLimit_UNKNOWN, nil
}

// translate puts a caller's own limit into the engine's terms. Months and
// years are those of the calendar.
func (o *override) translate() (*limiter.Override, error) {
	out := limiter.Override{Quota: int64(o.requestsPerUnit)}
	switch typev3.RateLimitUnit(o.unit) {
	case typev3.RateLimitUnit_SECOND:
		out.Window = second
	case typev3.RateLimitUnit_MINUTE:
		out.Window = 60 * second
	case typev3.RateLimitUnit_HOUR:
		out.Window = 3_600 * second
	case typev3.RateLimitUnit_DAY:
		out.Window = 86_400 * second
	case typev3.RateLimitUnit_MONTH:
		out.Window, out.Calendar = 30*86_400*second, algo.Monthly
	case typev3.RateLimitUnit_YEAR:
		out.Window, out.Calendar = 365*86_400*second, algo.Yearly
	case typev3.RateLimitUnit_UNKNOWN:
		return nil, badField("unit", "must be set")
	default:
		return nil, badField("unit", "%d is no unit", o.unit)
	}
	if !o.hasUnitMultiplier || o.unitMultiplier == 1 {
		return &out, nil
	}
	most := algo.MaxWindow / out.Window
	if n := int64(o.unitMultiplier); n < 1 || n > most {
		return nil, badField("unit_multiplier", "%d is not between 1 and %d, which is at most 400 days", n, most)
	}
	out.Window *= int64(o.unitMultiplier)
	out.Calendar = algo.NoCalendar
	return &out, nil
}
