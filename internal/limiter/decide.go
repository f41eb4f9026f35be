package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/store"
)

// A Limiter decides requests. It is safe for concurrent use.
type Limiter struct {
	store    store.Store
	name     string // of the store
	policies func() *policy.Snapshot
	observer Observer
	switches *Switches
}

// New returns a limiter that goes by the rules that policies returns at the
// time of each request. Name is what its answers call the store, such as
// memory.
func New(s store.Store, name string, policies func() *policy.Snapshot, o Observer) *Limiter {
	return &Limiter{store: s, name: name, policies: policies, observer: o, switches: newSwitches(policies)}
}

// Switches returns what operators can change while it decides.
func (l *Limiter) Switches() *Switches { return l.switches }

// Decide decides the request at time now and puts the answer into v, whose
// slices it uses again. An error means that there is no answer; it wraps
// store.ErrUnavailable, or ErrOverride for a limit that cannot be enforced.
func (l *Limiter) Decide(ctx context.Context, now time.Time, req *Request, v *Verdict) error {
	v.reset(len(req.Descriptors))
	w := works.Get().(*work)
	defer w.free()
	w.canWait = req.CanWait
	w.switched = l.switches.inForce.Load()
	snapshot := l.policies()
	var p *policy.Policy // of domain
	var domain string
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		if wanted := cmp.Or(d.Domain, req.Domain); i == 0 || wanted != domain {
			domain = wanted
			if p = snapshot.Policy(domain); p == nil {
				l.observer.UnknownDomain(domain, d.Entries)
			}
		}
		if p == nil {
			continue
		}
		if err := l.match(w, p, i, d, &v.Statuses[i]); err != nil {
			return err
		}
	}
	w.replace(v.Statuses)
	by, err := l.take(ctx, now, w)
	if err != nil {
		return err
	}
	l.conclude(w, req, by, v)
	return nil
}

// work is what one request takes while it is decided.
type work struct {
	canWait  bool
	switched *switched // by operators, or nil
	ops      []store.Op
	limits   []*policy.Limit // of each op
	known    []*policy.Limit // the configured limit that each stands for, to count by
	meters   []algo.Limit    // stand in for limits with a MaxDelay where nobody can wait
}

var works = sync.Pool{New: func() any { return new(work) }}

func (w *work) free() {
	clear(w.ops)
	clear(w.limits)
	clear(w.known)
	w.switched = nil
	w.ops, w.limits, w.known, w.meters = w.ops[:0], w.limits[:0], w.known[:0], w.meters[:0]
	works.Put(w)
}

// add adds an op on a limit. The key is that of the descriptor.
func (w *work) add(op store.Op, key string, limit, known *policy.Limit) {
	mode := w.switched.modeFor(known, key)
	if mode == Off {
		return
	}
	op.Limit = &limit.Limit
	if limit.MaxDelay > 0 && !w.canWait {
		// Should meters move, what ops point at stays where it was.
		w.meters = append(w.meters, limit.Limit)
		op.Limit = &w.meters[len(w.meters)-1]
		op.Limit.MaxDelay = 0
	}
	if mode == Shadowed {
		op.Role = store.Shadow
	}
	w.ops = append(w.ops, op)
	w.limits = append(w.limits, limit)
	w.known = append(w.known, known)
}

// match finds the rule of descriptor i and adds an op for each of its limits.
func (l *Limiter) match(w *work, p *policy.Policy, i int, d *Descriptor, s *Status) error {
	domain := p.Domain()
	s.Rule = p.Match(d.Entries)
	if s.Rule == nil {
		l.observer.Unmatched(domain, d.Entries)
	}
	op := store.Op{Descriptor: i, Cost: d.Cost, Role: store.Must}
	if s.Rule != nil && s.Rule.QuotaMode {
		op.Role = store.Quota
	}
	if d.Override != nil {
		limit, known, err := d.Override.limit(domain, s.Rule)
		if err != nil {
			return fmt.Errorf("descriptors[%d].limit: %w", i, err)
		}
		// A key of its own for each window that callers come up with, so that
		// no number of them makes one key grow.
		bucket := key(domain, s.Rule, d)
		op.Key = bucket + "/~override:" + strconv.FormatUint(limit.ID(), 36)
		op.Kind = kind(d, limit)
		w.add(op, bucket, limit, known)
		return nil
	}
	if s.Rule == nil || len(s.Rule.Limits) == 0 {
		return nil
	}
	op.Key = s.Rule.Key(domain, d.Entries)
	for _, limit := range s.Rule.Limits {
		op.Kind = kind(d, limit)
		w.add(op, op.Key, limit, limit)
	}
	return nil
}

func key(domain string, rule *policy.Rule, d *Descriptor) string {
	if rule == nil {
		return policy.Key(domain, d.Entries)
	}
	return rule.Key(domain, d.Entries)
}

