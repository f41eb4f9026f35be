// Package policy holds the rules: which limits a domain sets on which
// descriptors, the key of the bucket that a descriptor takes from, and the
// immutable [Snapshot] of all of it at one version.
package policy

import (
	"cmp"
	"strconv"

	"github.com/rlsd/rlsd/internal/algo"
)

// An Entry is one key and its value in a descriptor.
type Entry struct{ Key, Value string }

// A Descriptor says what a request is, from the general to the particular.
type Descriptor []Entry

// A Source is where in the configuration something stands. Lines and columns
// count from 1; 0 is unknown.
type Source struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"-"`
}

// String returns file:line:column, without what is unknown.
func (s Source) String() string {
	text := s.File
	if s.Line > 0 {
		text += ":" + strconv.Itoa(s.Line)
		if s.Column > 0 {
			text += ":" + strconv.Itoa(s.Column)
		}
	}
	return text
}

// Compare orders sources by file, line and column.
func (s Source) Compare(t Source) int {
	return cmp.Or(
		cmp.Compare(s.File, t.File),
		cmp.Compare(s.Line, t.Line),
		cmp.Compare(s.Column, t.Column),
	)
}

// A Limit is one limit of a rule. It is immutable.
type Limit struct {
	algo.Limit

	Domain      string
	Name        string // unique in its domain
	Named       bool   // whether the configuration gave the name, or the path is it
	Shadow      bool   // reported, never enforced
	Hidden      bool   // left out of what clients see
	FailureMode FailureMode
	Charge      ChargeMode
	MaxOverride int64 // the most units per Window that a caller may ask for instead; 0 for any
	Source      Source

	// ShadowPercent is the share of keys, 0 to 99, for which the limit is in
	// shadow although Shadow is false.
	ShadowPercent int
}

// A Rule is a node of a domain's tree that says something about descriptors: it
// has limits, or it is unlimited, or, with neither, exempt. It is immutable.
type Rule struct {
	Domain    string
	Path      string // such as plan=premium/user
	Limits    []*Limit
	Unlimited bool
	QuotaMode bool // denies only together with all other rules of quota mode that a request meets
	Replaces  []string
	Metadata  map[string]any // of null, bool, float64, string, []any and map[string]any
	Source    Source

	entries []use  // of each entry; nil if all are as they usually are
	metric  []bool // whether an entry's value goes into metrics; nil if none does
}
