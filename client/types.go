package client

import (
	"math"
	"time"
)

// A Request describes what a caller is about to do.
type Request struct {
	// Domain names the rules that apply. It may be empty if every descriptor
	// has a domain of its own.
	Domain string
	// Descriptors say what the request is, each one question; 1 to 512. The
	// request is allowed only if all of them are.
	Descriptors []Descriptor
	// Cost is how many units the request takes of each limit. Nil means 1; 0
	// only asks: it answers as 1 would and takes nothing.
	Cost *uint64
}

// A Descriptor is one question: entries from the general to the particular, at
// most 64. A rule applies if it is as deep as the descriptor.
type Descriptor struct {
	Domain  string // instead of the request's, unless empty
	Entries []Entry
	Cost    *uint64 // instead of the request's, unless nil
}

// An Entry is a key and its value, both UTF-8. The value may be empty.
type Entry struct{ Key, Value string }

// Never is a RetryAfter: no wait would admit the request, since it costs more
// than a limit can hold, or a limit grants nothing.
const Never time.Duration = math.MaxInt64

// A Verdict is the answer to a request. Durations are exact to the microsecond.
type Verdict struct {
	// Allowed says whether the request is within all of its limits.
	Allowed bool
	// RetryAfter is the time until a request that was denied would be allowed
	// if nobody else took anything, or Never; 0 if it was allowed.
	RetryAfter time.Duration
	// Delay is how long to hold a request that was allowed before it goes on.
	Delay time.Duration
	// Results has one for each descriptor, in order.
	Results []Result
	// Headers are for the caller's own answer to its client: Retry-After,
	// RateLimit and RateLimit-Policy, X-RateLimit-Limit, -Remaining and -Reset.
	Headers []Header
}

// A Header is a header field of HTTP.
type Header struct{ Name, Value string }

// A Result is what one descriptor came to.
type Result struct {
	Allowed bool    // limits in shadow do not count
	Rule    string  // path of the rule that applied, such as plan=premium/user; empty if none did
	Limits  []Limit // of the rule, without those that it does not expose
}

// A Limit is what one limit said.
type Limit struct {
	Domain, Name string // as the configuration has them; a name is unique in its domain
	Algorithm    string // such as fixed_window
	Quota        uint64 // units granted per window
	Window       time.Duration
	Burst        uint64 // most units admitted at once; 0 if the algorithm has none

	Allowed    bool          // whether this limit admits the request, whatever the others say
	Remaining  uint64        // units that would be admitted now, after this request
	RetryAfter time.Duration // until it would admit the request; 0 if it does, or Never
	ResetAfter time.Duration // until it is as if untouched; of a fixed window, until its end
	Delay      time.Duration // how long it wants the request held; leaky_bucket alone does

	Shadow    bool   // reported, denies nothing
	DecidedBy string // memory, redis, or none if no store was asked
}
