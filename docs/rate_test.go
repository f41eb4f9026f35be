package docs_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
)

// asks is how often a bucket is asked for all that remains.
const asks = 8_000

// rateTable asks the buckets, at phases that no rate is a multiple of, for all
// that remains, and adds up what they admit. It must never be more than the
// rate grants, nor less by a whole unit.
func rateTable(t *testing.T) table {
	var out table
	out.row("limit", "asked every", "for", "the rate grants", "each bucket admits", "short by")
	for _, c := range []struct {
		name          string
		quota, window int64
	}{
		{"3 per second", 3, second},
		{"7 per minute", 7, algotest.Minute},
		{"10,000,000 per day", 10_000_000, algotest.Day},
		{"2^32 per second", 1 << 32, second},
	} {
		for _, phase := range []int64{150, 190, 333} {
			var admitted []int64
			for _, a := range []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.GCRA} {
				l := &algo.Limit{Algorithm: a, Quota: c.quota, Window: c.window, Burst: c.quota}
				admitted = append(admitted, drained(t, l, phase*millisecond))
			}
			if admitted[0] != admitted[1] || admitted[0] != admitted[2] {
				t.Errorf("%s every %d ms: the buckets differ: %d", c.name, phase, admitted)
			}
			elapsed := asks * phase * millisecond
			whole, part := granted(c.quota, c.window, elapsed)
			short := float64(whole-admitted[0]) + part
			out.row(c.name, fmt.Sprintf("%d ms", phase), fmt.Sprintf("%.1f min", float64(elapsed)/algotest.Minute),
				thousands(whole)+fmt.Sprintf("%.2f", part)[1:], thousands(admitted[0]), fmt.Sprintf("%.2f", short))
		}
	}
	return out
}

// drained empties the bucket, then asks for all that remains once a phase.
func drained(t *testing.T, l *algo.Limit, phase int64) int64 {
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	var s algo.State
	algo.Step(&s, l, epoch, l.Burst, 0)
	sum := int64(0)
	for i := range int64(asks) {
		now := epoch + (i+1)*phase
		remaining := algo.Step(&s, l, now, 0, 0).Remaining
		if remaining > 0 && algo.Step(&s, l, now, remaining, 0).Allowed {
			sum += remaining
		}
		if whole, _ := granted(l.Quota, l.Window, (i+1)*phase); sum != whole {
			t.Fatalf("%s: %d admitted after %d asks every %d µs, %d are granted", l.Algorithm, sum, i+1, phase, whole)
		}
	}
	return sum
}

// granted is what a limit grants in a time: whole units, and part of one.
func granted(quota, window, elapsed int64) (whole int64, part float64) {
	units, rest := new(big.Int), new(big.Int)
	units.QuoRem(units.Mul(big.NewInt(quota), big.NewInt(elapsed)), big.NewInt(window), rest)
	return units.Int64(), float64(rest.Int64()) / float64(window)
}
