package redis_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
	"github.com/rlsd/rlsd/internal/redistest"
)

// twinSteps runs the twins over a batch of steps: state, now, cost, slack and
// parameters in, the decision and the new state out.
const twinSteps = `
local input, out, pos = ARGV[1], {}, 1
while pos <= #input do
  local algorithm, a, b, c, now, cost, slack, p1, p2, p3, p4, p5
  algorithm, a, b, c, now, cost, slack, p1, p2, p3, p4, p5, pos = struct.unpack('<i8i8i8i8i8i8i8i8i8i8i8i8', input, pos)
  out[#out + 1] = struct.pack('<i8i8i8i8i8i8i8i8', twins[algorithm](a, b, c, now, cost, slack, p1, p2, p3, p4, p5))
end
return table.concat(out)`

// TestTwins plays the same random traffic to Go and to Lua and wants the same
// decisions and the same states: 20,000 steps of each algorithm, or as many as
// RLSD_STEPS says.
func TestTwins(t *testing.T) {
	t.Parallel()
	steps := 20_000
	if s := os.Getenv("RLSD_STEPS"); s != "" {
		var err error
		if steps, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	c := client(t, redistest.Start(t))
	for _, a := range algo.All() {
		if a == algo.SlidingWindowLog { // not a function of three words: see TestTwinLog
			continue
		}
		t.Run(a.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(a)))
			for done := 0; done < steps; {
				batch := newTwinBatch(r, a, min(2000, steps-done))
				reply, err := c.Eval(context.Background(), algo.Script()+twinSteps, nil, batch.input).Text()
				if err != nil {
					t.Fatal(err)
				}
				batch.compare(t, []byte(reply))
				done += len(batch.steps)
			}
		})
	}
}

type twinStep struct {
	limit            *algo.Limit
	now, cost, slack int64
	before, after    algo.State
	decision         algo.Decision
}

type twinBatch struct {
	steps []twinStep
	input []byte
}

func newTwinBatch(r *rand.Rand, a algo.Algorithm, n int) *twinBatch {
	b := new(twinBatch)
	for len(b.steps) < n {
		l := algotest.RandomLimit(r, a)
		if r.IntN(4) == 0 {
			limits := algotest.Limits(a)
			l = limits[r.IntN(len(limits))]
		}
		var s algo.State
		clock := algotest.NewClock(r)
		for range 20 {
			step := twinStep{limit: l, before: s}
			step.cost = clock.Tick(r, l)
			step.now = clock.Now
			switch r.IntN(8) {
			case 0:
				step.cost = 0
			case 1:
				step.cost = -step.cost
			case 2:
				step.cost = algo.MaxCost - r.Int64N(3)
			case 3:
				step.slack = r.Int64N(l.Overdraft + 1)
			case 4:
				step.slack = -r.Int64N(l.Quota + 2)
			case 5:
				l = algotest.Changed(r, l)
				step.limit = l
			}
			step.decision = algo.Step(&s, l, step.now, step.cost, step.slack)
			step.after = s
			b.add(step)
		}
	}
	return b
}

func (b *twinBatch) add(s twinStep) {
	b.steps = append(b.steps, s)
	p := s.limit.Params(s.now)
	for _, word := range []int64{
		int64(s.limit.Algorithm), s.before.A, s.before.B, s.before.C,
		s.now, s.cost, s.slack, p[0], p[1], p[2], p[3], p[4],
	} {
		b.input = binary.LittleEndian.AppendUint64(b.input, uint64(word))
	}
}

func (b *twinBatch) compare(t *testing.T, reply []byte) {
	t.Helper()
	if len(reply) != 64*len(b.steps) {
		t.Fatalf("%d bytes for %d steps", len(reply), len(b.steps))
	}
	for i, s := range b.steps {
		word := func(n int) int64 { return int64(binary.LittleEndian.Uint64(reply[64*i+8*n:])) }
		got := algo.Decision{Allowed: word(0) == 1, Remaining: word(1), RetryAfter: word(2), ResetAfter: word(3), Delay: word(7)}
		state := algo.State{A: word(4), B: word(5), C: word(6)}
		if got != s.decision || state != s.after {
			t.Fatalf("%+v at %d, cost %d, slack %d, from %v\nlua %+v %v\n go %+v %v",
				*s.limit, s.now, s.cost, s.slack, s.before, got, state, s.decision, s.after)
		}
	}
}
