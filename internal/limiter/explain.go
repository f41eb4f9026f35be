package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/store"
)

// A Question asks why descriptors are answered as they are.
type Question struct {
	Domain      string
	Descriptors []policy.Descriptor
	Cost        int64 // of each descriptor, 0 to algo.MaxCost
}

// An Explanation is what rules and buckets say of a question.
type Explanation struct {
	Known       bool         // whether the domain has rules
	Domains     policy.Names // that are like it, if not
	Descriptors []Explained  // one for each descriptor, in order; empty if the domain is unknown

	Allowed    bool   // what Decide would say, unless Unknown
	Unknown    bool   // it depends on what the store did not tell
	RetryAfter int64  // microseconds until it would be allowed; algo.Never if no wait helps; 0 if denied and unknown
	Store      string // the name that New was given for the store, or None
	Err        error  // why the store told nothing, or not of each limit
}

// An Explained is what there is to say of one descriptor.
type Explained struct {
	policy.Explanation

	Key    string // of the bucket; empty if no limit applies
	Limits []State
}

// A State is what one limit would say, and how its bucket stands.
type State struct {
	*policy.Limit

	Mode     Mode  // for this descriptor, by the rules and the switches; what is Off has no say
	Replaced bool  // by another rule of the question: it has no say
	Err      error // why the bucket's state is not known

	// The state: what a peek tells.
	Remaining  int64
	ResetAfter int64
	Debt       int64 // owed beyond capacity

	// What the cost would come to.
	Allowed    bool
	RetryAfter int64 // as that of an Explanation
	Charged    bool  // the cost is recorded though it is denied: how long it then takes is unknown
}

// Explain says what Decide would answer at time now to a caller that can wait,
// and why. It takes nothing, writes nothing, counts nothing in metrics, and asks
// the store once, if at all.
func (l *Limiter) Explain(ctx context.Context, now time.Time, q Question) Explanation {
	x := Explanation{Allowed: true, Store: None}
	snapshot := l.policies()
	p := snapshot.Policy(q.Domain)
	if x.Known = p != nil; !x.Known {
		x.Domains = snapshot.NearDomains(q.Domain)
		return x
	}
	for _, d := range q.Descriptors {
		x.Descriptors = append(x.Descriptors, l.explained(p, d))
	}
	x.markReplaced()
	var s survey
	for i := range x.Descriptors {
		s.add(i, &x.Descriptors[i], now, q.Cost)
	}
	if needsStore(s.ops) {
		x.Store = l.name
		x.Err = l.store.Take(ctx, now, s.ops)
	}
	x.conclude(s.answers(x.Err, now))
	return x
}

func (l *Limiter) explained(p *policy.Policy, d policy.Descriptor) Explained {
	e := Explained{Explanation: p.Explain(d)}
	if e.Rule == nil || len(e.Rule.Limits) == 0 {
		return e
	}
	e.Key = e.Rule.Key(p.Domain(), d)
	for _, limit := range e.Rule.Limits {
		e.Limits = append(e.Limits, State{Limit: limit, Mode: l.switches.inForce.Load().modeFor(limit, e.Key)})
	}
	return e
}

func (x *Explanation) markReplaced() {
	var names []string
	for i := range x.Descriptors {
		if rule := x.Descriptors[i].Rule; rule != nil {
			names = append(names, rule.Replaces...)
		}
	}
	for i := range x.Descriptors {
		for j := range x.Descriptors[i].Limits {
			state := &x.Descriptors[i].Limits[j]
			state.Replaced = slices.Contains(names, state.Name)
		}
	}
}

// A survey has the peeks that tell the states of limits.
type survey struct {
	ops   []store.Op
	asked []asked
}

// An asked is a limit and where among the ops its peeks are.
type asked struct {
	state      *State
	descriptor int
	role       store.Role
	key        string
	cost       int64 // with what the question takes of the same bucket before
	first      int   // how it stands
	wait       int   // how long the cost has to wait, or -1
	debt       int   // what it owes, or -1
}

// add adds what asks of the limits of a descriptor.
func (s *survey) add(descriptor int, e *Explained, now time.Time, cost int64) {
	for i := range e.Limits {
		state := &e.Limits[i]
		if state.Replaced || state.Mode == Off {
			continue
		}
		a := asked{state: state, descriptor: descriptor, role: store.Must, key: e.Key, first: len(s.ops), wait: -1, debt: -1}
		switch {
		case state.Mode == Shadowed:
			a.role = store.Shadow
		case e.Rule.QuotaMode:
			a.role = store.Quota
		}
		a.cost = min(s.before(&a)+cost, algo.MaxCost)
		limit := &state.Limit.Limit
		s.peek(&a, limit)
		op := &s.ops[a.first]
		state.Charged = cost > 0 && state.Charge == policy.ChargeAlways
		if a.cost > 1 && !state.Charged && !never(op, now, a.cost) {
			a.wait = s.peek(&a, lowered(limit, a.cost-1))
		}
		if owing := raised(limit); owing != nil {
			a.debt = s.peek(&a, owing)
		}
		s.asked = append(s.asked, a)
	}
}

