package telemetry

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// maxValues is how many values of a limit have counters of their own.
const maxValues = 100

// values holds the counters of limits that tell values apart.
type values struct {
	decisions *prometheus.CounterVec

	mu      sync.RWMutex
	byLimit map[limitName]map[string]*tally
}

type limitName struct{ domain, name string }

// tally returns the counters of a value, or those of all values that came too
// late for counters of their own.
func (v *values) tally(domain, name, value string) *tally {
	l := limitName{domain, name}
	v.mu.RLock()
	known := v.byLimit[l]
	found := known[value]
	if found == nil && len(known) > maxValues {
		found = known[other]
	}
	v.mu.RUnlock()
	if found != nil {
		return found
	}
	return v.add(l, value)
}

func (v *values) add(l limitName, value string) *tally {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.byLimit[l]
	if known == nil {
		if v.byLimit == nil {
			v.byLimit = map[limitName]map[string]*tally{}
		}
		known = map[string]*tally{other: v.bind(l, other)}
		v.byLimit[l] = known
	}
	switch found := known[value]; {
	case found != nil:
		return found
	case len(known) > maxValues:
		return known[other]
	}
	known[value] = v.bind(l, value)
	return known[value]
}

func (v *values) bind(l limitName, value string) *tally {
	var t tally
	for o, outcome := range outcomes {
		t[o] = v.decisions.WithLabelValues(l.domain, l.name, value, outcome)
	}
	return &t
}

// drop forgets the counters of a limit, or of all of a domain if name is empty.
func (v *values) drop(domain, name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.byLimit, func(l limitName, _ map[string]*tally) bool {
		return l.domain == domain && (name == "" || l.name == name)
	})
	labels := prometheus.Labels{"domain": domain}
	if name != "" {
		labels["limit"] = name
	}
	v.decisions.DeletePartialMatch(labels)
}
