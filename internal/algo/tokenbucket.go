package algo

import _ "embed"

// A token bucket holds up to Burst tokens and gains Quota of them per Window.
// Each request takes its cost in tokens or is denied. The arithmetic is that of
// bucket: what the bucket owes are the tokens that it lacks.

//go:embed tokenbucket.lua
var tokenBucketLua string
