package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// other stands in labels for all that the configuration does not name.
const other = "other"

// outcomes are the names of the outcomes in metrics.
var outcomes = [limiter.Outcomes]string{
	limiter.Allowed:      "allowed",
	limiter.Denied:       "denied",
	limiter.ShadowDenied: "shadow_denied",
	limiter.Peeked:       "peek",
	limiter.Failed:       "failed",
}

// bound holds the counters of the limits of one configuration, so that counting
// a decision is a look-up and an addition. It is immutable.
type bound struct {
	byLimit map[*policy.Limit]*tally
	domains map[string]map[string]bool // the names of a domain's limits
}

// A tally holds the counters of one limit, by outcome.
type tally [limiter.Outcomes]prometheus.Counter

// labels returns what to count a limit under that is not in the configuration
// itself. One of the configuration before, which a request that began then
// still holds, counts under its name if that is still there.
func (b *bound) labels(l *policy.Limit) (domain, name string) {
	switch names, ok := b.domains[l.Domain]; {
	case !ok:
		return other, other
	case !names[l.Name]:
		return l.Domain, other
	default:
		return l.Domain, l.Name
	}
}

// Follow makes the limits those that decisions are counted by, and drops the
// counters of limits that are gone. The hash names the configuration.
func (t *Telemetry) Follow(hash string, limits []*policy.Limit) {
	t.following.Lock()
	defer t.following.Unlock()

	b := &bound{
		byLimit: make(map[*policy.Limit]*tally, len(limits)),
		domains: make(map[string]map[string]bool),
	}
	for _, l := range limits {
		b.byLimit[l] = t.bind(l)
		if b.domains[l.Domain] == nil {
			b.domains[l.Domain] = make(map[string]bool)
		}
		b.domains[l.Domain][l.Name] = true
	}
	before := t.bound.Swap(b)
	t.drop(before, b)

	t.limits.Set(float64(len(limits)))
	t.policy.Reset()
	t.policy.WithLabelValues(hash).Set(1)
}

func (t *Telemetry) bind(l *policy.Limit) *tally {
	var c tally
	for o, outcome := range outcomes {
		c[o] = t.decisions.WithLabelValues(l.Domain, l.Name, outcome)
	}
	return &c
}

// drop forgets the counters of what was there before and is not now.
func (t *Telemetry) drop(before, now *bound) {
	for domain, names := range before.domains {
		current, ok := now.domains[domain]
		if !ok {
			t.decisions.DeletePartialMatch(prometheus.Labels{"domain": domain})
			t.values.drop(domain, "")
			continue
		}
		for name := range names {
			if !current[name] && name != other {
				t.decisions.DeletePartialMatch(prometheus.Labels{"domain": domain, "limit": name})
				t.values.drop(domain, name)
			}
		}
	}
}
