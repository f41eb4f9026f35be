package redis

import (
	"os"
	"path/filepath"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rlsd/rlsd/internal/algo"
)

// This file is laid over package redis to plant mutants in the driver, as
// hook_algo.go does in the twins.
func init() {
	if mutant, err := os.ReadFile(filepath.Join(os.Getenv("RLSD_MUTANT"), "driver.lua")); err == nil {
		source = algo.Script() + string(mutant)
		digest = goredis.NewScript(source).Hash()
	}
}
