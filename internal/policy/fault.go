package policy

import (
	"cmp"
	"slices"
	"strings"
)

// A Fault is one thing that is wrong with a configuration.
type Fault struct {
	Source  Source
	Path    string // within the document, such as descriptors[2].rate_limit.unit; empty for a file as a whole
	Message string // what is wrong and what to do
}

// String returns the fault as one line, file:line:column: path: message, without
// what is unknown.
func (f Fault) String() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{f.Source.String(), f.Path, f.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Faults is an error: all that is wrong with a configuration.
type Faults []Fault //nolint:errname // what is plural in an error is its faults

// Error returns one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns the faults as an error, in the order of their places and each
// once, or nil if there are none. A fault that several paths lead to, as
// aliases make it, is one.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	sorted := slices.Clone(fs)
	slices.SortStableFunc(sorted, func(f, g Fault) int {
		return cmp.Or(f.Source.Compare(g.Source), cmp.Compare(f.Message, g.Message))
	})
	return slices.CompactFunc(sorted, func(f, g Fault) bool {
		return f.Source == g.Source && f.Message == g.Message
	})
}
