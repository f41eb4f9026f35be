package service

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
)

// metadata names the limits that are over, those in shadow too, for an
// operator's access log:
//
//	rlsd:
//	  denied_by: the limit that denied, of several the one of the longest wait
//	  limits: [{descriptor, domain, limit, algorithm, shadow, remaining,
//	            retry_after_ms (absent: never), reset_after_ms}]
//
// It is nil if no limit is over: the usual answer carries none.
func metadata(v *limiter.Verdict) *structpb.Struct {
	var over []*structpb.Value
	var denier *limiter.Result
	for i := range v.Statuses {
		for j := range v.Statuses[i].Results {
			r := &v.Statuses[i].Results[j]
			if r.Decision.Allowed {
				continue
			}
			over = append(over, overLimit(i, r))
			if !v.Allowed && !r.Shadow && (denier == nil || longer(r.Decision.RetryAfter, denier.Decision.RetryAfter)) {
				denier = r
			}
		}
	}
	if over == nil {
		return nil
	}
	ours := map[string]*structpb.Value{"limits": structpb.NewListValue(&structpb.ListValue{Values: over})}
	if denier != nil {
		ours["denied_by"] = structpb.NewStringValue(denier.Limit.Name)
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"rlsd": structpb.NewStructValue(&structpb.Struct{Fields: ours}),
	}}
}

func overLimit(descriptor int, r *limiter.Result) *structpb.Value {
	number := func(n int64) *structpb.Value { return structpb.NewNumberValue(float64(n)) }
	fields := map[string]*structpb.Value{
		"descriptor":     number(int64(descriptor)),
		"domain":         structpb.NewStringValue(r.Limit.Domain),
		"limit":          structpb.NewStringValue(r.Limit.Name),
		"algorithm":      structpb.NewStringValue(r.Limit.Algorithm.String()),
		"shadow":         structpb.NewBoolValue(r.Shadow),
		"remaining":      number(r.Decision.Remaining),
		"reset_after_ms": number(ceilMillis(r.Decision.ResetAfter)),
	}
	if r.Decision.RetryAfter != algo.Never {
		fields["retry_after_ms"] = number(ceilMillis(r.Decision.RetryAfter))
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}

func ceilMillis(micros int64) int64 { return (micros + 999) / 1000 }
