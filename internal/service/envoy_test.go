package service_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/rlsd/rlsd/internal/service"
	"github.com/rlsd/rlsd/internal/store/memory"
)

// seconds of the units, as Envoy has them.
var seconds = map[rls.RateLimitResponse_RateLimit_Unit]uint32{
	rls.RateLimitResponse_RateLimit_SECOND: 1,
	rls.RateLimitResponse_RateLimit_MINUTE: 60,
	rls.RateLimitResponse_RateLimit_HOUR:   3_600,
	rls.RateLimitResponse_RateLimit_DAY:    86_400,
	rls.RateLimitResponse_RateLimit_WEEK:   604_800,
	rls.RateLimitResponse_RateLimit_MONTH:  2_592_000,
	rls.RateLimitResponse_RateLimit_YEAR:   31_536_000,
}

// envoyShows is what the filter of an Envoy of that minor version makes of the
// answer for its client, with enable_x_ratelimit_headers and, from 1.40 on,
// enable_retry_after_header: limit | remaining | reset | retry-after, and then
// what the service had it add.
func envoyShows(minor int, resp *rls.RateLimitResponse) string {
	var least *st
	var policies strings.Builder
	longest := int64(-1)
	for _, s := range resp.GetStatuses() {
		if s.GetCode() == rls.RateLimitResponse_OVER_LIMIT {
			longest = max(longest, s.GetDurationUntilReset().GetSeconds(), 1)
		}
		l := s.GetCurrentLimit()
		if l == nil {
			continue
		}
		if least == nil || s.GetLimitRemaining() < least.GetLimitRemaining() {
			least = s
		}
		window, known := seconds[l.GetUnit()]
		if !known {
			continue
		}
		if minor >= 40 && l.GetUnitMultiplier() != nil {
			window *= l.GetUnitMultiplier().GetValue()
		}
		fmt.Fprintf(&policies, ", %d;w=%d", l.GetRequestsPerUnit(), window)
		if l.GetName() != "" {
			fmt.Fprintf(&policies, ";name=%q", l.GetName())
		}
	}
	shown := "-"
	if least != nil {
		shown = fmt.Sprintf("%d%s | %d | %d", least.GetCurrentLimit().GetRequestsPerUnit(), policies.String(),
			least.GetLimitRemaining(), least.GetDurationUntilReset().GetSeconds())
	}
	retry, added := "-", []string{""}
	for _, h := range resp.GetResponseHeadersToAdd() {
		if h.GetKey() == "retry-after" {
			retry = h.GetValue()
		} else {
			added = append(added, h.GetKey()+": "+h.GetValue())
		}
	}
	if retry == "-" && minor >= 40 && resp.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT && longest > 0 {
		retry = strconv.FormatInt(longest, 10)
	}
	return shown + " | " + retry + strings.Join(added, "\n")
}

