package limiter

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

// ErrOverride says that a limit that a caller brought cannot be enforced.
var ErrOverride = errors.New("override")

// limit returns the limit that stands in for those of the rule: one with the
// rule's algorithm, name, shadow, failure mode and overdraft, or a fixed window
// where there is no rule. Of several limits of a rule it has these from the first
// that is enforced, and is within the MaxOverride of each. Its burst stands to
// the rule's as its rate does. Known is the configured limit that it is counted
// as.
func (o *Override) limit(domain string, rule *policy.Rule) (limit, known *policy.Limit, err error) {
	limit = &policy.Limit{Domain: domain, Name: "override"}
	limit.Algorithm = algo.FixedWindow
	var stands algo.Limit // the limit that it stands in for
	wanted := algo.Limit{Quota: o.Quota, Window: o.Window, Calendar: o.Calendar}
	if rule != nil && len(rule.Limits) > 0 {
		known = rule.Limits[max(0, slices.IndexFunc(rule.Limits, func(l *policy.Limit) bool { return !l.Shadow }))]
		*limit, stands = *known, known.Limit
		wanted = within(rule, wanted)
	}
	wanted.Algorithm = limit.Algorithm
	if wanted.Algorithm != algo.FixedWindow {
		wanted.Calendar, wanted.Zone = algo.NoCalendar, nil
	}
	limit.Limit = wanted
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

// within returns the quota and window within the MaxOverride of all limits of the
// rule.
func within(rule *policy.Rule, wanted algo.Limit) algo.Limit {
	for range 2 { // what keeps to one may be beyond one before
		for _, l := range rule.Limits {
			if l.MaxOverride > 0 {
				wanted = capped(wanted, l)
			}
		}
	}
	return wanted
}

// capped returns what grants at most l.MaxOverride units in any of l's windows, and
// no more in the long run than was wanted.
func capped(wanted algo.Limit, l *policy.Limit) algo.Limit {
	most := algo.Limit{Quota: l.MaxOverride, Window: l.Window, Calendar: l.Calendar, Zone: l.Zone}
	switch {
	case exceeds(wanted.Quota, wanted.Window, most.Quota, most.Window):
		return most
	case wanted.Quota <= most.Quota:
		return wanted
	}
	// Too much at once: the same rate by smaller windows.
	if quota := scale(wanted.Quota, most.Window, wanted.Window); quota > 0 {
		most.Quota = quota
		return most
	}
	wanted.Quota = most.Quota
	return wanted
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
