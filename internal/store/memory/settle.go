package memory

import (
	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/store"
)

// settle sets right for how long the parts of a denied request have to wait that
// ask one bucket together. Each part was told as if those before it had been
// taken now, or not at all; but if the request comes again, they come again too.
func (w *workspace) settle(now int64, ops []store.Op) {
	for b := range w.buckets {
		parts, wait := w.together(b, ops)
		if wait <= 0 {
			continue
		}
		wait = w.buckets[b].wait(now, parts, wait)
		for _, op := range parts {
			if op.Role == store.Must && !op.Decision.Allowed {
				op.Decision.RetryAfter = wait
			}
		}
	}
}

// together returns the ops on bucket b and the longest that one of them was told
// to wait; 0 if nothing is to be settled.
func (w *workspace) together(b int, ops []store.Op) (parts []*store.Op, wait int64) {
	for i := range ops {
		op := &ops[i]
		switch {
		case w.of[i] != b:
			continue
		case op.Err != nil || op.Kind == store.Charge || op.Decision.RetryAfter == algo.Never:
			return nil, 0
		case op.Role == store.Must && op.Kind != store.Give:
			wait = max(wait, op.Decision.RetryAfter)
		}
		parts = append(parts, op)
	}
	if len(parts) < 2 {
		return nil, 0
	}
	return parts, wait
}

// maxAttempts bounds the search for the time at which all parts fit. Beyond it
// they are told to wait until the bucket is as if untouched.
const maxAttempts = 8

// wait returns how long it is until all parts fit, which is not before least.
func (b *bucket) wait(now int64, parts []*store.Op, least int64) int64 {
	if attempt(algo.State{}, now, parts) != 0 {
		return algo.Never
	}
	for range maxAttempts {
		more := attempt(b.state, now+least, parts)
		if more == 0 {
			return least
		}
		least += more
	}
	state := b.state
	return algo.Step(&state, parts[0].Limit, now, 0, 0).ResetAfter
}

// attempt returns for how long the first of the parts that is denied would have
// to wait, if they came now, and 0 if none is.
func attempt(state algo.State, now int64, parts []*store.Op) int64 {
	for _, op := range parts {
		before := state
		d := perform(&state, op, op.Kind, now)
		if op.Kind == store.Peek || !d.Allowed {
			state = before
		}
		if op.Role == store.Must && op.Kind != store.Give && !d.Allowed {
			return d.RetryAfter
		}
	}
	return 0
}
