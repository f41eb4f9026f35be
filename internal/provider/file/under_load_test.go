package file_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/store/memory"
)

// Four callers ask without pause while the rules are swapped hundreds of times,
// with other limits coming, going and failing to parse beside the one that is
// counted and is raised meanwhile: each call is decided, and as many are allowed
// as the limit says.
func TestNoCallIsLostAndNoCountIsResetWhileRulesChange(t *testing.T) {
	t.Parallel()
	const (
		swaps   = 300
		granted = 2000
	)
	version := func(n int) map[string]string {
		files := map[string]string{
			"a.yaml": quota("shop", "a", granted-swaps+n),
			"b.yaml": fmt.Sprintf("domain: shop\ndescriptors:\n- {key: b%d, rate_limit: {unit: second, requests_per_unit: 1}}\n", n%7),
		}
		if n%5 == 4 {
			files["c.yaml"] = quota("edge", "c", n)
		}
		return files
	}
	w := &watched{t: t, dir: t.TempDir(), now: time.Unix(1000, 0)}
	w.configMap("0", version(0))
	w.must(w.open())

	var current atomic.Pointer[policy.Snapshot]
	current.Store(w.last.Status.Snapshot)
	decider := limiter.New(memory.New(memory.Options{}), "memory", current.Load, counting{})
	var asked, allowed atomic.Int64
	var swapped atomic.Bool
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for last := false; !last; {
				last = swapped.Load() // and once more after that
				for range 50 {
					asked.Add(1)
					if ask(t, decider) {
						allowed.Add(1)
					}
				}
			}
		})
	}
	for n := 1; n <= swaps; n++ {
		w.configMap(strconv.Itoa(n), version(n))
		if n%10 == 3 {
			w.write(fmt.Sprintf("..%d/b.yaml", n), broken)
		}
		w.last = w.w.Reload(w.now)
		current.Store(w.last.Status.Snapshot)
	}
	swapped.Store(true)
	callers.Wait()
	for ask(t, decider) {
		allowed.Add(1)
	}
	if got := allowed.Load(); got != granted {
		t.Errorf("of %d calls %d were allowed, want %d", asked.Load(), got, granted)
	}
	if v := w.last.Status.Version; v < swaps/2 {
		t.Errorf("only %d versions", v)
	}
}

func ask(t *testing.T, decider *limiter.Limiter) bool {
	t.Helper()
	var v limiter.Verdict
	entries := policy.Descriptor{{Key: "a", Value: "x"}}
	request := limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{{Entries: entries, Cost: 1}}}
	if err := decider.Decide(context.Background(), time.Unix(1000, 0), &request, &v); err != nil {
		t.Error(err)
		return false
	}
	if len(v.Statuses[0].Results) != 1 {
		t.Error("no limit had a say")
		return false
	}
	return v.Allowed
}

type counting struct{ limiter.Observer }

func (counting) Decided(*policy.Limit, limiter.Outcome) {}
