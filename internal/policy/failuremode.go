package policy

import (
	"fmt"
	"slices"
	"strings"
)

// A FailureMode is what to answer when the store cannot. The zero value leaves
// it to the caller.
type FailureMode uint8

// The failure modes.
const (
	FailError  FailureMode = iota // the call fails and the caller decides
	FailOpen                      // allowed
	FailClosed                    // denied
	FailLocal                     // decided by this instance alone
)

var failureModes = []string{
	FailError:  "error",
	FailOpen:   "open",
	FailClosed: "closed",
	FailLocal:  "local",
}

// ParseFailureMode returns the mode that configuration calls name.
func ParseFailureMode(name string) (FailureMode, error) {
	i := slices.Index(failureModes, name)
	if i < 0 {
		return 0, fmt.Errorf("unknown failure mode %q, use one of %s", name, strings.Join(failureModes, ", "))
	}
	return FailureMode(i), nil //nolint:gosec // an index of failureModes
}

// String returns the mode's name in configuration, such as open.
func (m FailureMode) String() string {
	if int(m) < len(failureModes) {
		return failureModes[m]
	}
	return fmt.Sprintf("failuremode(%d)", uint8(m))
}
