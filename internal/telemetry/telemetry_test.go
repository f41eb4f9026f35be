package telemetry

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// expose returns the lines of the metrics whose names have the prefix, without
// comments.
func expose(t *testing.T, tel *Telemetry, prefix string) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", w.Code, w.Body)
	}
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// counted returns the decisions that are not 0.
func counted(t *testing.T, tel *Telemetry) string {
	t.Helper()
	zero := regexp.MustCompile(`(?m)^.* 0\n`)
	return zero.ReplaceAllString(expose(t, tel, "rlsd_decisions_total"), "")
}

func limit(domain, name string) *policy.Limit { return &policy.Limit{Domain: domain, Name: name} }

func TestDecisionsAreCountedByLimitAndOutcome(t *testing.T) {
	tel := New(Options{Version: "test"})
	a, b := limit("shop", "per-key"), limit("blog", "per-user")
	tel.Follow("h1", []*policy.Limit{a, b})
	tel.Decided(a, limiter.Allowed)
	tel.Decided(a, limiter.Allowed)
	tel.Decided(a, limiter.Denied)
	tel.Decided(b, limiter.ShadowDenied)
	tel.Decided(b, limiter.Peeked)
	tel.Decided(b, limiter.Failed)

	want := `rlsd_decisions_total{domain="blog",limit="per-user",outcome="failed"} 1
rlsd_decisions_total{domain="blog",limit="per-user",outcome="peek"} 1
rlsd_decisions_total{domain="blog",limit="per-user",outcome="shadow_denied"} 1
rlsd_decisions_total{domain="shop",limit="per-key",outcome="allowed"} 2
rlsd_decisions_total{domain="shop",limit="per-key",outcome="denied"} 1
`
	if got := counted(t, tel); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestEveryOutcomeOfALimitIsExposedBeforeItHappens(t *testing.T) {
	tel := New(Options{})
	tel.Follow("h1", []*policy.Limit{limit("shop", "per-key")})
	if got := strings.Count(expose(t, tel, "rlsd_decisions_total"), "\n"); got != int(limiter.Outcomes) {
		t.Errorf("%d series for one limit, want one for each outcome", got)
	}
}

func TestLimitsOutsideTheConfigurationAddNoLabels(t *testing.T) {
	tel := New(Options{})
	tel.Decided(limit("early", "x"), limiter.Allowed)
	tel.Follow("h1", []*policy.Limit{limit("shop", "per-key")})
	for i := range 1000 {
		tel.Decided(limit("shop", fmt.Sprint("made-up-", i)), limiter.Denied)
		tel.Decided(limit(fmt.Sprint("domain-", i), "per-key"), limiter.Allowed)
	}
	tel.Decided(limit("shop", "per-key"), limiter.Allowed) // as a request of the snapshot before would

	want := `rlsd_decisions_total{domain="other",limit="other",outcome="allowed"} 1001
rlsd_decisions_total{domain="shop",limit="other",outcome="denied"} 1000
rlsd_decisions_total{domain="shop",limit="per-key",outcome="allowed"} 1
`
	if got := counted(t, tel); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestFollowKeepsTheCountsOfLimitsThatStayAndDropsThoseThatGo(t *testing.T) {
	tel := New(Options{})
	stays, goes, leaves := limit("shop", "stays"), limit("shop", "goes"), limit("blog", "x")
	tel.Follow("h1", []*policy.Limit{stays, goes, leaves})
	for _, l := range []*policy.Limit{stays, goes, leaves, limit("shop", "?"), limit("blog", "?")} {
		tel.Decided(l, limiter.Allowed)
	}
	again := limit("shop", "stays")
	tel.Follow("h2", []*policy.Limit{again, limit("shop", "new")})
	tel.Decided(again, limiter.Allowed)
	tel.Decided(goes, limiter.Allowed)

	want := `rlsd_decisions_total{domain="shop",limit="other",outcome="allowed"} 2
rlsd_decisions_total{domain="shop",limit="stays",outcome="allowed"} 2
`
	if got := counted(t, tel); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if all := expose(t, tel, "rlsd_decisions_total"); strings.Contains(all, "goes") || strings.Contains(all, "blog") {
		t.Errorf("what is gone is still exposed:\n%s", all)
	}
	if got, want := expose(t, tel, "rlsd_policy_info"), "rlsd_policy_info{hash=\"h2\"} 1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := expose(t, tel, "rlsd_limits"), "rlsd_limits 2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheRestIsExposed(t *testing.T) {
	tel := New(Options{Version: "1.2.3", Buckets: func() int { return 42 }})
	tel.UnknownDomain("shop", nil)
	tel.Unmatched("shop", nil)
	tel.Panicked()
	got := expose(t, tel, "")
	for _, want := range []string{
		`rlsd_build_info{go="go1.`, `version="1.2.3"} 1`, "\nrlsd_buckets 42\n", "\nrlsd_unknown_domain_requests_total 1\n",
		"\nrlsd_unmatched_descriptors_total 1\n", "\nrlsd_panics_total 1\n", "\ngo_goroutines ", "\nprocess_",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	if got := expose(t, New(Options{}), "rlsd_buckets"); got != "" {
		t.Errorf("without a store that can tell: %q", got)
	}
}

func TestDecidedDoesNotAllocate(t *testing.T) {
	tel := New(Options{})
	l := limit("shop", "per-key")
	tel.Follow("h1", []*policy.Limit{l})
	if n := testing.AllocsPerRun(100, func() { tel.Decided(l, limiter.Allowed) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFollowWhileDeciding(t *testing.T) {
	tel := New(Options{})
	l := limit("shop", "per-key")
	tel.Follow("h0", []*policy.Limit{l})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			tel.Follow(fmt.Sprint("h", i), []*policy.Limit{l, limit("shop", strconv.Itoa(i))})
		}
	}()
	for range 1000 {
		tel.Decided(l, limiter.Allowed)
	}
	<-done
	want := "rlsd_decisions_total{domain=\"shop\",limit=\"per-key\",outcome=\"allowed\"} 1000\n"
	if got := counted(t, tel); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoggerWritesAtItsLevelInItsFormat(t *testing.T) {
	var w strings.Builder
	logger, err := NewLogger(&w, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("quiet")
	logger.Warn("loud", "n", 1)
	if got := w.String(); !strings.HasPrefix(got, `{"time":`) || !strings.HasSuffix(got, `"level":"WARN","msg":"loud","n":1}`+"\n") {
		t.Errorf("wrote %q", got)
	}
	for _, level := range []string{"debug", "info", "warn", "error"} {
		if _, err := NewLogger(io.Discard, level, "text"); err != nil {
			t.Error(err)
		}
	}
}

func TestLoggerRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, test := range []struct{ level, format, want string }{
		{"loud", "text", `log level "loud": want debug, info, warn or error`},
		{"info", "xml", `log format "xml": want text or json`},
	} {
		if _, err := NewLogger(io.Discard, test.level, test.format); err == nil || err.Error() != test.want {
			t.Errorf("%s %s: got %v, want %s", test.level, test.format, err, test.want)
		}
	}
}

func BenchmarkDecided(b *testing.B) {
	tel := New(Options{})
	var limits []*policy.Limit
	for i := range 100 {
		limits = append(limits, limit("shop", strconv.Itoa(i)))
	}
	tel.Follow("h1", limits)
	b.Run("configured", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				tel.Decided(limits[i%len(limits)], limiter.Allowed)
			}
		})
	})
	b.Run("other", func(b *testing.B) {
		b.ReportAllocs()
		l := limit("shop", "made-up")
		for b.Loop() {
			tel.Decided(l, limiter.Allowed)
		}
	})
}
