package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
)

type validate struct {
	Paths  []string `arg:"" name:"path" help:"Rule files, or directories of them."`
	Diff   bool     `help:"Print what would change if the rules at the second of two paths took the place of those at the first."`
	Output string   `enum:"text,json" default:"text" help:"How to print: text or json."`
}

// Help is printed below the flags.
func (validate) Help() string {
	return `The paths are read as serve would read them. All faults are printed, one a line, with file, line and column, and the exit code is then 1.

With --diff OLD NEW it prints the domains, rules and limits that would be added (+), removed (-) or changed (~), and the exit code is 2 if there are any, 0 if not, and 1 if either of the two has faults. A wrong command line has 2 as well, but prints nothing to stdout.

Examples:

    rlsd validate rules/
    rlsd validate base.yaml shop.yaml
    rlsd validate --diff rules/ new-rules/
    rlsd validate --output json rules/ | jq '.faults[].message'`
}

// A verdict is what validate says in JSON.
type verdict struct {
	OK      bool    `json:"ok"`
	Domains int     `json:"domains"`
	Limits  int     `json:"limits"`
	Hash    string  `json:"hash,omitempty"`
	Faults  []fault `json:"faults"`
}

type fault struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// Validate refuses a comparison of anything but two.
func (c *validate) Validate() error {
	if c.Diff && len(c.Paths) != 2 {
		return fmt.Errorf("--diff compares two paths, OLD and NEW, not %d", len(c.Paths))
	}
	return nil
}

// Run checks the paths and prints what it found.
func (c *validate) Run(to streams) error {
	if c.Diff {
		return diff(c.Paths[0], c.Paths[1], c.Output == "json", to.out)
	}
	snapshot, err := file.Load(c.Paths...)
	if c.Output == "json" {
		encoder := json.NewEncoder(to.out)
		encoder.SetIndent("", "  ")
		if failed := encoder.Encode(judge(snapshot, err)); failed != nil || err == nil {
			return failed
		}
		return told{err}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to.out, "ok: %s, %s, hash %s\n",
		count(len(snapshot.Domains()), "domain"), count(len(snapshot.Limits()), "limit"), snapshot.Hash())
	return err
}

func judge(snapshot *policy.Snapshot, err error) verdict {
	if err == nil {
		return verdict{
			OK:      true,
			Domains: len(snapshot.Domains()),
			Limits:  len(snapshot.Limits()),
			Hash:    snapshot.Hash(),
			Faults:  []fault{},
		}
	}
	v := verdict{}
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		v.Faults = listFaults(faults)
		return v
	}
	v.Faults = []fault{{Message: err.Error()}}
	return v
}

func listFaults(faults policy.Faults) []fault {
	list := make([]fault, 0, len(faults))
	for _, f := range faults {
		list = append(list, fault{f.Source.File, f.Source.Line, f.Source.Column, f.Path, f.Message})
	}
	return list
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
