package service

import (
	"math"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
)

// rlsResponse tells the verdict as Envoy wants to hear it: a status for each
// descriptor, of which Envoy's filter makes the X-RateLimit headers.
func rlsResponse(v *limiter.Verdict, now int64) *rls.RateLimitResponse {
	resp := &rls.RateLimitResponse{
		OverallCode: rls.RateLimitResponse_OK,
		Statuses:    make([]*rls.RateLimitResponse_DescriptorStatus, len(v.Statuses)),
	}
	statuses := make([]rls.RateLimitResponse_DescriptorStatus, len(v.Statuses))
	for i := range v.Statuses {
		fillStatus(&statuses[i], &v.Statuses[i], v.Allowed, now)
		resp.Statuses[i] = &statuses[i]
	}
	if !v.Allowed {
		resp.OverallCode = rls.RateLimitResponse_OVER_LIMIT
		if seconds, ok := retryAfter(v); ok {
			resp.ResponseHeadersToAdd = []*corev3.HeaderValue{{Key: "retry-after", Value: strconv.FormatInt(seconds, 10)}}
		}
	}
	resp.DynamicMetadata = metadata(v)
	return resp
}

// fillStatus tells one descriptor. Envoy shows the client the status with the
// least remaining and, of equals, the first: so on a denial only those that
// denied say what they have.
func fillStatus(out *rls.RateLimitResponse_DescriptorStatus, s *limiter.Status, allAllowed bool, now int64) {
	out.Code = rls.RateLimitResponse_OK
	if !s.Allowed {
		out.Code = rls.RateLimitResponse_OVER_LIMIT
	}
	if s.Rule != nil && s.Rule.Unlimited && len(s.Results) == 0 {
		out.LimitRemaining = math.MaxUint32
		return
	}
	r := telling(s)
	if r == nil {
		return
	}
	out.DurationUntilReset = durationpb.New(time.Duration(ceilSeconds(untilReset(r, now))) * time.Second)
	perUnit := clamp(r.Limit.Quota)
	out.LimitRemaining = min(clamp(r.Decision.Remaining), perUnit)
	if r.Limit.Hidden || s.Allowed && !allAllowed {
		return
	}
	out.CurrentLimit = &rls.RateLimitResponse_RateLimit{RequestsPerUnit: perUnit}
	out.CurrentLimit.Unit, out.CurrentLimit.UnitMultiplier = unitOf(r.Limit.Window)
	if r.Limit.Named {
		out.CurrentLimit.Name = r.Limit.Name
	}
}

// untilReset is the time after which a client should look again, in
// microseconds: until the limit is as if untouched or, if it denied, until it
// admits the request; of one that never will, until the end of the window.
func untilReset(r *limiter.Result, now int64) int64 {
	switch {
	case r.Decision.Allowed:
		return r.Decision.ResetAfter
	case r.Decision.RetryAfter == algo.Never:
		_, end := r.Limit.WindowAt(now)
		return end - now
	default:
		return r.Decision.RetryAfter
	}
}

// telling returns the one result that stands for a descriptor, nil if none may:
// if the descriptor is over, the one of the longest wait among those over, else
// the one of the least remaining and, of equals, of the longest reset.
func telling(s *limiter.Status) *limiter.Result {
	var told *limiter.Result
	for i := range s.Results {
		r := &s.Results[i]
		if r.Shadow || r.Decision.Allowed != s.Allowed {
			continue
		}
		if told == nil || tellsMore(r, told, s.Allowed) {
			told = r
		}
	}
	return told
}

func tellsMore(a, b *limiter.Result, allowed bool) bool {
	hidden := a.Limit.Hidden
	switch {
	case !allowed:
		return longer(a.Decision.RetryAfter, b.Decision.RetryAfter)
	case hidden != b.Limit.Hidden:
		return !hidden
	case a.Decision.Remaining != b.Decision.Remaining:
		return a.Decision.Remaining < b.Decision.Remaining
	default:
		return a.Decision.ResetAfter > b.Decision.ResetAfter
	}
}

// longer compares waits of which Never is the longest.
func longer(a, b int64) bool {
	if a == algo.Never || b == algo.Never {
		return b != algo.Never
	}
	return a > b
}

// retryAfter returns the longest wait of the limits that denied, in seconds. No
// wait helps against a limit that never admits the request.
func retryAfter(v *limiter.Verdict) (seconds int64, ok bool) {
	wait, ok := longestWait(v)
	return max(1, ceilSeconds(wait)), ok
}

// longestWait is retryAfter in microseconds.
func longestWait(v *limiter.Verdict) (wait int64, ok bool) {
	for i := range v.Statuses {
		s := &v.Statuses[i]
		if s.Allowed {
			continue
		}
		for j := range s.Results {
			r := &s.Results[j]
			if r.Shadow || r.Decision.Allowed {
				continue
			}
			if r.Decision.RetryAfter == algo.Never {
				return 0, false
			}
			wait = max(wait, r.Decision.RetryAfter)
		}
	}
	return wait, wait > 0
}

// longestDelay returns for how long the limits that are enforced want an
// allowed request held, in microseconds.
func longestDelay(v *limiter.Verdict) (delay int64) {
	for i := range v.Statuses {
		for j := range v.Statuses[i].Results {
			if r := &v.Statuses[i].Results[j]; !r.Shadow {
				delay = max(delay, r.Decision.Delay)
			}
		}
	}
	return delay
}

func ceilSeconds(micros int64) int64 { return (micros + second - 1) / second }

func clamp(n int64) uint32 { return uint32(min(n, math.MaxUint32)) } //nolint:gosec // bounded
