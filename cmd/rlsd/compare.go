package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlsd/rlsd/internal/policy"
)

// compare returns what differs between two configurations, by domain and path.
func compare(before, after *policy.Snapshot) []change {
	domains := slices.Concat(before.Domains(), after.Domains())
	slices.Sort(domains)
	var changes []change
	for _, domain := range slices.Compact(domains) {
		changes = append(changes, compareDomain(domain, before.Policy(domain), after.Policy(domain))...)
	}
	return changes
}

func compareDomain(domain string, before, after *policy.Policy) []change {
	var c comparison
	switch {
	case before == nil:
		c.add("", "", added, nil)
	case after == nil:
		c.add("", "", removed, nil)
	}
	old, now := rulesByPath(before), rulesByPath(after)
	paths := slices.Concat(slices.Collect(maps.Keys(old)), slices.Collect(maps.Keys(now)))
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		c.rule(path, old[path], now[path])
	}
	if len(c.changes) == 0 && before.Hash() != after.Hash() && !reordered(old, now) {
		c.add("", "", changed, []fieldChange{{"hash", before.Hash(), after.Hash()}})
	}
	for i := range c.changes {
		c.changes[i].Domain = domain
	}
	return c.changes
}

// reordered reports whether a rule replaces the same limits in another order,
// which changes the hash and nothing else.
func reordered(before, after map[string]*policy.Rule) bool {
	for path, r := range before {
		if other := after[path]; other != nil && !slices.Equal(r.Replaces, other.Replaces) {
			return slices.Equal(sortedNames(r.Replaces), sortedNames(other.Replaces))
		}
	}
	return false
}

func rulesByPath(p *policy.Policy) map[string]*policy.Rule {
	rules := map[string]*policy.Rule{}
	if p != nil {
		for _, r := range p.Rules() {
			rules[r.Path] = r
		}
	}
	return rules
}

// A comparison gathers the changes of a domain.
type comparison struct{ changes []change }

func (c *comparison) add(rule, limit, what string, fields []fieldChange) {
	c.changes = append(c.changes, change{Rule: rule, Limit: limit, Change: what, Fields: fields})
}

// rule compares two rules with the same path, of which one may be nil.
func (c *comparison) rule(path string, before, after *policy.Rule) {
	fields := compareFields(ruleFields(before), ruleFields(after))
	onlyLimits := len(fields) == 1 && (fields[0].From == limited || fields[0].To == limited)
	switch {
	case len(fields) == 0:
	case before == nil && !onlyLimits:
		c.add(path, "", added, fields)
	case after == nil && !onlyLimits:
		c.add(path, "", removed, fields)
	case before != nil && after != nil:
		c.add(path, "", changed, fields)
	}
	for _, p := range pairLimits(limitsOf(before), limitsOf(after)) {
		c.limit(path, p.before, p.after)
	}
}

func limitsOf(r *policy.Rule) []*policy.Limit {
	if r == nil {
		return nil
	}
	return r.Limits
}

func (c *comparison) limit(path string, before, after *policy.Limit) {
	fields := compareFields(limitFields(before), limitFields(after))
	switch {
	case before == nil:
		c.add(path, after.Name, added, fields[1:]) // without the name
	case after == nil:
		c.add(path, before.Name, removed, fields[1:])
	case len(fields) > 0:
		c.add(path, after.Name, changed, fields)
	}
}

// A limitPair is a limit before and after; nil where there is none.
type limitPair struct{ before, after *policy.Limit }

// pairLimits finds for each limit of a rule what became of it: the one that
// keeps its bucket, else the one that keeps its name.
func pairLimits(before, after []*policy.Limit) []limitPair {
	var pairs []limitPair
	before, after = slices.Clone(before), slices.Clone(after)
	for _, alike := range []func(l, m *policy.Limit) bool{
		func(l, m *policy.Limit) bool { return l.ID() == m.ID() },
		func(l, m *policy.Limit) bool { return l.Name == m.Name },
	} {
		before = slices.DeleteFunc(before, func(l *policy.Limit) bool {
			i := slices.IndexFunc(after, func(m *policy.Limit) bool { return alike(l, m) })
			if i >= 0 {
				pairs = append(pairs, limitPair{l, after[i]})
				after = slices.Delete(after, i, i+1)
			}
			return i >= 0
		})
	}
	for _, l := range before {
		pairs = append(pairs, limitPair{l, nil})
	}
	for _, l := range after {
		pairs = append(pairs, limitPair{nil, l})
	}
	return pairs
}

