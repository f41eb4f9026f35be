package algo

import (
	_ "embed"
	"strings"
)

//go:embed prelude.lua
var preludeLua string

// Script returns the Lua source of all twins but the log's: it leaves a local table twins,
// from an algorithm's number to
//
//	function(state1, state2, state3, now, cost, slack, param1, …, param5)
//	→ allowed (0 or 1), remaining, retry after, reset after, state1, state2, state3, delay
//
// which decides as [Step] does and returns the state to keep. The parameters
// are those of [Limit.Params].
func Script() string {
	var b strings.Builder
	b.WriteString(preludeLua)
	b.WriteString(bucketLua)
	for _, a := range All() {
		if a != SlidingWindowLog {
			b.WriteString(algorithms[a].script)
		}
	}
	return b.String()
}

// LogScript returns the Lua source of the log's twin, which goes after [Script].
// It leaves local functions that show a list as a log, step it and save it.
func LogScript() string { return algorithms[SlidingWindowLog].script }
