package algo_test

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
)

const (
	ms     = algotest.Millisecond
	second = algotest.Second
	hour   = algotest.Hour
	day    = algotest.Day
	epoch  = algotest.Epoch
)

// A jar is one bucket and its limit.
type jar struct {
	l algo.Limit
	s algo.State
}

// newJar returns a fresh bucket that grants quota a window and as much at once.
func newJar(tb testing.TB, a algo.Algorithm, quota, window int64) *jar {
	tb.Helper()
	j := &jar{l: algo.Limit{Algorithm: a, Window: window}}
	j.grant(quota)
	if err := j.l.Validate(); err != nil {
		tb.Fatal(err)
	}
	return j
}

// grant changes what the limit grants.
func (j *jar) grant(quota int64) {
	j.l.Quota = quota
	if j.l.Algorithm.IsBucket() {
		j.l.Burst = quota
	}
}

func (j *jar) take(now, cost int64) algo.Decision { return algo.Step(&j.s, &j.l, now, cost, 0) }

func (j *jar) peek(now int64) algo.Decision { return j.take(now, 0) }

// drain takes all that remains.
func (j *jar) drain(now int64) { j.take(now, j.peek(now).Remaining) }

// demand asks for one unit at each multiple of the phase, times over, and
// returns what was admitted.
func (j *jar) demand(phase, length, times int64) (admitted int64) {
	for now := int64(epoch); now < epoch+length; now += phase {
		for range times {
			if j.take(now, 1).Allowed {
				admitted++
			}
		}
	}
	return admitted
}

// FuzzStep plays traffic of any kind on any limit and wants sane answers, and
// those of two others that decide by other means: for buckets, token bucket and
// GCRA of each other; for windows a list of all that was taken.
func FuzzStep(f *testing.F) {
	r := rand.New(rand.NewPCG(31, 32))
	for range 300 {
		seed := make([]byte, 20+r.IntN(300))
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := (*input)(&data)
		l := in.limit()
		if err := l.Validate(); err != nil {
			t.Fatalf("%+v: %v", l, err)
		}
		p := play{t: t, jar: jar{l: l}}
		p.twin.l = l
		switch l.Algorithm {
		case algo.TokenBucket:
			p.twin.l.Algorithm = algo.GCRA
		case algo.GCRA, algo.LeakyBucket:
			p.twin.l.Algorithm, p.twin.l.MaxDelay = algo.TokenBucket, 0
		default:
		}
		now := int64(epoch) + in.number(2*algotest.Year)
		for len(*in) > 0 {
			kind := in.pick(16)
			switch step := in.number(2 * l.Window); {
			case kind < 12:
				now += step
			case kind < 14:
				now -= step % second
			default:
				now = max(0, now-step)
			}
			cost := in.number(algo.MaxCost)
			switch kind % 4 {
			case 0:
				cost = 0
			case 1:
				cost = -cost
			case 2:
				cost %= 2 + max(l.Quota, l.Burst)
			}
			slack := in.number(2*l.Overdraft) - l.Overdraft
			p.step(now, cost, slack)
		}
	})
}

// input is what fuzzing gives, to be read as numbers.
type input []byte

// pick returns one of 0 to n-1.
func (in *input) pick(n int) int {
	if len(*in) == 0 {
		return 0
	}
	b := (*in)[0]
	*in = (*in)[1:]
	return int(b) % n
}

// number returns one of 0 to most: often small, often close to a power of two
// or to most.
func (in *input) number(most int64) int64 {
	var b [3]byte
	n := copy(b[:], *in)
	*in = (*in)[n:]
	v := int64(b[0]) | int64(b[1])<<8
	if shift := b[2] % 64; shift < 48 {
		v <<= shift
		return v % (most + 1)
	}
	return max(0, most-v)
}

// limit returns a limit that is valid.
func (in *input) limit() algo.Limit {
	l := algo.Limit{
		Algorithm: algo.Algorithm(1 + in.pick(6)),
		Quota:     in.number(algo.MaxQuota),
		Window:    algo.MinWindow + in.number(algo.MaxWindow-algo.MinWindow),
		Overdraft: in.number(algo.MaxQuota),
	}
	if l.Algorithm.IsBucket() {
		l.Burst = in.number(algo.MaxQuota)
		if l.Validate() != nil {
			l.Burst = l.Quota
		}
		if l.Validate() != nil {
			l.Overdraft = 0
		}
	}
	if delay := in.number(algo.MaxFill); l.Algorithm == algo.LeakyBucket {
		l.MaxDelay = delay
	}
	if calendar := in.pick(8); l.Algorithm == algo.FixedWindow && calendar <= 4 {
		l.Calendar = algo.Calendar(calendar)
	}
	return l
}

