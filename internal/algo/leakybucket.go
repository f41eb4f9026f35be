package algo

import _ "embed"

// A leaky bucket is a queue of up to Burst units that drains at Quota per
// Window. A request that is let in is to be held for the Delay that it takes
// until all before it has drained; it is denied if it does not fit, or if its
// Delay would exceed MaxDelay. The arithmetic is that of bucket: what it owes
// is what is in the queue.

//go:embed leakybucket.lua
var leakyBucketLua string
