package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
)

// errDiffers is the error of a comparison that finds a difference.
var errDiffers = errors.New("the rules differ")

// A diffReport is what a comparison says in JSON.
type diffReport struct {
	OK      bool     `json:"ok"`
	Differ  bool     `json:"differ"`
	OldHash string   `json:"old_hash,omitempty"`
	NewHash string   `json:"new_hash,omitempty"`
	Changes []change `json:"changes"`
	Faults  []fault  `json:"faults"`
}

// diff prints what would change if the rules at one path took the place of those
// at another.
func diff(oldPath, newPath string, inJSON bool, out io.Writer) error {
	before, oldErr := file.Load(oldPath)
	after, newErr := file.Load(newPath)
	err := bothFaults(oldErr, newErr)
	report := diffReport{OK: err == nil, Changes: []change{}, Faults: []fault{}}
	switch {
	case err == nil:
		report.OldHash, report.NewHash = before.Hash(), after.Hash()
		report.Changes = append(report.Changes, compare(before, after)...)
		report.Differ = len(report.Changes) > 0
	case !inJSON:
		return err
	default:
		report.Faults = judge(nil, err).Faults
		err = told{err}
	}
	if failed := report.print(inJSON, out); failed != nil {
		return failed
	}
	if report.Differ {
		return errDiffers
	}
	return err
}

// bothFaults returns the faults of two configurations as one error.
func bothFaults(oldErr, newErr error) error {
	before, _ := errors.AsType[policy.Faults](oldErr)
	after, _ := errors.AsType[policy.Faults](newErr)
	return slices.Concat(before, after).Err()
}

func (r *diffReport) print(inJSON bool, out io.Writer) error {
	if inJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	var text strings.Builder
	domain := ""
	counts := map[string]int{}
	for i, c := range r.Changes {
		counts[c.Change]++
		if i == 0 || c.Domain != domain {
			domain = c.Domain
			fmt.Fprintf(&text, "domain %s\n", visible(domain))
		}
		fmt.Fprintf(&text, "  %s\n", &c)
	}
	if len(r.Changes) == 0 {
		text.WriteString("no difference\n")
	} else {
		fmt.Fprintf(&text, "%d added, %d removed, %d changed\n", counts[added], counts[removed], counts[changed])
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// What a change may be.
const (
	added   = "added"
	removed = "removed"
	changed = "changed"
)

// A change is a domain, a rule or a limit that is not as it was.
type change struct {
	Domain string        `json:"domain"`
	Rule   string        `json:"rule,omitempty"`  // its path; of a domain empty
	Limit  string        `json:"limit,omitempty"` // its name, the new one if that changed; of a rule empty
	Change string        `json:"change"`
	Fields []fieldChange `json:"fields,omitempty"`
}

// A fieldChange is a field before and after. Of what is added or removed all
// fields are listed that are not as they are by default.
type fieldChange struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

// String describes the change in one line that is safe to print, without its
// domain.
func (c *change) String() string {
	what := "the domain"
	switch {
	case c.Limit != "" && c.Limit != c.Rule:
		what = "limit " + visible(c.Limit) + " of " + visible(c.Rule)
	case c.Limit != "":
		what = "limit " + visible(c.Limit)
	case c.Rule != "":
		what = "rule " + visible(c.Rule)
	}
	line := map[string]string{added: "+ ", removed: "- ", changed: "~ "}[c.Change] + what
	fields := make([]string, len(c.Fields))
	for i, f := range c.Fields {
		switch c.Change {
		case added:
			fields[i] = f.Field + " " + visible(f.To)
		case removed:
			fields[i] = f.Field + " " + visible(f.From)
		default:
			fields[i] = f.Field + " " + orNone(f.From) + " -> " + orNone(f.To)
		}
	}
	if len(fields) > 0 {
		line += ": " + strings.Join(fields, ", ")
	}
	return line
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return visible(value)
}
