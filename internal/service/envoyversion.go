package service

import (
	"fmt"
	"strconv"
	"strings"
)

// An EnvoyVersion is N for Envoy 1.N.
type EnvoyVersion int

const (
	firstWithV3Alone    EnvoyVersion = 18 // older ones may ask by version 2 of the API
	firstWithMultiplier EnvoyVersion = 40 // others print 10 per 30 s as 10 per second
	lastToExpect        EnvoyVersion = 99 // beyond is a slip of the finger
)

// ParseEnvoyVersion reads a version such as 1.40.
func ParseEnvoyVersion(s string) (EnvoyVersion, error) {
	minor, ok := strings.CutPrefix(s, "1.")
	n, err := strconv.Atoi(minor)
	if v := EnvoyVersion(n); ok && err == nil && strconv.Itoa(n) == minor && v >= firstWithV3Alone && v <= lastToExpect {
		return v, nil
	}
	return 0, fmt.Errorf("%q: want an Envoy's version without its patch, from 1.%d on, such as 1.%d", s, firstWithV3Alone, firstWithMultiplier)
}

// knowsUnitMultiplier reports whether all Envoys in use understand windows of
// several units. To others these windows have no unit, so that no wrong one is
// shown.
func (v EnvoyVersion) knowsUnitMultiplier() bool { return v >= firstWithMultiplier }
