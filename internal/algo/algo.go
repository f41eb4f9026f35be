// Package algo holds the rate-limiting algorithms: what a [Limit] is, what a
// bucket remembers ([State]), and how the two and the time give a [Decision].
//
// Every algorithm lives in two files that sit side by side and say the same
// thing: NAME.go steps a State in memory, NAME.lua steps the same state inside
// Redis. Package algotest proves them equal.
//
// The package does no I/O, reads no clock and takes no lock. Time is an int64
// of microseconds since the Unix epoch and is always an argument. All
// arithmetic is on integers below 2^53, the range in which Lua's only number
// type is exact; a product of two of them is only ever formed by muldiv.
package algo

import "fmt"

// An Algorithm is a way to count. The numbers are part of what Redis stores
// and are never reused. The zero value is no algorithm.
type Algorithm uint8

// The algorithms, by the numbers under which Redis keeps them.
const (
	FixedWindow          Algorithm = 1
	SlidingWindowLog     Algorithm = 2
	SlidingWindowCounter Algorithm = 3
	TokenBucket          Algorithm = 4
	LeakyBucket          Algorithm = 5
	GCRA                 Algorithm = 6
)

// algorithms says all that the rest of the package wants to know of each
// algorithm; one line here, one constant above, one case in [Step] and two files add one.
var algorithms = [...]struct {
	name     string
	isBucket bool // has a Burst
	params   func(l *Limit, now int64) [5]int64
	script   string
}{
	FixedWindow:          {"fixed_window", false, fixedWindowParams, fixedWindowLua},
	SlidingWindowLog:     {"sliding_window_log", false, slidingWindowLogParams, slidingWindowLogLua},
	SlidingWindowCounter: {"sliding_window_counter", false, slidingWindowCounterParams, slidingWindowCounterLua},
	TokenBucket:          {"token_bucket", true, bucketParams, tokenBucketLua},
	LeakyBucket:          {"leaky_bucket", true, bucketParams, leakyBucketLua},
	GCRA:                 {"gcra", true, bucketParams, gcraLua},
}

// All lists the algorithms in the order of their numbers.
func All() []Algorithm {
	var all []Algorithm
	for a := range algorithms {
		if algorithms[a].name != "" {
			all = append(all, Algorithm(a))
		}
	}
	return all
}

// Parse returns the algorithm that configuration calls name.
func Parse(name string) (Algorithm, error) {
	for _, a := range All() {
		if a.String() == name {
			return a, nil
		}
	}
	return 0, fmt.Errorf("unknown algorithm %q", name)
}

// String returns the algorithm's name in configuration, such as token_bucket.
func (a Algorithm) String() string {
	if a.valid() {
		return algorithms[a].name
	}
	return fmt.Sprintf("algorithm(%d)", uint8(a))
}

// IsBucket reports whether the algorithm has a burst of its own.
func (a Algorithm) IsBucket() bool { return a.valid() && algorithms[a].isBucket }

func (a Algorithm) valid() bool {
	return int(a) < len(algorithms) && algorithms[a].name != ""
}

const (
	// Never is the RetryAfter of a request that no wait would admit.
	Never = -1
	// MaxSkew is how far ahead of now, in microseconds, the time of a state
	// may lie and still be taken for another instance's faster clock.
	MaxSkew = 1_000_000
	// MaxCost is the highest cost; callers saturate at it.
	MaxCost = 1<<53 - 1
	// MaxCharge is the most that one [Charge] records.
	MaxCharge = 1_000_000_000
)

// A State is what one bucket remembers. The zero State is an untouched bucket,
// so a missing key needs no special case. What each word means is the
// algorithm's business. Two States are the same if they compare equal.
type State struct {
	A, B, C int64
	Log     *Log // sliding_window_log alone
}

// set gives the words of the state. To write all of it would cost the write
// barrier of Log.
func (s *State) set(a, b, c int64) { s.A, s.B, s.C = a, b, c }

// A Decision answers one request against one limit. Durations are in
// microseconds and count from the now that the caller passed.
type Decision struct {
	Allowed    bool
	Remaining  int64 // units that would be admitted now, after this request
	RetryAfter int64 // until this request would be admitted; 0 if it was, Never if no wait helps
	ResetAfter int64 // until the bucket is as if untouched; for a fixed window always its end
	Delay      int64 // how long to hold an allowed request; leaky_bucket only
}

// Step decides a request of cost units at time now and, if it is allowed,
// records it in s.
//
// Cost 0 is a peek: Allowed and RetryAfter are those of a request of 1, and
// nothing is recorded. A negative cost gives units back: it is always allowed,
// never fills the bucket beyond full, is void when what it undoes has already
// lapsed, and leaves the zero State if it leaves nothing owed. Slack extends (or, negative, shrinks) the capacity for this
// call alone; Remaining counts it. It is at most the limit's Overdraft.
//
// A denial and a peek leave s as it was, with one exception. A state whose
// time is ahead of now by more than [MaxSkew] was left by a clock that has
// since stepped back: its time becomes now and its debt stays. Ahead by less,
// its time counts as now, so that a faster clock elsewhere earns nothing.
//
// The limit must be valid and -[MaxCost] <= cost <= [MaxCost].
func Step(s *State, l *Limit, now, cost, slack int64) (d Decision) {
	switch l.Algorithm { // direct calls, which keep s and d off the heap
	case FixedWindow:
		stepFixedWindow(&d, s, l, now, cost, slack)
	case SlidingWindowLog:
		stepSlidingWindowLog(&d, s, l, now, cost, slack)
	case SlidingWindowCounter:
		stepSlidingWindowCounter(&d, s, l, now, cost, slack)
	case TokenBucket, LeakyBucket:
		stepBucket(&d, s, l, now, cost, slack)
	case GCRA:
		stepGCRA(&d, s, l, now, cost, slack)
	default:
		d.RetryAfter = Never
	}
	return d
}

// Charge records cost whether or not it fits, as usage that has already
// happened. Of one that does not fit it records [MaxCharge] at most, or what
// remains if that is more, and no more than the limit's Overdraft holds.
// Allowed tells whether it fitted; if not, RetryAfter is the time until one
// unit would be admitted again. MaxDelay does not count.
func Charge(s *State, l *Limit, now, cost int64) Decision {
	if l.MaxDelay > 0 { // nobody waits for what has happened
		meter := *l
		meter.MaxDelay = 0
		l = &meter
	}
	d := Step(s, l, now, cost, 0)
	if d.Allowed {
		return d
	}
	room := Step(s, l, now, 0, l.Overdraft).Remaining
	Step(s, l, now, min(cost, room, max(MaxCharge, d.Remaining)), l.Overdraft)
	d = Step(s, l, now, 0, 0)
	d.Allowed = false
	return d
}

// decide fills in the decision on a bucket that owes used of its capacity units:
// wait tells how long it takes until used is at most the given number.
// It reports whether the cost is to be recorded. Decisions are filled in place:
// copies of five words would be most of the price of a step.
func (d *Decision) decide(used, capacity, cost int64, wait func(most int64) int64) (record bool) {
	ask := max(cost, 1)
	d.Remaining = max(0, capacity-used)
	switch {
	case ask > capacity:
		d.RetryAfter = Never
	case used+ask > capacity:
		d.RetryAfter = wait(capacity - ask)
	default:
		d.Allowed = true
		d.Remaining -= cost
	}
	return d.Allowed && cost > 0
}

// nothing is the decision of a limit of quota 0.
func (d *Decision) nothing(cost int64) {
	if d.Allowed = cost < 0; !d.Allowed {
		d.RetryAfter = Never
	}
}
