package algo_test

import (
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
)

func TestConformance(t *testing.T) {
	buckets := map[string]*algo.State{}
	bucket := func(key string) *algo.State {
		if buckets[key] == nil {
			buckets[key] = new(algo.State)
		}
		return buckets[key]
	}
	algotest.Run(t, algotest.Subject{
		Step: func(_ testing.TB, key string, l *algo.Limit, now, cost, slack int64) algo.Decision {
			return algo.Step(bucket(key), l, now, cost, slack)
		},
		Charge: func(_ testing.TB, key string, l *algo.Limit, now, cost int64) algo.Decision {
			return algo.Charge(bucket(key), l, now, cost)
		},
		Rounds: 2000,
	})
}

func BenchmarkStep(b *testing.B) {
	for _, a := range algo.All() {
		for _, l := range algotest.Limits(a) {
			b.Run(a.String(), func(b *testing.B) {
				b.ReportAllocs()
				var s algo.State
				now := int64(algotest.Epoch)
				for b.Loop() {
					now += 9_000
					algo.Step(&s, l, now, 1, 0)
				}
			})
		}
	}
}
