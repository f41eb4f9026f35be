package service

import "github.com/rlsd/rlsd/internal/limiter"

// problem is the denial as a problem of RFC 9457:
//
//	type, title        draft-ietf-httpapi-ratelimit-headers
//	violated-policies  the names that the RateLimit header has, of what denied;
//	                   not there if all of them are hidden
//	retry-after        in seconds; not there if no wait helps
//
// There is no status: Envoy chooses it (rate_limited_status). The names need no
// escaping of their own, as every String of structured fields is one of JSON.
func (c *clientView) problem(v *limiter.Verdict) []byte {
	body := append(make([]byte, 0, 256), `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",`+
		`"title":"Request cannot be satisfied as assigned quota has been exceeded"`...)
	named := false
	for i := range c.limits {
		l := &c.limits[i]
		if l.Decision.Allowed {
			continue
		}
		if !named {
			body, named = append(body, `,"violated-policies":[`...), true
			body = l.appendName(body, 0)
			continue
		}
		body = l.appendName(body, 1)
	}
	if named {
		body = append(body, ']')
	}
	if seconds, ok := retryAfter(v); ok {
		body = appendInteger(append(body, `,"retry-after":`...), seconds)
	}
	return append(body, '}')
}
