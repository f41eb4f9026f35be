package service

import (
	"strconv"

	rlsdv1 "github.com/rlsd/rlsd/gen/rlsd/v1"
	"github.com/rlsd/rlsd/internal/limiter"
)

// headers tells the verdict to a client in the header fields of HTTP, without
// the limits that are in shadow or hidden:
//
//	Retry-After: 42                               on a denial, unless no wait helps
//	RateLimit-Policy: "per-user";q=100;w=60       draft-ietf-httpapi-ratelimit-headers,
//	RateLimit: "per-user";r=0;t=42                every limit once
//	X-RateLimit-Limit, -Remaining, -Reset         what came before, of one limit
//
// Durations are in seconds, rounded up.
func headers(v *limiter.Verdict, now int64) []*rlsdv1.Header {
	var out []*rlsdv1.Header
	add := func(name string, value []byte) {
		out = append(out, &rlsdv1.Header{Name: name, Value: string(value)})
	}
	var buf [256]byte
	if seconds, ok := retryAfter(v); ok && !v.Allowed {
		add("Retry-After", appendInteger(buf[:0], seconds))
	}
	told := shownLimits(v)
	if len(told) == 0 {
		return out
	}
	policies, limits := buf[:0], make([]byte, 0, 256)
	for i := range told {
		l := &told[i]
		policies, limits = l.appendName(policies, i), l.appendName(limits, i)
		policies = appendInteger(append(policies, ";q="...), l.Limit.Quota)
		if l.Limit.Window >= second {
			policies = appendInteger(append(policies, ";w="...), ceilSeconds(l.Limit.Window))
		}
		limits = appendInteger(append(limits, ";r="...), l.Decision.Remaining)
		limits = appendInteger(append(limits, ";t="...), ceilSeconds(untilReset(l.Result, now)))
	}
	add("RateLimit-Policy", policies)
	add("RateLimit", limits)
	if r := standing(v, told); r != nil {
		add("X-RateLimit-Limit", appendInteger(buf[:0], r.Limit.Quota))
		add("X-RateLimit-Remaining", appendInteger(buf[:0], r.Decision.Remaining))
		add("X-RateLimit-Reset", appendInteger(buf[:0], ceilSeconds(untilReset(r, now))))
	}
	return out
}

// A shownLimit is a limit that clients may see and, of what it said of several
// descriptors, what binds most.
type shownLimit struct {
	*limiter.Result

	ambiguous bool // a limit of another domain has the same name
}

// shownLimits lists the limits in the order in which they come.
func shownLimits(v *limiter.Verdict) []shownLimit {
	var told []shownLimit
	for i := range v.Statuses {
	results:
		for j := range v.Statuses[i].Results {
			r := &v.Statuses[i].Results[j]
			if r.Limit.Hidden || r.Shadow {
				continue
			}
			l := shownLimit{Result: r}
			for k := range told {
				switch other := &told[k]; {
				case other.Limit == r.Limit:
					if binds(r, other.Result) {
						other.Result = r
					}
					continue results
				case other.Limit.Name == r.Limit.Name:
					l.ambiguous, other.ambiguous = true, true
				}
			}
			told = append(told, l)
		}
	}
	return told
}

// standing returns the one that stands for the request: of the same verdict and
// the most binding.
func standing(v *limiter.Verdict, told []shownLimit) *limiter.Result {
	var most *limiter.Result
	for i := range told {
		if r := told[i].Result; r.Decision.Allowed == v.Allowed && (most == nil || binds(r, most)) {
			most = r
		}
	}
	return most
}

// binds reports whether a binds a client more than b: it denies, for longer, or
// leaves less.
func binds(a, b *limiter.Result) bool {
	if a.Decision.Allowed != b.Decision.Allowed {
		return b.Decision.Allowed
	}
	return tellsMore(a, b, a.Decision.Allowed)
}

// appendName begins the i-th member of a list with the name, a String of
// structured fields (RFC 9651), which has no bytes but printable ASCII.
func (l *shownLimit) appendName(buf []byte, i int) []byte {
	if i > 0 {
		buf = append(buf, ", "...)
	}
	buf = append(buf, '"')
	if l.ambiguous {
		buf = append(appendEscaped(buf, l.Limit.Domain), '/')
	}
	return append(appendEscaped(buf, l.Limit.Name), '"')
}

func appendEscaped(buf []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			buf = append(buf, '?')
		case c == '"' || c == '\\':
			buf = append(buf, '\\', c)
		default:
			buf = append(buf, c)
		}
	}
	return buf
}

// maxInteger is the largest Integer of structured fields: 15 digits.
const maxInteger = 999_999_999_999_999

func appendInteger(buf []byte, n int64) []byte {
	return strconv.AppendInt(buf, min(n, maxInteger), 10)
}
