package policy

import (
	"cmp"
	"strings"
)

// wildcard is what stands for any run of bytes, also none, in a value.
const wildcard = "*"

// A pattern is a value with wildcards.
type pattern struct {
	text   string
	prefix string   // before the first wildcard
	middle []string // between wildcards, none empty
	suffix string   // after the last wildcard
}

func newPattern(text string) pattern {
	parts := strings.Split(text, wildcard)
	last := len(parts) - 1
	p := pattern{text: text, prefix: parts[0], suffix: parts[last]}
	for _, part := range parts[1:last] {
		if part != "" {
			p.middle = append(p.middle, part)
		}
	}
	return p
}

// covers reports whether the pattern covers all of s. Taking each middle part
// where it is first found leaves the most for those after it, so there is
// nothing to try again.
func (p *pattern) covers(s string) bool {
	if len(s) < len(p.prefix)+len(p.suffix) || !strings.HasPrefix(s, p.prefix) || !strings.HasSuffix(s, p.suffix) {
		return false
	}
	s = s[len(p.prefix) : len(s)-len(p.suffix)]
	for _, part := range p.middle {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// compareSpecific orders patterns from the most specific to the least: by the
// number of literal bytes, then by the length of the literal prefix, then by
// text.
func compareSpecific(p, q *pattern) int {
	return cmp.Or(
		cmp.Compare(q.literals(), p.literals()),
		cmp.Compare(len(q.prefix), len(p.prefix)),
		cmp.Compare(p.text, q.text),
	)
}

func (p *pattern) literals() int {
	return len(p.text) - strings.Count(p.text, wildcard)
}
