// Package store is the port through which the limiter takes from buckets. A
// [Store] keeps the states of the limits' buckets and steps them; where it
// keeps them is its own affair. Package storetest holds what every
// implementation must do.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
)

// A Store takes from buckets. Implementations are safe for concurrent use.
type Store interface {
	// Take performs the ops of one request in order and as one atomic step,
	// and puts the decision or the error into each op. Ops on one key see each
	// other. It returns no later than ctx ends. An error returned by Take
	// means that no op has a decision; it wraps ErrUnavailable. The ops may
	// have been performed nonetheless, but never more than once.
	Take(ctx context.Context, now time.Time, ops []Op) error
	// Reset forgets the buckets under the keys.
	Reset(ctx context.Context, keys []string) error
	// Close releases what the store holds. No other call may be under way.
	Close() error
}

// A Readier is a store that can tell whether it would answer.
type Readier interface {
	Ready(ctx context.Context) error
}

var (
	// ErrUnavailable says that the store was not reached or did not answer in
	// time.
	ErrUnavailable = errors.New("store unavailable")
	// ErrFull is the error of an op that needs a new bucket in a store that
	// has no room for one.
	ErrFull = errors.New("no room for another bucket")
	// ErrForeign is the error of an op whose key holds what rlsd did not write.
	ErrForeign = errors.New("the key holds a foreign value")
)

// A Kind is what an op does to its bucket.
type Kind uint8

// Kinds of op, by the numbers that go to Redis.
const (
	Take   Kind = 1 // takes the cost if the request is allowed
	Peek   Kind = 2 // takes nothing; decides as a take of 1
	Give   Kind = 3 // gives the cost back, always
	Charge Kind = 4 // records the cost, always; see algo.Charge
)

// A Role is how much an op's decision counts in the verdict on its request.
type Role uint8

// Roles of an op, by the numbers that go to Redis.
const (
	Must   Role = 1 // over denies the request
	Quota  Role = 2 // over denies the request if all quota descriptors are over
	Shadow Role = 3 // over denies nothing
)

// An Op is one operation on one bucket.
type Op struct {
	Key        string // the node's; all limits of a node share it
	Limit      *algo.Limit
	Kind       Kind
	Role       Role
	Descriptor int   // index of the descriptor in its request
	Cost       int64 // 0 to algo.MaxCost

	// Decision and Err are the outcome; Decision holds if Err is nil. Allowed
	// says whether this op's own limit admits it, whatever the verdict.
	Decision algo.Decision
	Err      error
}

// Denied is the verdict on the request that ops make up: whether an op that
// must be allowed is not, or whether there are quota descriptors and each of
// them has an op that is over. An op with an error denies nothing.
func Denied(ops []Op) bool {
	quota, anyLeft := false, false
	for i := range ops {
		switch op := &ops[i]; {
		case op.Role == Must && op.over():
			return true
		case op.Role == Quota && !quota:
			quota, anyLeft = true, Fits(ops, op.Descriptor)
		case op.Role == Quota && !anyLeft:
			anyLeft = Fits(ops, op.Descriptor)
		}
	}
	return quota && !anyLeft
}

// Fits reports whether no quota op of the descriptor is over.
func Fits(ops []Op, descriptor int) bool {
	for i := range ops {
		if op := &ops[i]; op.Descriptor == descriptor && op.Role == Quota && op.over() {
			return false
		}
	}
	return true
}

// Failed reports whether an op that counts in the verdict has an error. The
// others have been performed all the same: the store knows no failure modes.
func Failed(ops []Op) bool {
	for i := range ops {
		if ops[i].Err != nil && ops[i].Role != Shadow {
			return true
		}
	}
	return false
}

// Written reports whether the op leaves a trace, given the verdict.
func Written(ops []Op, i int, denied bool) bool {
	switch op := &ops[i]; op.Kind {
	case Give, Charge:
		return op.Err == nil
	case Take:
		return op.Err == nil && op.Decision.Allowed && !denied &&
			(op.Role != Quota || Fits(ops, op.Descriptor))
	case Peek:
	}
	return false
}

func (op *Op) over() bool { return op.Err == nil && op.Kind != Give && !op.Decision.Allowed }
