package limiter

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

// ErrOverride says that a limit that a caller brought cannot be enforced.
var ErrOverride = errors.New("override")

// limit returns the limit that stands in for those of the rule: one with the
// rule's algorithm, name, shadow, failure mode and overdraft, or a fixed window
// where there is no rule. Its burst stands to the rule's as its rate does. If it
// is beyond the rule's MaxOverride, it is that. Known is the configured limit that
// it is counted as.
func (o *Override) limit(domain string, rule *policy.Rule) (limit, known *policy.Limit, err error) {
	limit = &policy.Limit{Domain: domain, Name: "override"}
	limit.Algorithm = algo.FixedWindow
	var stands algo.Limit // the limit that it stands in for
	if rule != nil && len(rule.Limits) > 0 {
		known = rule.Limits[0]
		*limit, stands = *known, known.Limit
	}
	limit.Limit = algo.Limit{Algorithm: limit.Algorithm, Quota: o.Quota, Window: o.Window}
	if limit.Algorithm == algo.FixedWindow {
		limit.Calendar = o.Calendar
	}
	if most := limit.MaxOverride; most > 0 && exceeds(o.Quota, o.Window, most, stands.Window) {
		limit.Quota, limit.Window = most, stands.Window
		limit.Calendar, limit.Zone = stands.Calendar, stands.Zone
	}
	if limit.Algorithm.IsBucket() {
		limit.Burst = burst(&stands, limit.Quota, limit.Window)
	}
	if limit.Charge != policy.ChargeNever {
		limit.Overdraft = limit.MostOverdraft()
	}
	if err := limit.Validate(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrOverride, err)
	}
	if known == nil {
		known = limit
	}
	return limit, known, nil
}

// exceeds reports whether a rate is above another.
func exceeds(quota, window, most, per int64) bool {
	hi, lo := bits.Mul64(uint64(quota), uint64(per))           //nolint:gosec // none is negative
	mostHi, mostLo := bits.Mul64(uint64(most), uint64(window)) //nolint:gosec // as above
	return hi > mostHi || hi == mostHi && lo > mostLo
}

// burst returns the burst of a rate that stands in for the limit.
func burst(stands *algo.Limit, quota, window int64) int64 {
	if stands.Quota == 0 || quota == 0 {
		return quota
	}
	return max(1, scale(scale(stands.Burst, quota, stands.Quota), stands.Window, window))
}

// scale is n*by/of, rounded down, and at most [algo.MaxQuota].
func scale(n, by, of int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(by)) //nolint:gosec // none is negative
	if hi >= uint64(of) {                       //nolint:gosec // as above
		return algo.MaxQuota
	}
	q, _ := bits.Div64(hi, lo, uint64(of)) //nolint:gosec // as above
	return int64(min(q, algo.MaxQuota))
}
