package algo

import (
	_ "embed"
	"strings"
)

//go:embed prelude.lua
var preludeLua string

// Script returns the Lua source of all twins: it leaves a local table twins,
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
		b.WriteString(algorithms[a].script)
	}
	return b.String()
}
