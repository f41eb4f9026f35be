package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/rlsd/rlsd/client"
)

// Lines have an object for each decision. Durations are whole microseconds. A
// retry-after is absent where there is none, and where no wait helps.
type lines struct {
	*json.Encoder

	descriptors []descriptor
}

func newLines(w io.Writer, descriptors []descriptor) *lines {
	l := &lines{json.NewEncoder(w), descriptors}
	l.SetEscapeHTML(false)
	return l
}

type decisionLine struct {
	Time        string            `json:"time,omitempty"` // absent where the server's clock counts
	Allowed     bool              `json:"allowed"`
	RetryAfter  *int64            `json:"retry_after_us,omitempty"`
	Delay       int64             `json:"delay_us"`
	Descriptors []descriptorValue `json:"descriptors"`
	Headers     map[string]string `json:"headers"`
}

type descriptorValue struct {
	Descriptor string       `json:"descriptor"`
	Allowed    bool         `json:"allowed"`
	Rule       string       `json:"rule"` // empty if none matched
	Limits     []limitValue `json:"limits"`
}

type limitValue struct {
	Domain     string `json:"domain"`
	Limit      string `json:"limit"`
	Algorithm  string `json:"algorithm"`
	Quota      uint64 `json:"quota"`
	Window     int64  `json:"window_us"`
	Burst      uint64 `json:"burst"`
	Allowed    bool   `json:"allowed"`
	Remaining  uint64 `json:"remaining"`
	RetryAfter *int64 `json:"retry_after_us,omitempty"`
	ResetAfter int64  `json:"reset_after_us"`
	Delay      int64  `json:"delay_us"`
	Shadow     bool   `json:"shadow"`
	DecidedBy  string `json:"decided_by"`
}

func (p *lines) flush() error { return nil }

func (p *lines) print(at time.Time, v *client.Verdict) error {
	line := decisionLine{
		Allowed: v.Allowed, RetryAfter: orAbsent(v.RetryAfter), Delay: v.Delay.Microseconds(),
		Descriptors: []descriptorValue{}, Headers: map[string]string{},
	}
	if !at.IsZero() {
		line.Time = at.Format(timeFormat)
	}
	for i, r := range v.Results {
		d := descriptorValue{Descriptor: p.descriptors[i].text, Allowed: r.Allowed, Rule: r.Rule, Limits: []limitValue{}}
		for j := range r.Limits {
			d.Limits = append(d.Limits, limitOf(&r.Limits[j]))
		}
		line.Descriptors = append(line.Descriptors, d)
	}
	for _, h := range v.Headers {
		line.Headers[h.Name] = h.Value
	}
	return p.Encode(line)
}

func limitOf(l *client.Limit) limitValue {
	return limitValue{
		Domain: l.Domain, Limit: l.Name, Algorithm: l.Algorithm,
		Quota: l.Quota, Window: l.Window.Microseconds(), Burst: l.Burst,
		Allowed: l.Allowed, Remaining: l.Remaining, RetryAfter: orAbsent(l.RetryAfter),
		ResetAfter: l.ResetAfter.Microseconds(), Delay: l.Delay.Microseconds(),
		Shadow: l.Shadow, DecidedBy: l.DecidedBy,
	}
}

func orAbsent(d time.Duration) *int64 {
	if d == 0 || d == client.Never {
		return nil
	}
	return new(d.Microseconds())
}
