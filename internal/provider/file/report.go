package file

import (
	"fmt"

	"github.com/rlsd/rlsd/internal/policy"
)

// maxFaults is the most faults that are reported of one file.
const maxFaults = 1000

// A position is a place in a file, both from 1; zero is the file as a whole.
type position struct{ line, column int }

// A report gathers the faults of one file.
type report struct {
	file   string
	faults policy.Faults
}

func (r *report) add(at position, path, format string, args ...any) {
	switch n := len(r.faults); {
	case n < maxFaults:
		r.faults = append(r.faults, policy.Fault{Source: r.source(at), Path: path, Message: fmt.Sprintf(format, args...)})
	case n == maxFaults:
		r.faults = append(r.faults, policy.Fault{
			Source:  r.source(position{}),
			Message: fmt.Sprintf("more than %d faults, the rest is not shown", maxFaults),
		})
	}
}

func (r *report) source(at position) policy.Source {
	return policy.Source{File: r.file, Line: at.line, Column: at.column}
}

// quote shortens what a file holds to what a message can.
func quote(text string) string {
	const most = 60
	short := text
	for i := range text {
		if i >= most {
			short = text[:i] + "…"
			break
		}
	}
	return fmt.Sprintf("%q", short)
}
