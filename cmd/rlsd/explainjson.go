package main

import (
	"context"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// An explainPage is what /explain shows. Durations are whole microseconds. A
// retry-after is absent where there is none, where no wait helps, and where a
// cost is recorded though it is denied, after which it takes longer.
type explainPage struct {
	Domain      string           `json:"domain"`
	Known       bool             `json:"known"` // whether the domain has rules
	NearDomains []string         `json:"near_domains,omitempty"`
	MoreDomains int              `json:"more_domains,omitempty"`
	Cost        uint64           `json:"cost"`
	Answer      string           `json:"answer"` // allowed, denied, or unknown without the store
	RetryAfter  *int64           `json:"retry_after_us,omitempty"`
	Never       bool             `json:"never,omitempty"` // no wait helps
	Store       string           `json:"store"`           // what was asked; none if nothing was
	StoreError  string           `json:"store_error,omitempty"`
	Descriptors []explainedValue `json:"descriptors"`
}

type explainedValue struct {
	Descriptor string       `json:"descriptor"`
	Outcome    string       `json:"outcome"`       // limited, unlimited, exempt, or no rule
	Why        string       `json:"why,omitempty"` // there is no rule: see whys
	Rule       string       `json:"rule"`
	Source     string       `json:"source,omitempty"` // file:line
	Levels     []levelValue `json:"levels"`
	NearKeys   []string     `json:"near_keys,omitempty"` // where the way ends
	MoreKeys   int          `json:"more_keys,omitempty"`
	Key        string       `json:"key,omitempty"` // of the bucket
	QuotaMode  bool         `json:"quota_mode,omitempty"`
	Replaces   []string     `json:"replaces,omitempty"`
	Limits     []stateValue `json:"limits"`
}

type levelValue struct {
	Key        string         `json:"key"`
	Value      string         `json:"value"`
	Found      *siblingValue  `json:"found"` // null if the way ends here
	PassedOver []siblingValue `json:"passed_over,omitempty"`
	MorePassed int            `json:"more_passed_over,omitempty"`
}

type siblingValue struct {
	By      string `json:"by"` // exact, network, wildcard, expression or any value
	Text    string `json:"text,omitempty"`
	Source  string `json:"source,omitempty"`
	Covers  bool   `json:"covers"`
	Instead string `json:"instead,omitempty"` // the rule that it would have led to, passed over though it covers the value
}

type stateValue struct {
	limitLine

	Replaced   bool   `json:"replaced,omitempty"` // by another rule of the request: it has no say
	Known      bool   `json:"known"`              // whether the store told the state, or it needs none
	Remaining  int64  `json:"remaining"`
	Capacity   int64  `json:"capacity"`
	Debt       int64  `json:"debt"`
	ResetAfter int64  `json:"reset_after_us"`
	Allowed    bool   `json:"allowed"` // the cost
	RetryAfter *int64 `json:"retry_after_us,omitempty"`
	Never      bool   `json:"never,omitempty"`   // no wait helps
	Charged    bool   `json:"charged,omitempty"` // recorded though denied
}

var whys = []string{
	policy.Matched: "", policy.NoEntries: "no entries", policy.UnknownKey: "unknown key",
	policy.UnknownValue: "unknown value", policy.TooDeep: "too deep", policy.TooShallow: "too shallow",
}

// explainBy asks the limiter about descriptors that checkDescriptors has let pass.
func explainBy(ctx context.Context, l *limiter.Limiter, now time.Time, domain string, cost uint64, descriptors []descriptor) *explainPage {
	q := limiter.Question{Domain: domain, Cost: int64(min(cost, algo.MaxCost))}
	for _, d := range descriptors {
		var entries policy.Descriptor
		for _, e := range d.entries {
			entries = append(entries, policy.Entry{Key: e.Key, Value: e.Value})
		}
		q.Descriptors = append(q.Descriptors, entries)
	}
	x := l.Explain(ctx, now, q)
	page := &explainPage{
		Domain: domain, Known: x.Known, NearDomains: x.Domains.Near, MoreDomains: x.Domains.More,
		Cost: cost, Answer: "allowed", Store: x.Store, Descriptors: []explainedValue{},
	}
	switch {
	case !x.Allowed:
		page.Answer, page.RetryAfter, page.Never = "denied", waitOf(x.RetryAfter), x.RetryAfter == algo.Never
	case x.Unknown:
		page.Answer = "unknown"
	}
	if x.Err != nil {
		page.StoreError = x.Err.Error()
	}
	for i := range x.Descriptors {
		page.Descriptors = append(page.Descriptors, explainedOf(descriptors[i].text, &x.Descriptors[i]))
	}
	return page
}

func explainedOf(text string, e *limiter.Explained) explainedValue {
	v := explainedValue{
		Descriptor: text, Outcome: "no rule", Why: whys[e.Why], Key: e.Key,
		NearKeys: e.Keys.Near, MoreKeys: e.Keys.More, Levels: []levelValue{}, Limits: []stateValue{},
	}
	for _, l := range e.Levels {
		v.Levels = append(v.Levels, levelOf(l))
	}
	if r := e.Rule; r != nil {
		v.Rule, v.Source, v.QuotaMode, v.Replaces = r.Path, place(r.Source), r.QuotaMode, r.Replaces
		switch {
		case r.Unlimited:
			v.Outcome = "unlimited"
		case len(r.Limits) == 0:
			v.Outcome = "exempt"
		default:
			v.Outcome = "limited"
		}
	}
	for i := range e.Limits {
		v.Limits = append(v.Limits, stateOf(&e.Limits[i]))
	}
	return v
}

func levelOf(l policy.Level) levelValue {
	v := levelValue{Key: l.Entry.Key, Value: l.Entry.Value, MorePassed: l.More}
	if l.Found.By != policy.None {
		v.Found = new(siblingOf(l.Found))
	}
	for _, s := range l.Passed {
		v.PassedOver = append(v.PassedOver, siblingOf(s))
	}
	return v
}

func siblingOf(s policy.Sibling) siblingValue {
	v := siblingValue{By: s.By.String(), Text: s.Text, Source: place(s.Source), Covers: s.Covers}
	if s.Instead != nil {
		v.Instead = s.Instead.Path
	}
	return v
}

// place is file:line.
func place(s policy.Source) string { return policy.Source{File: s.File, Line: s.Line}.String() }

func stateOf(s *limiter.State) stateValue {
	silent := s.Replaced || s.Mode == limiter.Off
	v := stateValue{
		limitLine: describe(s.Limit), Replaced: s.Replaced, Known: s.Err == nil && !silent,
		Remaining: s.Remaining, Capacity: s.Quota, Debt: s.Debt, ResetAfter: s.ResetAfter,
		Allowed: s.Allowed, RetryAfter: waitOf(s.RetryAfter), Never: s.RetryAfter == algo.Never, Charged: s.Charged,
	}
	v.InForce = s.Mode.String()
	if s.Algorithm.IsBucket() {
		v.Capacity = s.Burst
	}
	return v
}

func waitOf(us int64) *int64 {
	if us <= 0 {
		return nil
	}
	return &us
}
