package service

import (
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
)

// metadata is what Envoy puts where access logs and other filters find it:
//
//	domain, metadata: as the reference service has them, if rules that admitted
//	  the request have metadata; of a key that several give, the first
//	rlsd:
//	  denied_by: the limit that denied, of several the one of the longest wait
//	  limits: those that are over, those in shadow too: [{descriptor, domain,
//	    limit, algorithm, shadow, remaining, retry_after_ms (absent: never),
//	    reset_after_ms}]
//
// It is nil if there is nothing of that: the usual answer carries none.
func metadata(v *limiter.Verdict) *structpb.Struct {
	fields := ofRules(v)
	if ours := verdicts(v); ours != nil {
		if fields == nil {
			fields = map[string]*structpb.Value{}
		}
		fields["rlsd"] = structpb.NewStructValue(&structpb.Struct{Fields: ours})
	}
	if fields == nil {
		return nil
	}
	return &structpb.Struct{Fields: fields}
}

// ofRules merges the metadata of the rules of descriptors that are not over.
func ofRules(v *limiter.Verdict) map[string]*structpb.Value {
	var merged map[string]*structpb.Value
	domain := ""
	for i := range v.Statuses {
		s := &v.Statuses[i]
		if s.Rule == nil || s.Rule.Metadata == nil || !s.Allowed || len(s.Results) == 0 && !s.Rule.Unlimited {
			continue
		}
		own, err := structpb.NewStruct(s.Rule.Metadata)
		if err != nil {
			continue // a configuration holds nothing that does not fit
		}
		if merged == nil {
			merged, domain = map[string]*structpb.Value{}, s.Rule.Domain
		}
		for key, value := range own.GetFields() {
			if merged[key] == nil {
				merged[key] = value
			}
		}
	}
	if merged == nil {
		return nil
	}
	return map[string]*structpb.Value{
		"domain":   structpb.NewStringValue(domain),
		"metadata": structpb.NewStructValue(&structpb.Struct{Fields: merged}),
	}
}

// verdicts names the limits that are over.
func verdicts(v *limiter.Verdict) map[string]*structpb.Value {
	var over []*structpb.Value
	var denier *limiter.Result
	for i := range v.Statuses {
		for j := range v.Statuses[i].Results {
			r := &v.Statuses[i].Results[j]
			if r.Decision.Allowed {
				continue
			}
			over = append(over, overLimit(i, r))
			denies := !v.Allowed && !r.Shadow && (!r.QuotaMode || !anyQuotaLeft(v))
			if denies && (denier == nil || longer(r.Decision.RetryAfter, denier.Decision.RetryAfter)) {
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
	return ours
}

// anyQuotaLeft reports whether a descriptor of quota mode is within its limits.
func anyQuotaLeft(v *limiter.Verdict) bool {
	return slices.ContainsFunc(v.Statuses, func(s limiter.Status) bool { return s.Allowed && ofQuotaMode(&s) })
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