// before returns what descriptors before this one want of the same bucket.
func (s *survey) before(a *asked) int64 {
	for _, other := range slices.Backward(s.asked) {
		if other.key == a.key && other.state.ID() == a.state.ID() {
			return other.cost
		}
	}
	return 0
}

func (s *survey) peek(a *asked, limit *algo.Limit) (index int) {
	s.ops = append(s.ops, store.Op{Key: a.key, Limit: limit, Kind: store.Peek, Role: store.Shadow, Descriptor: a.descriptor})
	return len(s.ops) - 1
}

// lowered returns a limit whose bucket is the same and that says to a cost of 1
// what the limit says to one of 1+by, of which it could hold as much.
func lowered(limit *algo.Limit, by int64) *algo.Limit {
	low := *limit
	if low.Algorithm.IsBucket() {
		low.Burst -= by
	} else {
		low.Quota -= by
	}
	low.Overdraft += by
	return &low
}

// raised returns a limit whose bucket is the same and that has room left for as
// much of what the limit can be owed as is not, or nil if it is never owed
// anything.
func raised(limit *algo.Limit) *algo.Limit {
	high := *limit
	if high.Quota == 0 || high.Overdraft == 0 || max(high.Quota, high.Burst)+high.Overdraft > algo.MaxQuota {
		return nil
	}
	if high.Algorithm.IsBucket() {
		high.Burst += high.Overdraft
	} else {
		high.Quota += high.Overdraft
	}
	high.Overdraft, high.MaxDelay = 0, 0
	return &high
}

// answers puts what the peeks told into the states, and returns an op for each
// limit with its decision on the cost. Err is that of the call.
func (s *survey) answers(err error, now time.Time) []store.Op {
	answers := make([]store.Op, 0, len(s.asked))
	for _, a := range s.asked {
		op := s.ops[a.first]
		op.Role, op.Kind, op.Err = a.role, store.Take, firstErr(err, op.Err)
		impossible := never(&op, now, a.cost)
		if op.Limit.Quota == 0 {
			op.Err = nil // no store was needed
			op.Decision = untouched(&op, now, 0)
		}
		a.state.Err = op.Err
		if op.Err == nil {
			a.state.Remaining, a.state.ResetAfter = op.Decision.Remaining, op.Decision.ResetAfter
			a.state.Debt = s.owed(&a)
			op.Decision.Allowed = max(a.cost, 1) <= op.Decision.Remaining
			op.Decision.RetryAfter = s.waits(&a)
		}
		if impossible {
			op.Err, op.Decision.Allowed = nil, false
		}
		switch {
		case a.state.Charged && op.Limit.Quota > 0:
			op.Decision.RetryAfter = 0
		case impossible:
			op.Decision.RetryAfter = algo.Never
		}
		a.state.Charged = a.state.Charged && op.Err == nil && !op.Decision.Allowed
		a.state.Allowed, a.state.RetryAfter = op.Decision.Allowed, op.Decision.RetryAfter
		answers = append(answers, op)
	}
	return answers
}

func firstErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (s *survey) owed(a *asked) int64 {
	if a.debt < 0 || s.ops[a.debt].Err != nil || a.state.Remaining > 0 {
		return 0
	}
	return max(0, a.state.Overdraft-s.ops[a.debt].Decision.Remaining)
}

func (s *survey) waits(a *asked) int64 {
	if a.wait >= 0 && s.ops[a.wait].Err == nil {
		return s.ops[a.wait].Decision.RetryAfter
	}
	return s.ops[a.first].Decision.RetryAfter
}

// conclude says what all answers come to.
func (x *Explanation) conclude(answers []store.Op) {
	x.Allowed = !store.Denied(answers)
	x.Unknown = x.Allowed && store.Failed(answers)
	unknown := false
	for i := range answers {
		switch a := &answers[i]; {
		case a.Err != nil && x.Err == nil:
			x.Err = fmt.Errorf("%w: %w", store.ErrUnavailable, a.Err)
		case a.Err != nil || a.Decision.Allowed || a.Role == store.Shadow || x.Allowed || x.RetryAfter == algo.Never:
		case a.Decision.RetryAfter == algo.Never:
			x.RetryAfter = algo.Never
		default:
			unknown = unknown || a.Decision.RetryAfter == 0
			x.RetryAfter = max(x.RetryAfter, a.Decision.RetryAfter)
		}
	}
	if unknown && x.RetryAfter != algo.Never {
		x.RetryAfter = 0
	}
}
