package file_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
)

// TestGood reads the files that are right. Their comments say which limits they
// make,
//
//	# limit: DOMAIN NAME: what it is
//
// in the order of domains and lines, and what they have to say of descriptors:
//
//	# ask: DOMAIN KEY=VALUE ... -> limit, unlimited, exempt, none or unknown
func TestGood(t *testing.T) {
	t.Parallel()
	for name, data := range goldenFiles(t, "testdata/*.good.yaml") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshot, err := file.Parse(name, data)
			if err != nil {
				t.Fatal(err)
			}
			var limits []string
			for _, l := range snapshot.Limits() {
				limits = append(limits, describe(l))
			}
			if diff := cmp.Diff(remarks(data, "limit"), limits); diff != "" {
				t.Error(diff)
			}
			for _, ask := range remarks(data, "ask") {
				question, want, _ := strings.Cut(ask, " -> ")
				if got := answer(t, snapshot, question); got != want {
					t.Errorf("%s: got %s, want %s", question, got, want)
				}
			}
		})
	}
}

// TestBad reads the files that are wrong. Their comments list all faults:
//
//	# want: LINE:COLUMN: path: message
func TestBad(t *testing.T) {
	t.Parallel()
	files := goldenFiles(t, "testdata/*.bad.yaml")
	if len(files) < 30 {
		t.Errorf("only %d files", len(files))
	}
	for name, data := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshot, err := file.Parse(name, data)
			if err == nil || snapshot != nil {
				t.Fatalf("got snapshot %v and error %v", snapshot, err)
			}
			var got []string
			for line := range strings.Lines(err.Error()) {
				fault, _ := strings.CutPrefix(line, name+":")
				got = append(got, strings.TrimSpace(fault))
			}
			if diff := cmp.Diff(remarks(data, "want"), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func goldenFiles(tb testing.TB, pattern string) map[string][]byte {
	tb.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		tb.Fatal(err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		files[filepath.Base(path)] = data
	}
	return files
}

// remarks returns what the comments of a kind say.
func remarks(data []byte, kind string) []string {
	var texts []string
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "# "+kind+": "); ok {
			texts = append(texts, strings.TrimSpace(text))
		}
	}
	return texts
}

func describe(l *policy.Limit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s %d per %v", l.Domain, l.Name, l.Algorithm, l.Quota, time.Duration(l.Window)*time.Microsecond)
	if l.Calendar != algo.NoCalendar {
		b.WriteString(", calendar " + map[algo.Calendar]string{
			algo.Daily: "day", algo.Weekly: "week", algo.Monthly: "month", algo.Yearly: "year",
		}[l.Calendar])
	}
	if l.Zone != nil {
		fmt.Fprintf(&b, " in %v", l.Zone)
	}
	if l.Algorithm.IsBucket() {
		fmt.Fprintf(&b, ", burst %d", l.Burst)
	}
	if l.MaxDelay > 0 {
		fmt.Fprintf(&b, ", max delay %v", time.Duration(l.MaxDelay)*time.Microsecond)
	}
	if l.Shadow {
		b.WriteString(", shadow")
	}
	if l.ShadowPercent > 0 {
		fmt.Fprintf(&b, ", enforced for %d %%", 100-l.ShadowPercent)
	}
	if l.Hidden {
		b.WriteString(", hidden")
	}
	if l.MaxOverride > 0 {
		fmt.Fprintf(&b, ", max override %d", l.MaxOverride)
	}
	if l.Charge == policy.ChargeAlways {
		fmt.Fprintf(&b, ", overdraft of %d", l.Overdraft)
	}
	if l.FailureMode != policy.FailError {
		fmt.Fprintf(&b, ", failure mode %v", l.FailureMode)
	}
	return b.String()
}

// answer says in a word or two what a snapshot has to say of a domain and a
// descriptor.
func answer(t *testing.T, snapshot *policy.Snapshot, question string) string {
	t.Helper()
	words := strings.Fields(question)
	p := snapshot.Policy(words[0])
	if p == nil {
		return "unknown"
	}
	var d policy.Descriptor
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		value, err := strconv.Unquote(`"` + value + `"`)
		if err != nil {
			t.Fatalf("%s: %v", question, err)
		}
		d = append(d, policy.Entry{Key: key, Value: value})
	}
	switch r := p.Match(d); {
	case r == nil:
		return "none"
	case r.Unlimited:
		return "unlimited" + peculiarities(r, d)
	case len(r.Limits) == 0:
		return "exempt"
	default:
		return r.Limits[0].Name + peculiarities(r, d)
	}
}

// peculiarities are what a rule has beyond its limits.
func peculiarities(r *policy.Rule, d policy.Descriptor) string {
	var b strings.Builder
	if r.QuotaMode {
		b.WriteString(", quota mode")
	}
	if len(r.Replaces) > 0 {
		fmt.Fprintf(&b, ", replaces %q", r.Replaces)
	}
	if key := r.Key("", d); key != policy.Key("", d) {
		b.WriteString(", key " + key)
	}
	if value := r.MetricValue(d); value != "" {
		b.WriteString(", metric " + value)
	}
	if r.Metadata != nil {
		text, _ := json.Marshal(r.Metadata)
		b.WriteString(", metadata " + string(text))
	}
	return b.String()
}
