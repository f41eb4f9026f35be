package policy_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/rlsd/rlsd/internal/policy"
)

// TestAPercentageIsEnforcedForThatShareOfKeys holds the share to one point in a
// hundred, and that nobody who is enforced at a percentage gets away at a
// higher one.
func TestAPercentageIsEnforcedForThatShareOfKeys(t *testing.T) {
	t.Parallel()
	const n = 100_000
	for name, value := range map[string]func(i int) string{
		"numbers":   strconv.Itoa,
		"padded":    func(i int) string { return fmt.Sprintf("user-%08d", i) },
		"addresses": func(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255) },
		"hex":       func(i int) string { return fmt.Sprintf("%032x", i) },
		"long":      func(i int) string { return fmt.Sprintf("%0300d", i) },
	} {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = policy.Key("shop", policy.Descriptor{{Key: "user", Value: value(i)}})
		}
		before := make([]bool, n)
		for _, percent := range []int{0, 1, 2, 5, 10, 20, 33, 50, 75, 90, 99, 100} {
			l := policy.Limit{ShadowPercent: 100 - percent}
			enforced := 0
			for i, key := range keys {
				now := l.Enforced(key)
				if before[i] && !now {
					t.Fatalf("%s: %s is enforced at a lower percentage but not at %d %%", name, key, percent)
				}
				if before[i] = now; now {
					enforced++
				}
			}
			if enforced < (percent-1)*n/100 || enforced > (percent+1)*n/100 ||
				percent == 0 && enforced > 0 || percent == 100 && enforced < n {
				t.Errorf("%s: at %d %%, %d of %d keys are enforced", name, percent, enforced, n)
			}
		}
	}
}

// TestEnforcedKeysStayTheSame holds that no version of rlsd picks others: a
// fleet may run several.
func TestEnforcedKeysStayTheSame(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int{
		"shop/user=alice": 20, "shop/user=bob": 84, "shop/user=carol": 91, "blog/user=alice": 63, "": 43,
	} {
		got := 100 // the percentage from which on the key is enforced
		for got > 0 && (&policy.Limit{ShadowPercent: 101 - got}).Enforced(key) {
			got--
		}
		if got != want {
			t.Errorf("%q is enforced from %d %% on, want %d", key, got, want)
		}
	}
}

func TestEnforcedDoesNotAllocate(t *testing.T) {
	l := policy.Limit{ShadowPercent: 50}
	if n := testing.AllocsPerRun(100, func() { l.Enforced("shop/user=alice") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