func TestWhatEnvoyShows(t *testing.T) {
	t.Parallel()
	type asked = []*common.RateLimitDescriptor
	for _, test := range []struct {
		name   string
		before []asked // one request after the other
		ask    asked
		want   string
		want40 string // where 1.40 shows something else
	}{
		{
			"allowed", nil,
			asked{ask("user", "a"), ask("ip", "a")},
			`2, 3;w=60;name="per-user", 2;w=3600 | 1 | 3282 | -`, "",
		},
		{
			"a tie: the first, and its own reset",
			[]asked{{ask("user", "a")}},
			asked{ask("user", "a"), ask("ip", "a")},
			`3, 3;w=60;name="per-user", 2;w=3600 | 1 | 42 | -`, "",
		},
		{
			"the second denies, the first would have its last taken",
			[]asked{{costing(2, ask("user", "a"))}, {costing(2, ask("ip", "a"))}},
			asked{ask("user", "a"), ask("ip", "a")},
			`2, 2;w=3600 | 0 | 3282 | 3282`, "",
		},
		{
			"both deny, the second for longer",
			[]asked{{costing(3, ask("user", "a"))}, {costing(2, ask("ip", "a"))}},
			asked{ask("user", "a"), ask("ip", "a")},
			`2, 2;w=3600 | 0 | 3282 | 3282`, "",
		},
		{
			"both deny, the first for longer",
			[]asked{{costing(3, ask("user", "a"))}, {costing(2, ask("ip", "a"))}},
			asked{ask("ip", "a"), ask("user", "a")},
			`2, 2;w=3600, 3;w=60;name="per-user" | 0 | 3282 | 3282`, "",
		},
		{
			"both deny, the second for longer though it leaves more",
			[]asked{{costing(3, ask("user", "a"))}, {ask("strict", "a")}},
			asked{ask("user", "a"), costing(2, ask("strict", "a"))},
			`2, 2;w=3600 | 1 | 3282 | 3282`, "",
		},
		{
			"no wait helps: the end of the window", nil,
			asked{ask("ip", "a"), ask("banned", "")},
			`0, 0;w=60 | 0 | 42 | -`, `0, 0;w=60 | 0 | 42 | 42`,
		},
		{
			"a hidden limit denies",
			[]asked{{ask("secret", "")}},
			asked{ask("user", "a"), ask("secret", "")},
			`- | 42`, "",
		},
		{
			"a hidden limit and another deny",
			[]asked{{ask("secret", "")}, {costing(2, ask("ip", "a"))}},
			asked{ask("secret", ""), ask("ip", "a")},
			`2, 2;w=3600 | 0 | 3282 | 3282`, "",
		},
		{
			"a shadow limit would deny",
			[]asked{{ask("shaded", "")}},
			asked{ask("shaded", ""), ask("ip", "a")},
			`2, 2;w=3600 | 1 | 3282 | -`, "",
		},
		{
			"a wait within a second is told as one",
			[]asked{{costing(5, ask("plan", "a"))}},
			asked{ask("plan", "a")},
			`2, 2;w=1;name="plan-burst" | 0 | 1 | 1`, "",
		},
		{
			"five minutes: no unit before 1.40", nil,
			asked{ask("five", "")},
			`4294967295 | 4294967295 | 282 | -`, `4294967295, 4294967295;w=300;name="five" | 4294967295 | 282 | -`,
		},
		{"nothing is limited", nil, asked{ask("free", ""), ask("no", "rule"), ask()}, `- | -`, ""},
	} {
		for _, version := range []service.EnvoyVersion{36, 39, 40, 41} {
			conn := dialWith(t, memory.New(memory.Options{}), service.RLSOptions{Envoy: version})
			for _, before := range test.before {
				should(t, conn, before...)
			}
			want := test.want
			if version >= 40 && test.want40 != "" {
				want = test.want40
			}
			if got := envoyShows(int(version), should(t, conn, test.ask...)); got != want {
				t.Errorf("1.%d: %s: got %s, want %s", version, test.name, got, want)
			}
		}
	}
}

