package limiter

import (
	"errors"
	"fmt"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

// ErrOverride says that a limit that a caller brought cannot be enforced.
var ErrOverride = errors.New("override")

// limit returns the limit that stands in for those of the rule: one with the
// rule's algorithm, name and shadow, or a fixed window where there is no rule.
// Known is the configured limit that it is counted as, or nil.
func (o *Override) limit(domain string, rule *policy.Rule) (limit, known *policy.Limit, err error) {
	limit = &policy.Limit{Domain: domain, Name: "override"}
	limit.Algorithm = algo.FixedWindow
	if rule != nil && len(rule.Limits) > 0 {
		known = rule.Limits[0]
		*limit = *known
	}
	limit.Limit = algo.Limit{Algorithm: limit.Algorithm, Quota: o.Quota, Window: o.Window}
	if limit.Algorithm.IsBucket() {
		limit.Burst = o.Quota
	} else if limit.Algorithm == algo.FixedWindow {
		limit.Calendar = o.Calendar
	}
	if err := limit.Validate(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrOverride, err)
	}
	if known == nil {
		known = limit
	}
	return limit, known, nil
}
