package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/redistest"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/redis"
)

// BenchmarkTake reports, beside the time, the CPU time that Redis spends on a
// request, with 64 under way: what a decision costs the part that does not
// scale out.
func BenchmarkTake(b *testing.B) {
	server := redistest.Start(b)
	for _, a := range algo.All() {
		for _, shape := range []struct{ nodes, limits int }{{1, 1}, {1, 2}, {1, 4}, {4, 1}} {
			b.Run(fmt.Sprintf("%s/nodes=%d/limits=%d", a, shape.nodes, shape.limits), func(b *testing.B) {
				s := open(b, server, redis.Options{Now: time.Now})
				limits := make([]*algo.Limit, shape.limits)
				for i := range limits {
					limits[i] = &algo.Limit{Algorithm: a, Quota: 1 << 30, Window: int64(i+1) * algotest.Hour}
					if a.IsBucket() {
						limits[i].Burst = limits[i].Quota
					}
				}
				b.SetParallelism(32)
				before := server.CPU(b)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					ops := make([]store.Op, shape.nodes*shape.limits)
					for pb.Next() {
						key := rand.IntN(10_000)
						for i := range ops {
							node := i / shape.limits
							ops[i] = must(fmt.Sprintf("bench%d/%d", key, node), limits[i%shape.limits])
							ops[i].Descriptor = node
						}
						if err := s.Take(context.Background(), time.Now(), ops); err != nil {
							b.Error(err)
						}
					}
				})
				b.ReportMetric(float64((server.CPU(b)-before).Microseconds())/float64(b.N), "redis-µs/op")
			})
		}
	}
}