// play is a bucket under test beside those that it is held against.
type play struct {
	jar
	t       *testing.T
	twin    jar
	taken   []algotest.Request // of windows, until a clock first stepped back
	latest  int64
	stepped bool
}

func (p *play) step(now, cost, slack int64) {
	p.t.Helper()
	before := p.s
	d := algo.Step(&p.s, &p.l, now, cost, slack)
	complain := func(what string) {
		p.t.Fatalf("%+v at %d, cost %d, slack %d, from %v: %s: %+v", p.l, now, cost, slack, before, what, d)
	}
	capacity, most := p.l.Quota+slack, 2*p.l.Window
	if p.l.Algorithm.IsBucket() {
		capacity, most = p.l.Burst+slack, algo.MaxFill
	} else if p.l.Calendar != algo.NoCalendar {
		most = 366 * day
	}
	never := cost >= 0 && max(1, cost) > capacity || p.l.Algorithm.IsBucket() && p.l.Quota == 0
	switch {
	case d.Allowed != (d.RetryAfter == 0):
		complain("allowed is not to retry after nothing")
	case cost >= 0 && never != (d.RetryAfter == algo.Never):
		complain("never is not what never fits")
	case d.RetryAfter < algo.Never || d.RetryAfter > d.ResetAfter || d.ResetAfter > most+algo.MaxSkew:
		complain("no such time")
	case d.Remaining < 0 || d.Remaining > max(0, capacity):
		complain("so much cannot remain")
	case d.Delay < 0 || d.Delay > d.ResetAfter || p.l.MaxDelay > 0 && d.Delay > p.l.MaxDelay:
		complain("no such delay")
	}
	if !d.Allowed || cost == 0 {
		again := p.jar
		if algo.Step(&again.s, &p.l, now, cost, slack) != d {
			complain("another answer the second time")
		}
	}
	if !p.l.Algorithm.IsBucket() {
		p.recall(now, cost, capacity, d, complain)
		return
	}
	if p.l.MaxDelay > 0 {
		return
	}
	d.Delay = 0
	if twin := algo.Step(&p.twin.s, &p.twin.l, now, cost, slack); twin != d {
		p.t.Logf("%s: %+v", p.twin.l.Algorithm, twin)
		complain("not what its twin says")
	}
}

// recall holds the decision against all that was taken before.
func (p *play) recall(now, cost, capacity int64, d algo.Decision, complain func(string)) {
	p.stepped = p.stepped || now < p.latest
	p.latest = now
	if p.stepped {
		return
	}
	ask := max(1, cost)
	if fits := cost < 0 || p.held(now) <= capacity-ask; fits != d.Allowed {
		complain("not what the list says")
	}
	switch {
	case d.Allowed && cost > 0:
		p.taken = append(p.taken, algotest.Request{At: now, Cost: cost})
	case cost < 0:
		p.give(now, -cost)
	}
	if d.Remaining != max(0, capacity-p.held(now)) {
		complain("not what the list leaves")
	}
}

// held adds up what was taken and counts at the time.
func (p *play) held(now int64) int64 {
	start, _ := p.l.WindowAt(now)
	sum, before := int64(0), int64(0)
	for _, q := range p.taken {
		switch a := p.l.Algorithm; {
		case a == algo.SlidingWindowLog && q.At > now-p.l.Window, a != algo.SlidingWindowLog && q.At >= start:
			sum += q.Cost
		case a == algo.SlidingWindowCounter && q.At >= start-p.l.Window:
			before += q.Cost
		}
	}
	if before == 0 {
		return sum
	}
	hi, lo := bits.Mul64(uint64(before), uint64(start+p.l.Window-now))
	share, _ := bits.Div64(hi, lo, uint64(p.l.Window))
	return sum + int64(share)
}

// give takes the newest units back of those that count.
func (p *play) give(now, units int64) {
	for i := len(p.taken) - 1; i >= 0 && units > 0; i-- {
		q := &p.taken[i]
		start, _ := p.l.WindowAt(now)
		switch p.l.Algorithm {
		case algo.SlidingWindowLog:
			start = now - p.l.Window + 1
		case algo.SlidingWindowCounter:
			start -= p.l.Window
		default:
		}
		if q.At < start {
			return
		}
		part := min(units, q.Cost)
		q.Cost -= part
		units -= part
	}
}
