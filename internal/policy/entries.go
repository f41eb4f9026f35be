package policy

import "strings"

// Shared returns the steps of the rule's path whose values share one bucket.
func (r *Rule) Shared() []string {
	return r.steps(func(i int) bool { return r.entries != nil && r.entries[i].shared != "" })
}

// Measured returns the steps of the rule's path whose values metrics tell apart.
func (r *Rule) Measured() []string {
	return r.steps(func(i int) bool { return r.metric != nil && r.metric[i] })
}

func (r *Rule) steps(is func(i int) bool) []string {
	var steps []string
	for i, step := range strings.Split(r.Path, "/") {
		if is(i) {
			steps = append(steps, step)
		}
	}
	return steps
}
