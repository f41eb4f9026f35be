package redis

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/redistest"
	"github.com/rlsd/rlsd/internal/store"
)

// BenchmarkDriver reports the time that Redis says it spends in the script for
// one request that is allowed: of 1, 2 and 4 limits of a node, and of 4 nodes.
// A log holds 10,000 entries.
//
// With RLSD_CALLGRIND=1 it reports, instead of a time, how many instructions all
// of Redis spends on such a request, which does not depend on what else the
// machine does. That takes valgrind, and -benchtime 1000x.
func BenchmarkDriver(b *testing.B) {
	start := redistest.Start
	count := os.Getenv("RLSD_CALLGRIND") != ""
	if count {
		start = redistest.StartCounting
	}
	server := start(b)
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	b.Cleanup(func() { _ = c.Close() })
	if err := c.ScriptLoad(context.Background(), source).Err(); err != nil {
		b.Fatal(err)
	}
	for _, a := range algo.All() {
		for _, shape := range []struct{ nodes, limits int }{{1, 1}, {1, 2}, {1, 4}, {4, 1}} {
			b.Run(fmt.Sprintf("%s/nodes=%d/limits=%d", a, shape.nodes, shape.limits), func(b *testing.B) {
				d := driverBench{b, c, a, shape.nodes, shape.limits, algotest.Epoch}
				if a == algo.SlidingWindowLog {
					d.run(10_000)
				}
				if count {
					d.run(100)
					server.Instructions(b)
					d.run(b.N)
					b.ReportMetric(float64(server.Instructions(b))/float64(b.N), "instructions/op")
					return
				}
				c.ConfigResetStat(context.Background())
				b.ResetTimer()
				d.run(b.N)
				b.ReportMetric(d.scriptTime(), "script-µs/op")
			})
		}
	}
}

type driverBench struct {
	b             *testing.B
	client        *goredis.Client
	algorithm     algo.Algorithm
	nodes, limits int
	now           int64
}

// run makes n requests, a hundred in a pipeline.
func (d *driverBench) run(n int) {
	for n > 0 {
		pipe := d.client.Pipeline().(*goredis.Pipeline)
		for range min(n, 100) {
			d.now += 900
			c := newCall()
			c.encode(d.now, d.ops())
			c.queueOn(pipe, "evalsha", digest)
			n--
		}
		if _, err := pipe.Exec(context.Background()); err != nil {
			d.b.Fatal(err)
		}
	}
}

func (d *driverBench) ops() []store.Op {
	var ops []store.Op
	for node := range d.nodes {
		for i := range d.limits {
			l := &algo.Limit{Algorithm: d.algorithm, Quota: 1_000_000, Window: int64(i+1) * algotest.Hour}
			if d.algorithm.IsBucket() {
				l.Burst = l.Quota
			}
			ops = append(ops, store.Op{
				Key: fmt.Sprint(d.b.Name(), node), Limit: l,
				Kind: store.Take, Role: store.Must, Cost: 1, Descriptor: node,
			})
		}
	}
	return ops
}

// scriptTime is the mean time of a call of the script, in microseconds.
func (d *driverBench) scriptTime() float64 {
	stats := d.client.Info(context.Background(), "commandstats").Val()
	for line := range strings.Lines(stats) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			_, rest, _ = strings.Cut(rest, "usec_per_call=")
			number, _, _ := strings.Cut(rest, ",")
			mean, err := strconv.ParseFloat(number, 64)
			if err != nil {
				d.b.Fatal(err)
			}
			return mean
		}
	}
	d.b.Fatalf("no call of the script in %q", stats)
	return 0
}
