package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/rlsd/rlsd/internal/limiter"
)

// text is the page for people. Untouched says that no server was asked.
func (p *explainPage) text(untouched bool) string {
	var b prose
	if !p.Known {
		b.say(0, "the domain %s has no rules, so nothing is limited%s", cmp.Or(visible(p.Domain), `""`),
			list("; the nearest that have: ", p.NearDomains, p.MoreDomains))
		b.say(0, "")
	}
	for i := range p.Descriptors {
		p.Descriptors[i].tell(&b, p)
		b.say(0, "")
	}
	condition := ""
	if untouched && len(p.Descriptors) > 0 {
		condition = ", with buckets that nobody has touched"
	}
	b.say(0, "a request with a cost of %d%s: %s", p.Cost, condition, p.verdict())
	if p.StoreError != "" {
		b.say(0, "the store (%s) did not tell how all limits stand: %s", visible(p.Store), visible(p.StoreError))
	}
	return b.String()
}

func (p *explainPage) verdict() string {
	switch p.Answer {
	case "unknown":
		return "it depends on the store, which did not answer"
	case "denied":
		return denial(p.RetryAfter, p.Never)
	default:
		return visible(p.Answer)
	}
}

func denial(retryAfter *int64, never bool) string {
	switch {
	case never:
		return "denied, and no wait helps"
	case retryAfter == nil:
		return "denied"
	default:
		return "denied, retry after " + lasting(*retryAfter)
	}
}

// A prose is lines of text.
type prose struct{ strings.Builder }

func (b *prose) say(indent int, format string, args ...any) {
	_, _ = fmt.Fprintf(b, "%s"+format+"\n", append([]any{strings.Repeat("  ", indent)}, args...)...)
}

// tell says what became of a descriptor.
func (v *explainedValue) tell(b *prose, p *explainPage) {
	b.say(0, "%s: %s", visible(v.Descriptor), v.outcome())
	for i := range v.Levels {
		v.tellLevel(b, i)
	}
	if v.Key != "" {
		b.say(1, "bucket: %s", visible(v.Key))
	}
	if v.QuotaMode {
		b.say(1, "quota_mode: it denies only together with all other rules of quota_mode that the request meets")
	}
	if len(v.Replaces) > 0 {
		b.say(1, "replaces%s: these have no say on the same request", list(" ", v.Replaces, 0))
	}
	for i := range v.Limits {
		v.Limits[i].tell(b, p.Cost)
	}
}

func (v *explainedValue) outcome() string {
	rule := "the rule " + visible(v.Rule) + in(v.Source)
	switch v.Outcome {
	case "limited":
		return "limited by " + rule
	case "unlimited":
		return "not limited: " + rule + " is unlimited"
	case "exempt":
		return "not limited: " + rule + " has no limits, which exempts it"
	default:
		return "not limited, for no rule matches: " + v.reason()
	}
}

// reason says why there is no rule.
func (v *explainedValue) reason() string {
	last, above := "", "in this domain"
	if n := len(v.Levels); n > 0 {
		last = visible(v.Levels[n-1].Key)
		if n > 1 {
			above = "below " + v.Levels[n-2].entry()
		}
	}
	switch v.Why {
	case "unknown key":
		return fmt.Sprintf("there is no key %s %s%s", last, above, list("; the nearest there: ", v.NearKeys, v.MoreKeys))
	case "unknown value":
		return fmt.Sprintf("no rule of the key %s %s covers the value", last, above)
	case "too deep":
		return "the descriptor is deeper than the rules, which have nothing " + above
	case "too shallow":
		return "the descriptor is shallower than the rules, which go on with" + list(": ", v.NearKeys, v.MoreKeys)
	default:
		return visible(v.Why)
	}
}

