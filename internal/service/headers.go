package service

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	rlsdv1 "github.com/rlsd/rlsd/gen/rlsd/v1"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// A header is a field of HTTP that tells a client of its limits:
//
//	Retry-After: 42                               on a denial, unless no wait helps
//	RateLimit-Policy: "per-user";q=100;w=60       draft-ietf-httpapi-ratelimit-headers,
//	RateLimit: "per-user";r=0;t=42                every limit once
//	X-RateLimit-Limit, -Remaining, -Reset         what came before, of one limit
//	RateLimit-Limit, -Remaining, -Reset           the same, of the reference service
//
// Durations are in seconds, rounded up. Limits that are in shadow or hidden are
// left out.
type header struct{ canonical, lower string }

var (
	retryAfterHeader = &header{"Retry-After", "retry-after"}
	policyHeader     = &header{"RateLimit-Policy", "ratelimit-policy"}
	limitHeader      = &header{"RateLimit", "ratelimit"}

	xRateLimitHeaders = [3]*header{
		{"X-RateLimit-Limit", "x-ratelimit-limit"},
		{"X-RateLimit-Remaining", "x-ratelimit-remaining"},
		{"X-RateLimit-Reset", "x-ratelimit-reset"},
	}
	referenceHeaders = [3]*header{
		{"RateLimit-Limit", "ratelimit-limit"},
		{"RateLimit-Remaining", "ratelimit-remaining"},
		{"RateLimit-Reset", "ratelimit-reset"},
	}
)

// A HeaderSet says which header fields tell clients of their limits, besides
// Retry-After.
type HeaderSet uint8

// The families of header fields.
const (
	IETF       HeaderSet = 1 << iota // RateLimit-Policy, RateLimit
	XRateLimit                       // X-RateLimit-Limit, -Remaining, -Reset
	Reference                        // RateLimit-Limit, -Remaining, -Reset
)

// ParseHeaderSet reads a list of ietf, x-ratelimit and reference, or none alone.
func ParseHeaderSet(names []string) (set HeaderSet, err error) {
	for _, name := range names {
		switch name {
		case "ietf":
			set |= IETF
		case "x-ratelimit":
			set |= XRateLimit
		case "reference":
			set |= Reference
		case "none":
			if len(names) > 1 {
				return 0, errors.New("none goes with nothing else")
			}
		default:
			return 0, fmt.Errorf("%q: want ietf, x-ratelimit and reference, or none", name)
		}
	}
	return set, nil
}

// A clientView is what clients are told of a verdict. It is made to be used
// again.
type clientView struct {
	limits []shownLimit
	fields []headerField
	text   []byte // all values
}

type headerField struct {
	*header

	value    string
	from, to int // in text
}

// see looks at the verdict and renders the headers of the set.
func (c *clientView) see(v *limiter.Verdict, now int64, set HeaderSet) {
	c.limits, c.fields, c.text = appendShown(c.limits[:0], v), c.fields[:0], c.text[:0]
	if seconds, ok := retryAfter(v); ok && !v.Allowed {
		c.addNumber(retryAfterHeader, seconds)
	}
	if set&IETF != 0 && len(c.limits) > 0 {
		c.addLists(now)
	}
	if r := standing(v, c.limits); r != nil {
		if set&XRateLimit != 0 {
			c.addNumbers(&xRateLimitHeaders, r, now)
		}
		if set&Reference != 0 {
			c.addNumbers(&referenceHeaders, r, now)
		}
	}
	all := string(c.text)
	for i := range c.fields {
		f := &c.fields[i]
		f.value = all[f.from:f.to]
	}
}

// add adds a header whose value is the text from there on.
func (c *clientView) add(h *header, from int) {
	c.fields = append(c.fields, headerField{header: h, from: from, to: len(c.text)})
}

func (c *clientView) addNumber(h *header, n int64) {
	from := len(c.text)
	c.text = appendInteger(c.text, n)
	c.add(h, from)
}

// addNumbers tells one limit within the bounds of Envoy's own headers, in which
// all is 32 bits wide and no more remains than there is a window.
func (c *clientView) addNumbers(h *[3]*header, r *limiter.Result, now int64) {
	quota := clamp(r.Limit.Quota)
	c.addNumber(h[0], int64(quota))
	c.addNumber(h[1], int64(min(clamp(r.Decision.Remaining), quota)))
	c.addNumber(h[2], ceilSeconds(untilReset(r, now)))
}

// addLists tells all limits.
func (c *clientView) addLists(now int64) {
	from := len(c.text)
	for i := range c.limits {
		l := &c.limits[i]
		c.text = appendInteger(append(l.appendName(c.text, i), ";q="...), l.Limit.Quota)
		if l.Limit.Window >= second {
			c.text = appendInteger(append(c.text, ";w="...), ceilSeconds(l.Limit.Window))
		}
	}
	c.add(policyHeader, from)
	from = len(c.text)
	for i := range c.limits {
		l := &c.limits[i]
		c.text = appendInteger(append(l.appendName(c.text, i), ";r="...), l.Decision.Remaining)
		c.text = appendInteger(append(c.text, ";t="...), ceilSeconds(untilReset(l.Result, now)))
	}
	c.add(limitHeader, from)
}

// headers tells the verdict in the headers of Decide.
func headers(v *limiter.Verdict, now int64) []*rlsdv1.Header {
	var c clientView
	c.see(v, now, IETF|XRateLimit)
	var out []*rlsdv1.Header
	for i := range c.fields {
		out = append(out, &rlsdv1.Header{Name: c.fields[i].canonical, Value: c.fields[i].value})
	}
	return out
}

// A shownLimit is a limit that clients may see and, of what it said of several
// descriptors, what binds most.
type shownLimit struct {
	*limiter.Result

	ambiguous bool // a limit of another domain has the same name
}

// maxShown bounds the headers, which peers bound too: nginx takes 4 to 8 KB of
// all of them by default.
const maxShown = 16

// appendShown lists the limits in the order in which they come and, should
// there be more than maxShown, those that bind most.
func appendShown(told []shownLimit, v *limiter.Verdict) []shownLimit {
	for i := range v.Statuses {
		for j := range v.Statuses[i].Results {
			if r := &v.Statuses[i].Results[j]; !r.Limit.Hidden && !r.Shadow {
				told = show(told, r)
			}
		}
	}
	for i := range told {
		for j := range i {
			if told[i].Limit.Name == told[j].Limit.Name {
				told[i].ambiguous, told[j].ambiguous = true, true
			}
		}
	}
	return told
}

func show(told []shownLimit, r *limiter.Result) []shownLimit {
	least := 0 // of those told, the one that binds least
	for k := range told {
		if same(told[k].Limit, r.Limit) {
			if binds(r, told[k].Result) {
				told[k].Result = r
			}
			return told
		}
		if binds(told[least].Result, told[k].Result) {
			least = k
		}
	}
	if len(told) < maxShown {
		return append(told, shownLimit{Result: r})
	}
	if binds(r, told[least].Result) {
		told = append(slices.Delete(told, least, least+1), shownLimit{Result: r})
	}
	return told
}

// same reports whether clients could not tell one from the other, as those that
// callers bring along for one rule.
func same(a, b *policy.Limit) bool { return a == b || a.Name == b.Name && a.Domain == b.Domain }

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
