package file

import (
	"strings"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

// limits returns the limits of a descriptor, or none and whether it is
// unlimited.
func (d *decoder) limits(v *value) (limits []policy.Limit, unlimited bool) {
	one, several := v.get("rate_limit"), v.get("rate_limits")
	if one != nil && several != nil {
		d.fault(several, "rate_limits beside rate_limit: put all limits into rate_limits")
	}
	if one != nil {
		limits, unlimited = d.rateLimit(one)
	}
	if several != nil {
		limits = d.rateLimits(several)
	}
	if shadow := v.get("shadow_mode"); shadow != nil {
		if unlimited || one == nil && several == nil {
			d.fault(shadow, "shadow_mode means nothing on a descriptor without a limit of its own: leave it out")
		}
		on := d.flag(shadow, false)
		for i := range limits {
			limits[i].Shadow = limits[i].Shadow || on
		}
	}
	return limits, unlimited
}

func (d *decoder) rateLimit(v *value) (limits []policy.Limit, unlimited bool) {
	if !d.check(v, &limitSection) {
		return nil, false
	}
	if d.flag(v.get("unlimited"), false) {
		for _, f := range v.fields {
			if f.name != "unlimited" && f.name != "name" {
				d.add(f.at, join(v.path, f.name), "%s means nothing beside unlimited: leave out one of the two", f.name)
			}
		}
		d.name(v.get("name"))
		return nil, true
	}
	if l, ok := d.limit(v); ok {
		limits = append(limits, l)
	}
	return limits, false
}

func (d *decoder) rateLimits(v *value) []policy.Limit {
	switch {
	case v.kind == broken:
		return nil
	case v.kind != list:
		d.fault(v, "want a list of limits, got %s", v)
	case len(v.items) == 0:
		d.fault(v, "the list is empty: give it a limit or leave it out")
	}
	var limits []policy.Limit
	for _, item := range v.items {
		if !d.check(item, &limitSection) {
			continue
		}
		if unlimited := item.get("unlimited"); unlimited != nil {
			d.fault(unlimited, "unlimited has no place in a list: use rate_limit")
			continue
		}
		if l, ok := d.limit(item); ok {
			limits = append(limits, l)
		}
	}
	return limits
}

// limit reports false if the limit has a fault.
func (d *decoder) limit(v *value) (policy.Limit, bool) {
	before := len(d.faults)
	l := policy.Limit{
		Name:        d.name(v.get("name")),
		Shadow:      d.flag(v.get("shadow"), false),
		Hidden:      !d.flag(v.get("expose"), true),
		FailureMode: d.failureMode(v.get("failure_mode")),
		Source:      d.source(v.at),
	}
	l.Algorithm = d.algorithm(v.get("algorithm"))
	l.Quota = d.integer(d.required(v, "requests_per_unit"))
	l.Window, l.Calendar, l.Zone = d.window(d.required(v, "unit"), v.get("time_zone"), l.Algorithm)
	l.Burst = d.burst(v.get("burst"), &l.Limit)
	l.MaxDelay = d.maxDelay(v.get("max_delay"), l.Algorithm)
	if len(d.faults) > before {
		return l, false
	}
	if err := l.Validate(); err != nil {
		culprit := v
		if burst := v.get("burst"); burst != nil {
			culprit = burst
		}
		for reason := range strings.Lines(err.Error()) {
			d.fault(culprit, "%s", strings.TrimSpace(reason))
		}
		return l, false
	}
	return l, true
}

func (d *decoder) algorithm(v *value) algo.Algorithm {
	if v == nil {
		return algo.FixedWindow
	}
	name, ok := d.text(v)
	if !ok {
		return 0
	}
	var known []string
	for _, a := range algo.All() {
		if a.String() == name {
			return a
		}
		known = append(known, a.String())
	}
	d.fault(v, "unknown algorithm %s", alternatives(name, known))
	return 0
}

// burst returns the burst of a limit that is otherwise read.
func (d *decoder) burst(v *value, l *algo.Limit) int64 {
	switch {
	case v == nil && l.Algorithm.IsBucket():
		return l.Quota
	case v == nil || l.Algorithm == 0:
		return 0
	case !l.Algorithm.IsBucket():
		d.fault(v, "%s has no burst: leave it out or choose another algorithm, such as %s", l.Algorithm, algo.TokenBucket)
		return 0
	default:
		return d.integer(v)
	}
}

// maxDelay returns, in microseconds, how long a request may be held; 0 is as
// long as it takes.
func (d *decoder) maxDelay(v *value, a algo.Algorithm) int64 {
	text, ok := d.text(v)
	if !ok {
		return 0
	}
	delay, err := time.ParseDuration(text)
	switch {
	case a != algo.LeakyBucket && a != 0:
		d.fault(v, "%s has no max_delay: leave it out or choose %s", a, algo.LeakyBucket)
	case err != nil:
		d.fault(v, "want a duration such as 500ms or 5s, got %s", v)
	case delay < time.Microsecond || delay%time.Microsecond != 0:
		d.fault(v, "%s is not a whole number of microseconds, at least 1: to deny rather than to hold, choose another algorithm", text)
	default:
		return delay.Microseconds()
	}
	return 0
}

func (d *decoder) name(v *value) string {
	name, ok := d.text(v)
	if !ok {
		return ""
	}
	if err := policy.CheckName(name); err != nil {
		d.fault(v, "%v", err)
	}
	return name
}

func (d *decoder) failureMode(v *value) policy.FailureMode {
	name, ok := d.text(v)
	if !ok {
		return policy.FailError
	}
	mode, err := policy.ParseFailureMode(name)
	if err != nil {
		d.fault(v, "%v", err)
	}
	return mode
}
