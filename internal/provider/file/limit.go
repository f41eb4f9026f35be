package file

import (
	"strings"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

// limits reads the limits of a descriptor and what holds for all of them.
func (d *decoder) limits(v *value, n *policy.Node) {
	one, several := v.get("rate_limit"), v.get("rate_limits")
	if one != nil && several != nil {
		d.fault(several, "rate_limits beside rate_limit: put all limits into rate_limits")
	}
	if one != nil {
		d.rateLimit(one, n)
	}
	if several != nil {
		d.rateLimits(several, n)
	}
	none := one == nil && several == nil
	for _, name := range []string{"shadow_mode", "quota_mode", "detailed_metric", "metadata"} {
		mode := v.get(name)
		if unlimited := n.Unlimited && name != "metadata"; mode != nil && (none || unlimited) {
			d.fault(mode, "%s means nothing on a descriptor without a limit of its own: leave it out", name)
		}
	}
	shadow, quota := v.get("shadow_mode"), v.get("quota_mode")
	n.QuotaMode, n.DetailedMetric = d.flag(quota, false), d.flag(v.get("detailed_metric"), false)
	if d.flag(shadow, false) {
		d.onlyShadow(one, several)
		for i := range n.Limits {
			n.Limits[i].Shadow = true
		}
		if n.QuotaMode {
			d.fault(quota, "quota_mode beside shadow_mode: what is in shadow never denies, so leave out one of the two")
		}
	}
	n.Metadata = d.metadata(v.get("metadata"))
}

func (d *decoder) rateLimit(v *value, n *policy.Node) {
	if !d.check(v, &limitSection) {
		return
	}
	if n.Unlimited = d.flag(v.get("unlimited"), false); n.Unlimited {
		for _, f := range v.fields {
			if f.name != "unlimited" && f.name != "name" && f.name != "replaces" {
				d.add(f.at, join(v.path, f.name), "%s means nothing beside unlimited: leave out one of the two", f.name)
			}
		}
		d.replaces(v, n)
		return
	}
	auto := policy.ChargeNever
	if v.get("algorithm") == nil {
		auto = policy.ChargePostPaid
	}
	d.replaces(v, n)
	if l, ok := d.limit(v, auto); ok {
		n.Limits = append(n.Limits, l)
	}
}

func (d *decoder) rateLimits(v *value, n *policy.Node) {
	switch {
	case v.kind == broken:
		return
	case v.kind != list:
		d.fault(v, "want a list of limits, got %s", v)
	case len(v.items) == 0:
		d.fault(v, "the list is empty: give it a limit or leave it out")
	}
	for _, item := range v.items {
		if !d.check(item, &limitSection) {
			continue
		}
		if unlimited := item.get("unlimited"); unlimited != nil {
			d.fault(unlimited, "unlimited has no place in a list: use rate_limit")
			continue
		}
		d.replaces(item, n)
		if l, ok := d.limit(item, policy.ChargeNever); ok {
			n.Limits = append(n.Limits, l)
		}
	}
}

// replaces reads which limits do not count beside this one.
func (d *decoder) replaces(v *value, n *policy.Node) {
	own := d.name(v.get("name"))
	replaces := v.get("replaces")
	if replaces == nil || replaces.kind == broken {
		return
	}
	if replaces.kind != list {
		d.fault(replaces, "want a list such as [{name: per-user}], got %s", replaces)
	}
	for _, item := range replaces.items {
		if !d.check(item, &replacesSection) {
			continue
		}
		field := d.required(item, "name")
		name, ok := d.text(field)
		switch {
		case !ok:
		case name == "":
			d.fault(field, "the name is empty")
		case name == own:
			d.fault(field, "a limit cannot replace itself")
		default:
			n.Replaces = append(n.Replaces, policy.Reference{Name: name, Source: d.source(field.at), Path: field.path})
		}
	}
}

// limit reports false if the limit has a fault.
func (d *decoder) limit(v *value, auto policy.ChargeMode) (policy.Limit, bool) {
	before := len(d.faults)
	l := policy.Limit{
		Name:        d.name(v.get("name")),
		Shadow:      d.flag(v.get("shadow"), false),
		Hidden:      !d.flag(v.get("expose"), true),
		FailureMode: d.failureMode(v.get("failure_mode")),
		Charge:      d.overdraft(v.get("overdraft"), auto),
		MaxOverride: d.maxOverride(v.get("max_override")),
		Source:      d.source(v.at),
	}
	d.enforcePercent(v.get("enforce_percent"), &l)
	l.Algorithm = d.algorithm(v.get("algorithm"))
	l.Quota = d.integer(d.required(v, "requests_per_unit"))
	l.Window, l.Calendar, l.Zone = d.window(d.required(v, "unit"), v.get("time_zone"), l.Algorithm)
	l.Burst = d.burst(v.get("burst"), &l.Limit)
	l.MaxDelay = d.maxDelay(v.get("max_delay"), l.Algorithm)
	if len(d.faults) > before {
		return l, false
	}
	if l.Charge != policy.ChargeNever {
		l.Overdraft = l.MostOverdraft()
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

// overdraft returns when a cost is recorded though it does not fit. Auto is what
// that means for this limit.
func (d *decoder) overdraft(v *value, auto policy.ChargeMode) policy.ChargeMode {
	if v == nil {
		return auto
	}
	if !d.scalar(v, "on, off or auto") || v.text == "auto" {
		return auto
	}
	on, ok := v.flag()
	switch {
	case !ok:
		d.fault(v, "want on, off or auto, got %s", v)
	case on:
		return policy.ChargeAlways
	}
	return policy.ChargeNever
}

// maxOverride returns the most that a caller may ask for instead; 0 for any.
func (d *decoder) maxOverride(v *value) int64 {
	if v == nil {
		return 0
	}
	before := len(d.faults)
	n := d.integer(v)
	if n == 0 && len(d.faults) == before {
		d.fault(v, "max_override 0 would deny all that bring an override: want at least 1")
	}
	return n
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
