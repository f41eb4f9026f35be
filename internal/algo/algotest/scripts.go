package algotest

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
)

// A script is a text of one statement a line; # begins a comment.
//
//	limit NAME quota=N window=D [burst=N] [overdraft=N] [max_delay=D] [calendar=monthly|yearly]
//
// begins a fresh bucket,
//
//	change quota=N …
//
// gives the same bucket another limit, and
//
//	D take N|peek|give N|charge N [slack=N] allow|deny left=N [retry=D|never] reset=D [delay=D]
//
// is one request at D after Epoch and the decision that it must get.

//go:embed testdata/*.txt
var scripts embed.FS

func runScripts(t *testing.T, s Subject) {
	files, err := scripts.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Run(f.Name(), func(t *testing.T) {
			text, err := scripts.ReadFile(path.Join("testdata", f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			p := player{subject: s, name: f.Name()}
			for line := range strings.Lines(string(text)) {
				p.play(t, line)
			}
		})
	}
}

type player struct {
	subject Subject
	name    string
	line    int
	key     string
	limit   *algo.Limit
	skip    bool // the rest of this bucket, which had slack
}

func (p *player) play(t *testing.T, line string) {
	t.Helper()
	p.line++
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
	case words[0] == "limit":
		p.key = fmt.Sprintf("%s:%d", t.Name(), p.line)
		a, err := algo.Parse(words[1])
		if err != nil {
			t.Fatal(err)
		}
		p.limit = parseLimit(t, algo.Limit{Algorithm: a}, words[2:])
		p.skip = false
	case words[0] == "change":
		p.limit = parseLimit(t, *p.limit, words[1:])
	default:
		p.step(t, line, words)
	}
}

func (p *player) step(t *testing.T, line string, words []string) {
	t.Helper()
	now, verb, args := Epoch+micros(t, words[0]), words[1], words[2:]
	var cost int64
	if verb != "peek" {
		cost, args = integer(t, args[0]), args[1:]
	}
	var slack int64
	if v, ok := pairs(args)["slack"]; ok {
		slack, args = integer(t, v), args[1:]
	}
	want := parseDecision(t, args)
	p.skip = p.skip || slack != 0 && p.subject.NoSlack
	if p.skip {
		return
	}
	var got algo.Decision
	switch verb {
	case "take", "peek":
		got = p.subject.Step(t, p.key, p.limit, now, cost, slack)
	case "give":
		got = p.subject.Step(t, p.key, p.limit, now, -cost, slack)
	case "charge":
		got = p.subject.Charge(t, p.key, p.limit, now, cost)
	default:
		t.Fatalf("%s:%d: no verb %q", p.name, p.line, verb)
	}
	if got != want {
		t.Errorf("%s:%d: %s\n got %+v\nwant %+v", p.name, p.line, strings.TrimSpace(line), got, want)
	}
}

func parseLimit(t *testing.T, l algo.Limit, words []string) *algo.Limit {
	t.Helper()
	for name, value := range pairs(words) {
		switch name {
		case "quota":
			l.Quota = integer(t, value)
		case "window":
			l.Window = micros(t, value)
		case "burst":
			l.Burst = integer(t, value)
		case "overdraft":
			l.Overdraft = integer(t, value)
		case "max_delay":
			l.MaxDelay = micros(t, value)
		case "calendar":
			l.Calendar = map[string]algo.Calendar{"monthly": algo.Monthly, "yearly": algo.Yearly}[value]
		default:
			t.Fatalf("no limit has a %q", name)
		}
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	return &l
}

func parseDecision(t *testing.T, words []string) algo.Decision {
	t.Helper()
	args := pairs(words[1:])
	d := algo.Decision{
		Allowed:    words[0] == "allow",
		Remaining:  integer(t, args["left"]),
		ResetAfter: micros(t, args["reset"]),
	}
	if delay, ok := args["delay"]; ok {
		d.Delay = micros(t, delay)
	}
	switch retry := args["retry"]; retry {
	case "":
	case "never":
		d.RetryAfter = algo.Never
	default:
		d.RetryAfter = micros(t, retry)
	}
	return d
}

func pairs(words []string) map[string]string {
	m := make(map[string]string)
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			m[k] = v
		}
	}
	return m
}

func integer(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func micros(t *testing.T, s string) int64 {
	t.Helper()
	days := int64(0)
	if d, rest, ok := strings.Cut(s, "d"); ok {
		days, s = integer(t, d), rest
		if s == "" {
			s = "0s"
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return days*Day + d.Microseconds()
}
