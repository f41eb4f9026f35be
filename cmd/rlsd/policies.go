package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// A policiesPage is what /policies shows.
type policiesPage struct {
	Hash     string       `json:"hash"`
	Switches []switchLine `json:"switches"`
	Limits   []limitLine  `json:"limits"`
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
	Shadow    bool   `json:"shadow"`          // by the rules
	Percent   int    `json:"enforce_percent"` // by the rules, of keys
	InForce   string `json:"in_force"`        // by the rules and the switches: enforced, shadow or off
	File      string `json:"file"`
	Line      int    `json:"line"`
}

// policiesHandler shows the limits of the current snapshot.
func policiesHandler(current func() *policy.Snapshot, switches *limiter.Switches) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		snapshot := current()
		page := policiesPage{Hash: snapshot.Hash(), Switches: switchLines(switches), Limits: []limitLine{}}
		for _, l := range snapshot.Limits() {
			line := describe(l)
			line.InForce = switches.Mode(l).String()
			page.Limits = append(page.Limits, line)
		}
		respondJSON(w, http.StatusOK, page)
	})
}

func describe(l *policy.Limit) limitLine {
	line := limitLine{
		Domain:    l.Domain,
		Limit:     l.Name,
		Algorithm: l.Algorithm.String(),
		Quota:     l.Quota,
		Window:    window(l),
		Burst:     l.Burst,
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
