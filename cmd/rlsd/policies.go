package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
)

// A policiesPage is what /policies shows.
type policiesPage struct {
	Version   int          `json:"version"` // counts the changes of the rules
	Hash      string       `json:"hash"`
	Changed   time.Time    `json:"changed"`
	Files     []string     `json:"files"`
	Stale     []staleLine  `json:"stale"`
	LastError *lastError   `json:"last_error,omitempty"`
	Switches  []switchLine `json:"switches"`
	Limits    []limitLine  `json:"limits"`
}

// A staleLine is a domain that stands on its last good rules.
type staleLine struct {
	Domain string    `json:"domain"`
	Since  time.Time `json:"since"`
}

// A lastError is the faults that there were last.
type lastError struct {
	Time   time.Time `json:"time"`
	Mended bool      `json:"mended"`
	Faults []fault   `json:"faults"`
}

type limitLine struct {
	Domain    string `json:"domain"`
	Limit     string `json:"limit"`
	Algorithm string `json:"algorithm"`
	Quota     int64  `json:"quota"`
	Window    string `json:"window"` // day, week, month, year, or a duration such as 1m30s
	TimeZone  string `json:"time_zone,omitempty"`
	Burst     int64  `json:"burst,omitempty"`
	MaxDelay  string `json:"max_delay,omitempty"`
	Overdraft string `json:"overdraft"`
	Most      int64  `json:"max_override,omitempty"`
	Shadow    bool   `json:"shadow"`          // by the rules
	Percent   int    `json:"enforce_percent"` // by the rules, of keys
	InForce   string `json:"in_force"`        // by the rules and the switches: enforced, shadow or off
	File      string `json:"file"`
	Line      int    `json:"line"`
}

// policiesHandler shows the rules in force.
func policiesHandler(current func() *file.Status, switches *limiter.Switches) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respondJSON(w, http.StatusOK, newPoliciesPage(current(), switches))
	})
}

func newPoliciesPage(s *file.Status, switches *limiter.Switches) *policiesPage {
	page := &policiesPage{
		Version: s.Version, Hash: s.Snapshot.Hash(), Changed: s.Changed.UTC(),
		Files: append([]string{}, s.Files...), Stale: []staleLine{}, Switches: switchLines(switches), Limits: []limitLine{},
	}
	for _, stale := range s.Stale {
		page.Stale = append(page.Stale, staleLine{stale.Domain, stale.Since.UTC()})
	}
	if len(s.LastFaults) > 0 {
		page.LastError = &lastError{s.LastFailed.UTC(), len(s.Faults) == 0, listFaults(s.LastFaults)}
	}
	for _, l := range s.Snapshot.Limits() {
		line := describe(l)
		line.InForce = switches.Mode(l).String()
		page.Limits = append(page.Limits, line)
	}
	return page
}

func describe(l *policy.Limit) limitLine {
	line := limitLine{
		Domain:    l.Domain,
		Limit:     l.Name,
		Algorithm: l.Algorithm.String(),
		Quota:     l.Quota,
		Window:    window(l),
		Burst:     l.Burst,
		Overdraft: l.Charge.String(),
		Most:      l.MaxOverride,
		Shadow:    l.Shadow,
		Percent:   100 - l.ShadowPercent,
		File:      l.Source.File,
		Line:      l.Source.Line,
	}
	if l.Shadow {
		line.Percent = 0
	}
	if l.Zone != nil {
		line.TimeZone = l.Zone.String()
	}
	if l.MaxDelay > 0 {
		line.MaxDelay = brief(time.Duration(l.MaxDelay) * time.Microsecond)
	}
	return line
}

func window(l *policy.Limit) string {
	switch l.Calendar {
	case algo.Daily:
		return "day"
	case algo.Weekly:
		return "week"
	case algo.Monthly:
		return "month"
	case algo.Yearly:
		return "year"
	default:
		return brief(time.Duration(l.Window) * time.Microsecond)
	}
}

// brief is the duration without the zeros that String puts behind it: 24h, not
// 24h0m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