// An Envoy that is newer than the oldest shows nothing that is wrong.
func TestANewerEnvoyThanTheOldest(t *testing.T) {
	t.Parallel()
	conn := dialWith(t, memory.New(memory.Options{}), service.RLSOptions{Envoy: 36})
	if got, want := envoyShows(40, should(t, conn, ask("five", ""))), "4294967295 | 4294967295 | 282 | -"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestResponseHeaders(t *testing.T) {
	t.Parallel()
	const (
		ietf = "\nratelimit-policy: \"per-user\";q=3;w=60, \"ip\";q=2;w=3600\nratelimit: \"per-user\";r=%d;t=42, \"ip\";r=%d;t=3282"
	)
	for _, test := range []struct {
		set             string
		allowed, denied string
	}{
		{
			"ietf",
			`2, 3;w=60;name="per-user", 2;w=3600 | 0 | 3282 | -` + fmt.Sprintf(ietf, 1, 0),
			`2, 2;w=3600 | 0 | 3282 | 3282` + fmt.Sprintf(ietf, 1, 0),
		},
		{
			"none",
			`2, 3;w=60;name="per-user", 2;w=3600 | 0 | 3282 | -`,
			`2, 2;w=3600 | 0 | 3282 | 3282`,
		},
		{
			"x-ratelimit",
			"- | -\nx-ratelimit-limit: 2\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 3282",
			"- | 3282\nx-ratelimit-limit: 2\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 3282",
		},
		{
			"reference",
			`2, 3;w=60;name="per-user", 2;w=3600 | 0 | 3282 | -` + "\nratelimit-limit: 2\nratelimit-remaining: 0\nratelimit-reset: 3282",
			`2, 2;w=3600 | 0 | 3282 | 3282` + "\nratelimit-limit: 2\nratelimit-remaining: 0\nratelimit-reset: 3282",
		},
		{
			"reference,x-ratelimit,ietf",
			"- | -" + fmt.Sprintf(ietf, 1, 0) + "\nx-ratelimit-limit: 2\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 3282\nratelimit-limit: 2\nratelimit-remaining: 0\nratelimit-reset: 3282",
			"- | 3282" + fmt.Sprintf(ietf, 1, 0) + "\nx-ratelimit-limit: 2\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 3282\nratelimit-limit: 2\nratelimit-remaining: 0\nratelimit-reset: 3282",
		},
	} {
		set, err := service.ParseHeaderSet(strings.Split(test.set, ","))
		if err != nil {
			t.Fatal(err)
		}
		conn := dialWith(t, memory.New(memory.Options{}), service.RLSOptions{Headers: set, Envoy: 40})
		should(t, conn, ask("ip", "a"))
		for i, want := range []string{test.allowed, test.denied} {
			resp := should(t, conn, costing(uint64(2-2*i), ask("user", "a")), ask("ip", "a"))
			if got := envoyShows(40, resp); got != want {
				t.Errorf("%s %d: got %s, want %s", test.set, i, got, want)
			}
			if i == 0 && (resp.GetDynamicMetadata() != nil || resp.GetRawBody() != nil) {
				t.Errorf("%s: more than headers on an allowed answer: %v", test.set, resp)
			}
		}
	}
	for _, wrong := range []string{"", "ietf,none", "none,ietf", "x-rate", "IETF"} {
		if _, err := service.ParseHeaderSet(strings.Split(wrong, ",")); err == nil {
			t.Errorf("%q is a set of headers", wrong)
		}
	}
}

func TestNothingHiddenIsTold(t *testing.T) {
	t.Parallel()
	conn := dialWith(t, memory.New(memory.Options{}), service.RLSOptions{Headers: service.IETF | service.XRateLimit | service.Reference, ProblemBody: true, Envoy: 40})
	should(t, conn, ask("secret", ""))
	resp := should(t, conn, ask("secret", ""))
	if got, want := envoyShows(40, resp), "- | 42\ncontent-type: application/problem+json"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if want := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","retry-after":42}`; string(resp.GetRawBody()) != want {
		t.Errorf("got %s", resp.GetRawBody())
	}
}

func TestProblemBody(t *testing.T) {
	t.Parallel()
	conn := dialWith(t, memory.New(memory.Options{}), service.RLSOptions{ProblemBody: true, Envoy: 40})
	const begins = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded"`
	allowed := should(t, conn, costing(3, ask("user", "a")), costing(2, ask("ip", "a")))
	if allowed.GetRawBody() != nil || len(allowed.GetResponseHeadersToAdd()) != 0 {
		t.Errorf("allowed, with %v", allowed)
	}
	for _, test := range []struct {
		ask  []*common.RateLimitDescriptor
		want string
	}{
		{[]*common.RateLimitDescriptor{ask("user", "a"), ask("equal", "")}, `,"violated-policies":["per-user"],"retry-after":42}`},
		{[]*common.RateLimitDescriptor{ask("user", "a"), ask("ip", "a")}, `,"violated-policies":["per-user", "ip"],"retry-after":3282}`},
		{[]*common.RateLimitDescriptor{ask("banned", "")}, `,"violated-policies":["banned"]}`},
	} {
		resp := should(t, conn, test.ask...)
		if got := string(resp.GetRawBody()); got != begins+test.want {
			t.Errorf("got %s, want %s%s", got, begins, test.want)
		}
		headers := resp.GetResponseHeadersToAdd()
		if last := headers[len(headers)-1]; last.GetKey() != "content-type" || last.GetValue() != "application/problem+json" {
			t.Errorf("got %v", headers)
		}
	}
}

func TestEnvoyVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]service.EnvoyVersion{"1.18": 18, "1.36": 36, "1.40": 40, "1.99": 99} {
		if got, err := service.ParseEnvoyVersion(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v", text, got, err)
		}
	}
	for _, wrong := range []string{"", "1", "1.", "40", "1.17", "1.0", "1.100", "1.400", "2.0", "1.-40", "1.+40", "1.040", "1.40.1", "v1.40", "1.40 ", "1.99999999999999999999"} {
		if got, err := service.ParseEnvoyVersion(wrong); err == nil {
			t.Errorf("%q is read as 1.%d", wrong, got)
		}
	}
}
