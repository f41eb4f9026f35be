package service

import (
	"math"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// response tells the verdict as Envoy wants to hear it: a status for each
// descriptor, of which Envoy's filter makes the X-RateLimit headers, and the
// headers that it adds to the response, whether allowed or denied.
func (o *RLSOptions) response(x *exchange, now int64) *rls.RateLimitResponse {
	v := &x.verdict
	resp := &rls.RateLimitResponse{
		OverallCode: rls.RateLimitResponse_OK,
		Statuses:    make([]*rls.RateLimitResponse_DescriptorStatus, len(v.Statuses)),
	}
	statuses := make([]rls.RateLimitResponse_DescriptorStatus, len(v.Statuses))
	for i := range v.Statuses {
		fillStatus(&statuses[i], &v.Statuses[i], now)
		resp.Statuses[i] = &statuses[i]
	}
	o.showLimits(statuses, v)
	x.view.see(v, now, o.Headers)
	problem := o.ProblemBody && !v.Allowed
	if !v.Allowed {
		resp.OverallCode = rls.RateLimitResponse_OVER_LIMIT
	}
	resp.ResponseHeadersToAdd = x.view.toAdd(problem)
	if problem {
		resp.RawBody = x.view.problem(v)
	}
	resp.DynamicMetadata = metadata(v)
	return resp
}

// toAdd is the headers for Envoy to add. It adds them to what is there, and
// replaces the content type of its own denial alone.
func (c *clientView) toAdd(problem bool) []*corev3.HeaderValue {
	n := len(c.fields)
	if problem {
		n++
	}
	if n == 0 {
		return nil
	}
	values, out := make([]corev3.HeaderValue, n), make([]*corev3.HeaderValue, n)
	for i := range c.fields {
		values[i].Key, values[i].Value = c.fields[i].lower, c.fields[i].value
	}
	if problem {
		values[n-1].Key, values[n-1].Value = "content-type", "application/problem+json"
	}
	for i := range values {
		out[i] = &values[i]
	}
	return out
}

// fillStatus tells one descriptor, but for its limit.
func fillStatus(out *rls.RateLimitResponse_DescriptorStatus, s *limiter.Status, now int64) {
	out.Code = rls.RateLimitResponse_OK
	if !s.Allowed {
		out.Code = rls.RateLimitResponse_OVER_LIMIT
	}
	if s.Rule != nil && s.Rule.Unlimited && len(s.Results) == 0 {
		out.LimitRemaining = math.MaxUint32
		return
	}
	if r := telling(s); r != nil {
		out.DurationUntilReset = durationpb.New(time.Duration(ceilSeconds(untilReset(r, now))) * time.Second)
		out.LimitRemaining = min(clamp(r.Decision.Remaining), clamp(r.Limit.Quota))
	}
}

// showLimits puts limits to the statuses that Envoy may make its X-RateLimit
// headers of, none if they are ours to send. Envoy shows the client the status
// with the least remaining and, of equals, the first. On a denial that must be
// the one that stands for the request: those that denied nothing show no limit,
// nor do those that would come before it.
func (o *RLSOptions) showLimits(statuses []rls.RateLimitResponse_DescriptorStatus, v *limiter.Verdict) {
	if o.Headers&XRateLimit != 0 {
		return
	}
	stands := standingStatus(v)
	for i := range statuses {
		r := telling(&v.Statuses[i])
		if r == nil || r.Limit.Hidden || v.Statuses[i].Allowed && !v.Allowed {
			continue
		}
		remaining, least := statuses[i].GetLimitRemaining(), statuses[stands].GetLimitRemaining()
		if !v.Allowed && (remaining < least || remaining == least && i < stands) {
			continue
		}
		statuses[i].CurrentLimit = o.currentLimit(r.Limit)
	}
}

// standingStatus returns the index of the status whose limit stands for the
// request, or of the first if there is none to show.
func standingStatus(v *limiter.Verdict) (index int) {
	var most *limiter.Result
	for i := range v.Statuses {
		r := telling(&v.Statuses[i])
		if r == nil || r.Limit.Hidden || v.Statuses[i].Allowed && !v.Allowed {
			continue
		}
		if most == nil || binds(r, most) {
			most, index = r, i
		}
	}
	return index
}

func (o *RLSOptions) currentLimit(l *policy.Limit) *rls.RateLimitResponse_RateLimit {
	out := &rls.RateLimitResponse_RateLimit{RequestsPerUnit: clamp(l.Quota)}
	out.Unit, out.UnitMultiplier = unitOf(l.Window)
	if out.UnitMultiplier != nil && !o.Envoy.knowsUnitMultiplier() {
		out.Unit, out.UnitMultiplier = rls.RateLimitResponse_RateLimit_UNKNOWN, nil
	}
	if l.Named {
		out.Name = l.Name
	}
	return out
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

// longestWait is retryAfter in microseconds. Of the descriptors of quota mode it
// takes one to have room again, of the others all.
func longestWait(v *limiter.Verdict) (wait int64, ok bool) {
	quota, soonest := false, int64(algo.Never)
	for i := range v.Statuses {
		s := &v.Statuses[i]
		own := waitOf(s)
		if ofQuotaMode(s) {
			if !quota || longer(soonest, own) {
				quota, soonest = true, own
			}
		} else if longer(own, wait) {
			wait = own
		}
	}
	if quota && longer(soonest, wait) {
		wait = soonest
	}
	return max(wait, 0), wait > 0
}

// waitOf returns the longest wait of the limits by which the descriptor is over.
func waitOf(s *limiter.Status) (wait int64) {
	for i := range s.Results {
		if r := &s.Results[i]; !s.Allowed && !r.Shadow && !r.Decision.Allowed && longer(r.Decision.RetryAfter, wait) {
			wait = r.Decision.RetryAfter
		}
	}
	return wait
}

func ofQuotaMode(s *limiter.Status) bool {
	return slices.ContainsFunc(s.Results, func(r limiter.Result) bool { return r.QuotaMode })
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