// limited is the kind of a rule with limits.
const limited = "limited"

// ruleFields says what the rule is, beside its limits.
func ruleFields(r *policy.Rule) []fieldChange {
	if r == nil {
		return nil
	}
	kind := limited
	switch {
	case r.Unlimited:
		kind = "unlimited"
	case len(r.Limits) == 0:
		kind = "exempt"
	}
	metadata := ""
	if r.Metadata != nil {
		text, _ := json.Marshal(r.Metadata) // it is of JSON's types
		metadata = string(text)
	}
	return []fieldChange{
		{Field: "kind", From: kind},
		{Field: "quota_mode", From: flagged(r.QuotaMode)},
		{Field: "replaces", From: inAnyOrder(r.Replaces)},
		{Field: "metadata", From: metadata},
		{Field: "share_threshold", From: strings.Join(r.Shared(), "/")},
		{Field: "value_to_metric", From: strings.Join(r.Measured(), "/")},
	}
}

// inAnyOrder lists names, of which order and number say nothing, so that other
// names give another text.
func inAnyOrder(names []string) string {
	if len(names) == 0 {
		return ""
	}
	text, _ := json.Marshal(sortedNames(names)) // which strings cannot fail
	return string(text)
}

func sortedNames(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// limitFields says what the limit is, in the words of rule files. Overdraft as a
// number follows from the quota.
func limitFields(l *policy.Limit) []fieldChange {
	if l == nil {
		return nil
	}
	name := l.Name
	if !l.Named {
		name += " (by path)"
	}
	zone, delay, failure, overdraft, percent := "", "", "", "", ""
	if l.ShadowPercent > 0 {
		percent = strconv.Itoa(100 - l.ShadowPercent)
	}
	if l.Zone != nil {
		zone = l.Zone.String()
	}
	if l.MaxDelay > 0 {
		delay = brief(time.Duration(l.MaxDelay) * time.Microsecond)
	}
	if l.FailureMode != policy.FailError {
		failure = l.FailureMode.String()
	}
	if l.Charge != policy.ChargeNever {
		overdraft = l.Charge.String()
	}
	return []fieldChange{
		{Field: "name", From: name},
		{Field: "algorithm", From: l.Algorithm.String()},
		{Field: "requests_per_unit", From: strconv.FormatInt(l.Quota, 10)},
		{Field: "unit", From: window(l)},
		{Field: "time_zone", From: zone},
		{Field: "burst", From: unlessZero(l.Burst)},
		{Field: "max_delay", From: delay},
		{Field: "shadow", From: flagged(l.Shadow)},
		{Field: "enforce_percent", From: percent},
		{Field: "expose", From: map[bool]string{true: "false"}[l.Hidden]},
		{Field: "failure_mode", From: failure},
		{Field: "overdraft", From: overdraft},
		{Field: "max_override", From: unlessZero(l.MaxOverride)},
	}
}

func flagged(on bool) string {
	if on {
		return "true"
	}
	return ""
}

func unlessZero(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// compareFields returns the fields that differ between two lists of the same
// ones, of which one may be nil.
func compareFields(before, after []fieldChange) []fieldChange {
	var differ []fieldChange
	for i := range max(len(before), len(after)) {
		var f fieldChange
		if after != nil {
			f.Field, f.To = after[i].Field, after[i].From
		}
		if before != nil {
			f.Field, f.From = before[i].Field, before[i].From
		}
		if f.From != f.To {
			differ = append(differ, f)
		}
	}
	return differ
}
