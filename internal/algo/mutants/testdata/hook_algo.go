package algo

import (
	"os"
	"path/filepath"
)

// This file is laid over package algo to plant mutants in the Lua twins: it
// takes those that stand in the directory RLSD_MUTANT from there.
func init() {
	plant := func(name string, text *string) {
		if mutant, err := os.ReadFile(filepath.Join(os.Getenv("RLSD_MUTANT"), name)); err == nil {
			*text = string(mutant)
		}
	}
	plant("prelude.lua", &preludeLua)
	plant("bucket.lua", &bucketLua)
	plant("fixedwindow.lua", &algorithms[FixedWindow].script)
	plant("slidingwindowlog.lua", &algorithms[SlidingWindowLog].script)
	plant("slidingwindowcounter.lua", &algorithms[SlidingWindowCounter].script)
	plant("tokenbucket.lua", &algorithms[TokenBucket].script)
	plant("leakybucket.lua", &algorithms[LeakyBucket].script)
	plant("gcra.lua", &algorithms[GCRA].script)
}
