package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestAnswers is about what clients of Envoy are told beside the code.
func TestAnswers(t *testing.T) {
	t.Parallel()
	usual := startRlsd(t, "rlsd", "--store", "memory")
	other := startRlsd(t, "rlsd-other", "--store", "memory",
		"--response-headers", "x-ratelimit,reference", "--denied-body", "problem+json", "--envoy-min-version", "1.40")
	byUsual, byOther := startEnvoy(t, usual), startEnvoy(t, other)
	for name, test := range map[string]func(*testing.T){
		"RateLimit and RateLimit-Policy come once each":            func(t *testing.T) { testIETF(t, byUsual) },
		"Envoy says when to retry only where rlsd says nothing":    func(t *testing.T) { testRetryAfter(t, byUsual) },
		"a window of several units is shown right or not at all":   func(t *testing.T) { testSeveralUnits(t, byUsual) },
		"X-RateLimit by setting comes once each, too":              func(t *testing.T) { testXRateLimit(t, byOther) },
		"a problem has its content type, and the upstream its own": func(t *testing.T) { testProblem(t, byOther) },
		"what Envoy is told is to be had as JSON":                  func(t *testing.T) { testJSON(t, usual) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func testIETF(t *testing.T, e *envoy) {
	answers := undisturbed(t, inOneWindow(time.Hour), func(user string) []answer {
		return e.askTimes(t, 3, request{path: "/several", headers: map[string]string{"x-user": user, "x-tenant": user}})
	})
	if got := codes(answers); got != "200 429 429" {
		t.Fatalf("got %s", got)
	}
	for i, left := range []string{"1 0", "1 0", "1 0"} {
		a := &answers[i]
		if got, want := a.one(t, "ratelimit-policy"), `"per-user";q=2;w=3600, "per-tenant";q=1;w=3600`; got != want {
			t.Errorf("ratelimit-policy of answer %d is %s, want %s", i, got, want)
		}
		reset := a.one(t, "x-ratelimit-reset")
		user, tenant, _ := strings.Cut(left, " ")
		if got, want := a.one(t, "ratelimit"), fmt.Sprintf(`"per-user";r=%s;t=%s, "per-tenant";r=%s;t=%s`, user, reset, tenant, reset); got != want {
			t.Errorf("ratelimit of answer %d is %s, want %s", i, got, want)
		}
		if got := a.one(t, "content-type"); i > 0 && got != "" && got != "text/plain" {
			t.Errorf("content-type of answer %d is %s", i, got)
		}
	}
}

func testRetryAfter(t *testing.T, e *envoy) {
	for listener, own := range map[string]bool{front: false, frontRetryAfter: true} {
		never := plan("banned", "anyone")
		never.listener = listener
		a := e.ask(t, never)
		seconds, err := strconv.Atoi(a.one(t, "retry-after"))
		if a.code != 429 || own && (err != nil || seconds < 1 || seconds > 3600) || !own && a.one(t, "retry-after") != "" {
			t.Errorf("%s: no wait helps: %d, retry-after %q", listener, a.code, a.one(t, "retry-after"))
		}
	}
}

func testSeveralUnits(t *testing.T, e *envoy) {
	a := e.ask(t, plan("half-minute", "anyone"))
	if got := a.one(t, "x-ratelimit-limit"); got != "2" {
		t.Errorf("to Envoys of any age x-ratelimit-limit is %q, want 2", got)
	}
	if got, want := a.one(t, "ratelimit-policy"), `"half-minute";q=2;w=30`; got != want {
		t.Errorf("ratelimit-policy is %s, want %s", got, want)
	}
}

func testXRateLimit(t *testing.T, e *envoy) {
	answers := undisturbed(t, inOneWindow(30*time.Second), func(user string) []answer {
		return e.askTimes(t, 3, plan("half-minute", user))
	})
	if got := codes(answers); got != "200 200 429" {
		t.Fatalf("got %s", got)
	}
	for i, remaining := range []string{"1", "0", "0"} {
		a := &answers[i]
		checkReset(t, a, 30*time.Second)
		for _, family := range []string{"x-ratelimit-", "ratelimit-"} {
			got := a.one(t, family+"limit") + " " + a.one(t, family+"remaining") + " " + a.one(t, family+"reset")
			if want := "2 " + remaining + " " + a.one(t, "x-ratelimit-reset"); got != want {
				t.Errorf("%s of answer %d: got %s, want %s", family, i, got, want)
			}
		}
		if got := a.one(t, "ratelimit") + a.one(t, "ratelimit-policy"); got != "" {
			t.Errorf("answer %d has what was not asked for: %s", i, got)
		}
	}
}

func testProblem(t *testing.T, e *envoy) {
	answers := undisturbed(t, inOneWindow(time.Hour), func(user string) []answer {
		return e.askTimes(t, 2, plan("unnamed", user))
	})
	call := plan("banned", "anyone")
	call.headers["content-type"] = "application/grpc"
	if a := e.ask(t, call); a.one(t, "content-type") != "application/grpc" || a.one(t, "grpc-status") != "8" ||
		!strings.HasPrefix(a.one(t, "grpc-message"), `{"type":"https://iana.org`) {
		t.Errorf("a gRPC call: %v", a.header)
	}
	allowed, denied := &answers[0], &answers[1]
	if allowed.body != "ok\n" || !strings.HasPrefix(allowed.one(t, "content-type"), "text/plain") {
		t.Errorf("allowed: %s %q", allowed.one(t, "content-type"), allowed.body)
	}
	if got := denied.one(t, "content-type"); denied.code != 429 || got != "application/problem+json" {
		t.Errorf("denied: %d %s", denied.code, got)
	}
	want := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded",` +
		`"violated-policies":["plan=unnamed/user"],"retry-after":` + denied.one(t, "retry-after") + `}`
	if denied.body != want {
		t.Errorf("got %s, want %s", denied.body, want)
	}
}

func testJSON(t *testing.T, d *daemon) {
	codes := undisturbed(t, inOneWindow(time.Hour), func(user string) (codes [2]int) {
		for i := range codes {
			response, err := httpClient.Post("http://"+d.http+"/json", "application/json", strings.NewReader(
				`{"domain":"edge","descriptors":[{"entries":[{"key":"tenant","value":"`+user+`"}]}]}`))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || response.StatusCode == http.StatusTooManyRequests && response.Header.Get("Retry-After") == "" {
				t.Errorf("%v %v %s", err, response.Header, body)
			}
			codes[i] = response.StatusCode
		}
		return codes
	})
	if codes != [2]int{200, 429} {
		t.Errorf("got %v", codes)
	}
}