func kind(d *Descriptor, l *policy.Limit) store.Kind {
	switch {
	case d.Cost == 0:
		return store.Peek
	case d.Give:
		return store.Give
	case l.Charge == policy.ChargeAlways, l.Charge == policy.ChargePostPaid && d.PostPaid:
		return store.Charge
	default:
		return store.Take
	}
}

// replace drops the ops on limits that a rule of the request replaces.
func (w *work) replace(statuses []Status) {
	if !slices.ContainsFunc(statuses, func(s Status) bool { return s.Rule != nil && len(s.Rule.Replaces) > 0 }) {
		return
	}
	replaced := func(l *policy.Limit) bool {
		return !nameless(l) && slices.ContainsFunc(statuses, func(s Status) bool {
			return s.Rule != nil && s.Rule.Domain == l.Domain && slices.Contains(s.Rule.Replaces, l.Name)
		})
	}
	kept := 0
	for i := range w.ops {
		if !replaced(w.limits[i]) {
			w.ops[kept], w.limits[kept], w.known[kept] = w.ops[i], w.limits[i], w.known[i]
			kept++
		}
	}
	clear(w.ops[kept:])
	w.ops, w.limits, w.known = w.ops[:kept], w.limits[:kept], w.known[:kept]
}

// take asks the store, unless all that is asked for are limits of nothing, and
// returns what decided. It fails if an op that counts has failed, unless the
// request is denied anyway.
func (l *Limiter) take(ctx context.Context, now time.Time, w *work) (by string, err error) {
	by, err = None, errNotAsked
	if needsStore(w.ops) {
		by, err = l.name, l.store.Take(ctx, now, w.ops)
	}
	for i := range w.ops {
		op := &w.ops[i]
		if err != nil {
			op.Err = err
		}
		if op.Err != nil && op.Kind != store.Give && never(op, now, op.Cost) {
			op.Decision, op.Err = untouched(op, now, op.Cost), nil
		}
	}
	if store.Denied(w.ops) || !store.Failed(w.ops) {
		return by, nil
	}
	for i := range w.ops {
		l.observer.Decided(w.known[i], Failed)
		if failed := &w.ops[i]; err == nil && failed.Err != nil {
			err = fmt.Errorf("%w: limit %q: %w", store.ErrUnavailable, w.limits[i].Name, failed.Err)
		}
	}
	l.observer.Failing(err)
	return by, err
}

var errNotAsked = errors.New("the store was not asked")

func needsStore(ops []store.Op) bool {
	for i := range ops {
		if ops[i].Limit.Quota > 0 || ops[i].Kind == store.Give {
			return true
		}
	}
	return false
}

// untouched is what a fresh bucket would decide on a cost.
func untouched(op *store.Op, now time.Time, cost int64) algo.Decision {
	return algo.Step(new(algo.State), op.Limit, now.UnixMicro(), cost, 0)
}

// never reports whether even a fresh bucket would deny the cost.
func never(op *store.Op, now time.Time, cost int64) bool {
	return untouched(op, now, cost).RetryAfter == algo.Never
}

// conclude turns the ops into the verdict. Those that failed say nothing.
func (l *Limiter) conclude(w *work, req *Request, by string, v *Verdict) {
	v.Allowed = !store.Denied(w.ops)
	for i := 0; i < len(w.ops); {
		from, descriptor := len(v.results), w.ops[i].Descriptor
		for ; i < len(w.ops) && w.ops[i].Descriptor == descriptor; i++ {
			l.report(w, req, i, by, v)
		}
		v.Statuses[descriptor].Results = slices.Clip(v.results[from:])
	}
}

func (l *Limiter) report(w *work, req *Request, i int, by string, v *Verdict) {
	op := &w.ops[i]
	if op.Err != nil {
		l.observer.Decided(w.known[i], Failed)
		return
	}
	over := !op.Decision.Allowed && op.Kind != store.Give
	if !w.canWait {
		op.Decision.Delay = 0
	}
	v.results = append(v.results, Result{w.limits[i], op.Role == store.Shadow, op.Role == store.Quota, op.Decision, by})
	status := &v.Statuses[op.Descriptor]
	if over && op.Role != store.Shadow {
		status.Allowed = false
	}
	if op.Kind == store.Give {
		return
	}
	l.observer.Decided(w.known[i], outcome(op, over))
	if status.Rule != nil {
		if value := status.Rule.MetricValue(req.Descriptors[op.Descriptor].Entries); value != "" {
			l.observer.DecidedValue(w.known[i], value, outcome(op, over))
		}
	}
}

func outcome(op *store.Op, over bool) Outcome {
	switch {
	case op.Kind == store.Peek:
		return Peeked
	case !over:
		return Allowed
	case op.Role == store.Shadow:
		return ShadowDenied
	default:
		return Denied
	}
}
