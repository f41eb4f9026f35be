package main

import (
	"net/http"
	"time"

	"github.com/rlsd/rlsd/internal/telemetry"
)

// An unmatchedPage is what /unmatched shows.
type unmatchedPage struct {
	SamplesPerSecond int             `json:"samples_per_second"` // the first of each second; count is of these
	Skipped          int64           `json:"skipped"`            // not looked at, for that reason
	Unmatched        []unmatchedLine `json:"unmatched"`
}

type unmatchedLine struct {
	Domain        string          `json:"domain"`
	UnknownDomain bool            `json:"unknown_domain"`
	Entries       []unmatchedPair `json:"entries"`
	MoreEntries   int             `json:"more_entries,omitempty"`
	Count         int64           `json:"count"`
	First         time.Time       `json:"first"`
	Last          time.Time       `json:"last"`
}

type unmatchedPair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// unmatchedHandler shows what was asked of late that no rule is for.
func unmatchedHandler(misses func() telemetry.Misses) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		m := misses()
		page := unmatchedPage{m.SamplesPerSecond, m.Skipped, []unmatchedLine{}}
		for _, miss := range m.Recent {
			line := unmatchedLine{
				Domain: miss.Domain, UnknownDomain: miss.UnknownDomain, Entries: []unmatchedPair{}, MoreEntries: miss.MoreEntries,
				Count: miss.Count, First: miss.First.UTC(), Last: miss.Last.UTC(),
			}
			for _, e := range miss.Entries {
				line.Entries = append(line.Entries, unmatchedPair(e))
			}
			page.Unmatched = append(page.Unmatched, line)
		}
		respondJSON(w, http.StatusOK, page)
	})
}
