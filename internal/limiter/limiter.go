// Package limiter is the use case: it matches the descriptors of a request to
// rules, takes from the store, and combines what comes back into a [Verdict].
// It knows no wire.
package limiter

import (
	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
)

// A Request asks for all of its descriptors at once.
type Request struct {
	Domain      string
	Descriptors []Descriptor
	// CanWait says that the caller can hold the request for a delay. Where it
	// cannot, a leaky bucket is a meter: its MaxDelay does not count, and it
	// asks for no delay.
	CanWait bool
}

// A Descriptor is one question of a request.
type Descriptor struct {
	Domain   string // instead of the request's, unless empty
	Entries  policy.Descriptor
	Cost     int64     // 0 to algo.MaxCost; 0 is a peek
	Give     bool      // the cost is given back
	PostPaid bool      // the cost may be of what has happened already; see policy.ChargePostPaid
	Override *Override // stands in for the limits of the rule, or nil
}

// An Override is a limit that a caller brings along.
type Override struct {
	Quota    int64
	Window   int64 // microseconds
	Calendar algo.Calendar
}

// A Verdict is the answer to a request.
type Verdict struct {
	Allowed  bool
	Statuses []Status // one for each descriptor, in order

	results []Result // of all statuses
}

// reset makes v the verdict on n descriptors of which nothing is limited.
func (v *Verdict) reset(n int) {
	v.Allowed = true
	v.results = v.results[:0]
	v.Statuses = v.Statuses[:0]
	for range n {
		v.Statuses = append(v.Statuses, Status{Allowed: true})
	}
}

// A Status is what one descriptor came to.
type Status struct {
	Rule    *policy.Rule // nil if no rule matched
	Allowed bool         // shadowed limits do not count
	Results []Result     // one for each limit of the rule; of an override, one
}

// A Result is what one limit said.
type Result struct {
	Limit     *policy.Limit
	Shadow    bool // it was reported, not enforced: by the rules or by a switch
	QuotaMode bool // it denies only if all limits of quota mode do
	Decision  algo.Decision
	DecidedBy string // the name that New was given for the store, or None
}

// None is what decides where no store is asked.
const None = "none"

// An Outcome is what a limit's decision came to, for counting.
type Outcome uint8

// The outcomes.
const (
	Allowed      Outcome = iota // the limit admitted the request
	Denied                      // the limit denied the request
	ShadowDenied                // it would have, but is shadowed
	Peeked                      // only asked
	Failed                      // the store did not answer
	Outcomes     = iota         // how many there are
)

// An Observer is told what was decided. Its methods run on the hot path: they
// neither block nor allocate, and are safe for concurrent use.
type Observer interface {
	// Decided reports the outcome of one limit for one request.
	Decided(l *policy.Limit, o Outcome)
	// DecidedValue reports the same, after Decided, of a limit whose metrics tell
	// values apart, as policy.Rule.MetricValue has them.
	DecidedValue(l *policy.Limit, value string, o Outcome)
	// Failing reports why a request could not be decided. It may be called as
	// often as there are requests.
	Failing(err error)
	// UnknownDomain reports a request for a domain without rules, once however
	// many descriptors in a row are of that domain, with the first of them. What
	// it is given is the client's, and only lent.
	UnknownDomain(domain string, d policy.Descriptor)
	// Unmatched reports a descriptor that no rule of a known domain matched. What
	// it is given is the client's, and only lent.
	Unmatched(domain string, d policy.Descriptor)
}
