package file

import "github.com/rlsd/rlsd/internal/policy"

// enforcePercent puts a limit into shadow for all keys but a share of them.
func (d *decoder) enforcePercent(v *value, l *policy.Limit) {
	before := len(d.faults)
	enforced := d.number(v, 100)
	switch {
	case v == nil || len(d.faults) > before:
	case l.Shadow:
		d.fault(v, "enforce_percent enforces for a share of the keys, shadow: true for none: drop one of the two")
	case enforced == 0:
		l.Shadow = true
	default:
		l.ShadowPercent = int(100 - enforced)
	}
}

// onlyShadow reports the limits of a descriptor in shadow that say for how many
// keys they are to be enforced.
func (d *decoder) onlyShadow(one, several *value) {
	limits := []*value{one}
	if several != nil {
		limits = append(limits, several.items...)
	}
	for _, l := range limits {
		if l == nil {
			continue
		}
		if percent := l.get("enforce_percent"); percent != nil {
			d.fault(percent, "enforce_percent enforces for a share of the keys, shadow_mode: true for none: drop one of the two")
		}
	}
}
