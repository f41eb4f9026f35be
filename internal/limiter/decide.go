package limiter

import (
	"context"
	"fmt"
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
	policies func() *policy.Snapshot
	observer Observer
}

// New returns a limiter that goes by the rules that policies returns at the
// time of each request.
func New(s store.Store, policies func() *policy.Snapshot, o Observer) *Limiter {
	return &Limiter{store: s, policies: policies, observer: o}
}

// Decide decides the request at time now and puts the answer into v, whose
// slices it uses again. An error means that there is no answer; it wraps
// store.ErrUnavailable, or ErrOverride for a limit that cannot be enforced.
func (l *Limiter) Decide(ctx context.Context, now time.Time, req *Request, v *Verdict) error {
	v.reset(len(req.Descriptors))
	p := l.policies().Policy(req.Domain)
	if p == nil {
		l.observer.UnknownDomain()
		return nil
	}
	w := works.Get().(*work)
	defer w.free()
	for i := range req.Descriptors {
		if err := l.match(w, p, req.Domain, i, &req.Descriptors[i], &v.Statuses[i]); err != nil {
			return err
		}
	}
	if err := l.take(ctx, now, w); err != nil {
		return err
	}
	l.conclude(w, v)
	return nil
}

// work is what one request takes while it is decided.
type work struct {
	ops    []store.Op
	limits []*policy.Limit // of each op
	known  []*policy.Limit // the configured limit that each stands for, to count by
}

var works = sync.Pool{New: func() any { return new(work) }}

func (w *work) free() {
	clear(w.ops)
	clear(w.limits)
	clear(w.known)
	w.ops, w.limits, w.known = w.ops[:0], w.limits[:0], w.known[:0]
	works.Put(w)
}

func (w *work) add(op store.Op, limit, known *policy.Limit) {
	op.Limit = &limit.Limit
	op.Role = store.Must
	if limit.Shadow {
		op.Role = store.Shadow
	}
	w.ops = append(w.ops, op)
	w.limits = append(w.limits, limit)
	w.known = append(w.known, known)
}

// match finds the rule of descriptor i and adds an op for each of its limits.
func (l *Limiter) match(w *work, p *policy.Policy, domain string, i int, d *Descriptor, s *Status) error {
	s.Rule = p.Match(d.Entries)
	if s.Rule == nil {
		l.observer.Unmatched()
	}
	op := store.Op{Kind: kind(d), Descriptor: i, Cost: d.Cost}
	if d.Override != nil {
		limit, known, err := d.Override.limit(domain, s.Rule)
		if err != nil {
			return fmt.Errorf("descriptors[%d].limit: %w", i, err)
		}
		// A key of its own for each window that callers come up with, so that
		// no number of them makes one key grow.
		op.Key = policy.Key(domain, d.Entries) + "/~override:" + strconv.FormatUint(limit.ID(), 36)
		w.add(op, limit, known)
		return nil
	}
	if s.Rule == nil || len(s.Rule.Limits) == 0 {
		return nil
	}
	op.Key = policy.Key(domain, d.Entries)
	for _, limit := range s.Rule.Limits {
		w.add(op, limit, limit)
	}
	return nil
}

func kind(d *Descriptor) store.Kind {
	switch {
	case d.Cost == 0:
		return store.Peek
	case d.Give:
		return store.Give
	default:
		return store.Take
	}
}

// take asks the store, unless all that is asked for are limits of nothing.
func (l *Limiter) take(ctx context.Context, now time.Time, w *work) error {
	if !needsStore(w.ops) {
		for i := range w.ops {
			op := &w.ops[i]
			op.Decision = algo.Step(new(algo.State), op.Limit, now.UnixMicro(), 1, 0)
		}
		return nil
	}
	err := l.store.Take(ctx, now, w.ops)
	for i := range w.ops {
		if err == nil && w.ops[i].Err != nil {
			err = fmt.Errorf("%w: limit %q: %w", store.ErrUnavailable, w.limits[i].Name, w.ops[i].Err)
		}
	}
	if err != nil {
		for i := range w.ops {
			l.observer.Decided(w.known[i], Failed)
		}
	}
	return err
}

func needsStore(ops []store.Op) bool {
	for i := range ops {
		if ops[i].Limit.Quota > 0 || ops[i].Kind == store.Give {
			return true
		}
	}
	return false
}

// conclude turns the ops into the verdict.
func (l *Limiter) conclude(w *work, v *Verdict) {
	v.Allowed = !store.Denied(w.ops)
	for i := range w.ops {
		op, limit := &w.ops[i], w.limits[i]
		v.results = append(v.results, Result{limit, op.Decision})
		over := !op.Decision.Allowed && op.Kind != store.Give
		if over && op.Role == store.Must {
			v.Statuses[op.Descriptor].Allowed = false
		}
		if op.Kind != store.Give {
			l.observer.Decided(w.known[i], outcome(op, over))
		}
	}
	for from := 0; from < len(w.ops); { // ops of a descriptor are together
		to := from + 1
		for to < len(w.ops) && w.ops[to].Descriptor == w.ops[from].Descriptor {
			to++
		}
		v.Statuses[w.ops[from].Descriptor].Results = v.results[from:to:to]
		from = to
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