func (v *explainedValue) tellLevel(b *prose, i int) {
	l := &v.Levels[i]
	found := "nothing"
	switch {
	case l.Found == nil:
	case l.Found.By == "exact":
		found = "exact" + in(l.Found.Source)
	default:
		found = l.Found.title()
	}
	b.say(1, "%s: %s", l.entry(), found)
	for _, s := range l.PassedOver {
		why := "does not cover it"
		switch {
		case s.Covers && v.Why != "" && s.Instead != "":
			why = "is more general; it would have led to the rule " + visible(s.Instead) + ", but there is no way back"
		case s.Covers:
			why = "is more general"
		}
		b.say(2, "passed over: %s, which %s", s.title(), why)
	}
	if l.MorePassed > 0 {
		b.say(2, "passed over: %d more", l.MorePassed)
	}
}

func (l *levelValue) entry() string {
	if l.Value == "" {
		return visible(l.Key)
	}
	return visible(l.Key + "=" + l.Value)
}

func (s *siblingValue) title() string {
	title := s.By
	if s.Text != "" {
		title += " " + s.Text
	}
	return visible(title) + in(s.Source)
}

func in(source string) string {
	if source == "" {
		return ""
	}
	return " (" + visible(source) + ")"
}

func list(before string, names []string, more int) string {
	if len(names) == 0 {
		return ""
	}
	shown := make([]string, 0, len(names))
	for _, name := range names {
		shown = append(shown, visible(name))
	}
	text := before + strings.Join(shown, ", ")
	if more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// tell says how a limit stands.
func (l *stateValue) tell(b *prose, cost uint64) {
	b.say(1, "limit %s: %s%s", visible(l.Limit), l.terms(), in(fmt.Sprintf("%s:%d", l.File, l.Line)))
	switch {
	case l.Shadow:
		b.say(2, "shadow: reported, never enforced")
	case l.InForce == limiter.Shadowed.String() && l.Percent < 100:
		b.say(2, "in shadow for this key: enforced for %d %% of the keys, or switched", l.Percent)
	case l.InForce == limiter.Shadowed.String():
		b.say(2, "switched into shadow: reported, never enforced; see rlsd admin switches")
	case l.InForce == limiter.Off.String():
		b.say(2, "switched off: neither asked nor counted; see rlsd admin switches")
		return
	}
	if l.MaxDelay != "" {
		b.say(2, "max_delay %s: as for callers of Decide; Envoy cannot wait, so that it does not count there", visible(l.MaxDelay))
	}
	if l.Replaced {
		b.say(2, "replaced by another rule of this request: it has no say")
		return
	}
	if l.Known {
		b.say(2, "%s", l.state())
	} else {
		b.say(2, "how it stands is not known: the store did not answer")
	}
	if l.Known || l.Never {
		b.say(2, "a cost of %d would be %s", cost, l.verdict())
	}
}

// terms are what it grants.
func (l *stateValue) terms() string {
	text := fmt.Sprintf("%d per %s", l.Quota, visible(l.Window))
	if l.Burst > 0 && l.Burst != l.Quota {
		text += fmt.Sprintf(", burst %d", l.Burst)
	}
	if l.TimeZone != "" {
		text += " in " + visible(l.TimeZone)
	}
	return text + ", " + visible(l.Algorithm)
}

func (l *stateValue) state() string {
	text := fmt.Sprintf("%d of %d remain", l.Remaining, l.Capacity)
	if l.Debt > 0 {
		text += fmt.Sprintf(", and %d more are owed", l.Debt)
	}
	switch {
	case l.Capacity == 0:
		return text + ": it denies everything"
	case l.Remaining == l.Capacity && (l.ResetAfter == 0 || l.Algorithm == "fixed_window"):
		return text + ": untouched"
	default:
		return text + ", as if untouched in " + lasting(l.ResetAfter)
	}
}

func (l *stateValue) verdict() string {
	switch {
	case l.Allowed:
		return "allowed"
	case l.Charged:
		return "denied, and recorded all the same (overdraft: on), which makes the wait longer"
	default:
		return denial(l.RetryAfter, l.Never)
	}
}

func lasting(us int64) string { return brief(time.Duration(us) * time.Microsecond) }
