package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/rlsd/rlsd/client"
)

// A printer prints decisions. The time is zero where the server's clock counts.
type printer interface {
	print(at time.Time, v *client.Verdict) error
	flush() error
}

func (c *decide) printer(w io.Writer) printer {
	switch {
	case c.Output == "json":
		return newLines(w, c.Descriptors)
	case c.Repeat > 1:
		return newTable(w)
	default:
		return &page{w, c.Descriptors}
	}
}

// A table has a line for each limit of each decision.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row("TIME", "VERDICT", "LIMIT", "REMAINING", "RETRY-AFTER", "RESET-AFTER", "DELAY")
	return t
}

// row writes the cells of a line. What goes wrong is said by flush.
func (t table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = visible(cell)
	}
	_, _ = fmt.Fprintln(t, strings.Join(cells, "\t"))
}

// visible returns the text, quoted if it holds what would not be seen on a
// terminal, or would change it.
func visible(text string) string {
	for _, r := range text {
		if r == utf8.RuneError || !strconv.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

func (t table) flush() error { return t.Flush() }

func (t table) print(at time.Time, v *client.Verdict) error {
	verdict := "allowed"
	if !v.Allowed {
		verdict = "denied"
	}
	start := []string{at.Format(timeFormat), verdict}
	limits := 0
	for i := range v.Results {
		for j := range v.Results[i].Limits {
			l := &v.Results[i].Limits[j]
			t.row(append(append(start[:2:2], title(l)), said(l)...)...)
			limits++
		}
	}
	if limits == 0 {
		t.row(append(start, "-", "-", "-", "-", "-")...)
	}
	return nil
}

const timeFormat = "2006-01-02T15:04:05.999999Z07:00"

// title is the limit's name.
func title(l *client.Limit) string {
	if l.Shadow {
		return l.Name + " (shadow)"
	}
	return l.Name
}

// said is what the limit said: what remains, retry-after, reset-after, delay.
func said(l *client.Limit) []string {
	return []string{strconv.FormatUint(l.Remaining, 10), orDash(l.RetryAfter), brief(l.ResetAfter), orDash(l.Delay)}
}

func orDash(d time.Duration) string {
	switch d {
	case 0:
		return "-"
	case client.Never:
		return "never"
	default:
		return brief(d)
	}
}

// A page is one decision in full: the verdict, the limits, the headers.
type page struct {
	io.Writer

	descriptors []descriptor
}

func (p *page) flush() error { return nil }

func (p *page) print(_ time.Time, v *client.Verdict) error {
	t := table{tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)}
	t.row(sentence(v))
	t.row()
	t.row("DESCRIPTOR", "LIMIT", "QUOTA", "ALGORITHM", "REMAINING", "RETRY-AFTER", "RESET-AFTER", "DELAY", "DECIDED-BY")
	for i, r := range v.Results {
		text := p.descriptors[i].text
		for j := range r.Limits {
			l := &r.Limits[j]
			t.row(append(append([]string{text, title(l), quota(l), l.Algorithm}, said(l)...), l.DecidedBy)...)
		}
		if len(r.Limits) == 0 {
			t.row(text, "-", "-", "-", "-", "-", "-", "-", "-")
		}
	}
	if len(v.Headers) > 0 {
		t.row()
	}
	for _, h := range v.Headers {
		t.row(h.Name + ": " + h.Value)
	}
	return t.flush()
}

func sentence(v *client.Verdict) string {
	switch {
	case v.Allowed && v.Delay > 0:
		return "allowed, after a delay of " + brief(v.Delay)
	case v.Allowed:
		return "allowed"
	case v.RetryAfter == client.Never:
		return "denied, and no wait helps"
	default:
		return "denied, retry after " + brief(v.RetryAfter)
	}
}

func quota(l *client.Limit) string {
	text := fmt.Sprintf("%d per %s", l.Quota, brief(l.Window))
	if l.Burst > 0 && l.Burst != l.Quota {
		text += fmt.Sprintf(", burst %d", l.Burst)
	}
	return text
}
