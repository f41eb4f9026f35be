package main

import (
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const decidePolicy = `domain: shop
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: minute, requests_per_unit: 2}
  - key: bucket
    rate_limits:
      - {name: bucket, unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 2}
      - {name: trial, unit: hour, requests_per_unit: 1, shadow: true}
  - key: queue
    rate_limit: {name: queue, unit: second, requests_per_unit: 1, algorithm: leaky_bucket, burst: 2}
  - key: free
    rate_limit: {unlimited: true}
  - key: tag
    value: 'a,b=c\d'
    rate_limit: {name: tag, unit: hour, requests_per_unit: 1}
`

// decides runs decide offline at 20 s past a full minute.
func decides(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return rlsd(t, append([]string{
		"decide", "--config", write(t, decidePolicy), "--domain", "shop", "--at", "2026-11-30T12:00:20Z",
	}, args...)...)
}

// trim takes off what aligns columns at the ends of lines.
func trim(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestDecideOffline(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   string
		code   int
		stdout string
	}{
		{"user=bob", exitDone, `allowed

DESCRIPTOR  LIMIT     QUOTA     ALGORITHM     REMAINING  RETRY-AFTER  RESET-AFTER  DELAY  DECIDED-BY
user=bob    per-user  2 per 1m  fixed_window  1          -            40s          -      memory

RateLimit-Policy: "per-user";q=2;w=60
RateLimit: "per-user";r=1;t=40
X-RateLimit-Limit: 2
X-RateLimit-Remaining: 1
X-RateLimit-Reset: 40`},
		{"--cost 3 user=bob free", exitDenied, `denied, and no wait helps

DESCRIPTOR  LIMIT     QUOTA     ALGORITHM     REMAINING  RETRY-AFTER  RESET-AFTER  DELAY  DECIDED-BY
user=bob    per-user  2 per 1m  fixed_window  2          never        40s          -      memory
free        -         -         -             -          -            -            -      -

RateLimit-Policy: "per-user";q=2;w=60
RateLimit: "per-user";r=2;t=40
X-RateLimit-Limit: 2
X-RateLimit-Remaining: 2
X-RateLimit-Reset: 40`},
		{"user=bob user=bob user=bob", exitDenied, `denied, and no wait helps

DESCRIPTOR  LIMIT     QUOTA     ALGORITHM     REMAINING  RETRY-AFTER  RESET-AFTER  DELAY  DECIDED-BY
user=bob    per-user  2 per 1m  fixed_window  2          -            40s          -      memory
user=bob    per-user  2 per 1m  fixed_window  2          -            40s          -      memory
user=bob    per-user  2 per 1m  fixed_window  2          never        40s          -      memory

RateLimit-Policy: "per-user";q=2;w=60
RateLimit: "per-user";r=2;t=40
X-RateLimit-Limit: 2
X-RateLimit-Remaining: 2
X-RateLimit-Reset: 40`},
		{"queue queue", exitDone, `allowed, after a delay of 1s

DESCRIPTOR  LIMIT  QUOTA              ALGORITHM     REMAINING  RETRY-AFTER  RESET-AFTER  DELAY  DECIDED-BY
queue       queue  1 per 1s, burst 2  leaky_bucket  1          -            1s           -      memory
queue       queue  1 per 1s, burst 2  leaky_bucket  0          -            2s           1s     memory

RateLimit-Policy: "queue";q=1;w=1
RateLimit: "queue";r=0;t=2
X-RateLimit-Limit: 1
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 2`},
	} {
		code, stdout, stderr := decides(t, strings.Fields(test.args)...)
		if diff := cmp.Diff(test.stdout, trim(stdout)); diff != "" {
			t.Errorf("%s: %s", test.args, diff)
		}
		if code != test.code || stderr != "" {
			t.Errorf("%s: %d %s", test.args, code, stderr)
		}
	}
}

func TestDecideTakesWhatTheShellHandsOver(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := decides(t, "--repeat", "2", `tag=a\,b=c\\d`)
	if code != exitDenied || stderr != "" || !strings.Contains(stdout, "tag") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

func TestDecideShowsABucketDrainAndFill(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := decides(t, "--repeat", "5", "--every", "20ms", "bucket")
	if diff := cmp.Diff(`TIME                     VERDICT  LIMIT           REMAINING  RETRY-AFTER  RESET-AFTER  DELAY
2026-11-30T12:00:20Z     allowed  bucket          1          -            100ms        -
2026-11-30T12:00:20Z     allowed  trial (shadow)  0          -            59m40s       -
2026-11-30T12:00:20.02Z  allowed  bucket          0          -            180ms        -
2026-11-30T12:00:20.02Z  allowed  trial (shadow)  0          59m39.98s    59m39.98s    -
2026-11-30T12:00:20.04Z  denied   bucket          0          60ms         160ms        -
2026-11-30T12:00:20.04Z  denied   trial (shadow)  0          59m39.96s    59m39.96s    -
2026-11-30T12:00:20.06Z  denied   bucket          0          40ms         140ms        -
2026-11-30T12:00:20.06Z  denied   trial (shadow)  0          59m39.94s    59m39.94s    -
2026-11-30T12:00:20.08Z  denied   bucket          0          20ms         120ms        -
2026-11-30T12:00:20.08Z  denied   trial (shadow)  0          59m39.92s    59m39.92s    -`,
		trim(stdout)); diff != "" {
		t.Error(diff)
	}
	if code != exitDenied || stderr != "" {
		t.Errorf("%d %s", code, stderr)
	}
	// The last one counts.
	if code, _, _ := decides(t, "--repeat", "6", "--every", "20ms", "bucket"); code != exitDone {
		t.Errorf("the sixth: %d", code)
	}
	_, stdout, _ = decides(t, "--repeat", "2", "--at", "2026-11-30T12:00:20+05:45", "free")
	if want := "2026-11-30T12:00:20+05:45  allowed  -      -          -            -            -"; strings.Count(stdout, want) != 2 {
		t.Errorf("without a limit: %s", stdout)
	}
}

func TestDecideInJSON(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := decides(t, "--output", "json", "--repeat", "3", "--every", "1ms", "user=<b>")
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if code != exitDenied || stderr != "" || len(lines) != 3 {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	const limit = `"limits":[{"domain":"shop","limit":"per-user","algorithm":"fixed_window","quota":2,"window_us":60000000,"burst":0,`
	const policy = `"RateLimit-Policy":"\"per-user\";q=2;w=60",`
	want := []string{
		`{"time":"2026-11-30T12:00:20Z","allowed":true,"delay_us":0,"descriptors":[{"descriptor":"user=<b>","allowed":true,"rule":"user",` + limit +
			`"allowed":true,"remaining":1,"reset_after_us":40000000,"delay_us":0,"shadow":false,"decided_by":"memory"}]}],` +
			`"headers":{"RateLimit":"\"per-user\";r=1;t=40",` + policy + `"X-RateLimit-Limit":"2","X-RateLimit-Remaining":"1","X-RateLimit-Reset":"40"}}`,
		`{"time":"2026-11-30T12:00:20.002Z","allowed":false,"retry_after_us":39998000,"delay_us":0,"descriptors":[{"descriptor":"user=<b>","allowed":false,"rule":"user",` + limit +
			`"allowed":false,"remaining":0,"retry_after_us":39998000,"reset_after_us":39998000,"delay_us":0,"shadow":false,"decided_by":"memory"}]}],` +
			`"headers":{"RateLimit":"\"per-user\";r=0;t=40",` + policy + `"Retry-After":"40","X-RateLimit-Limit":"2","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"40"}}`,
	}
	if diff := cmp.Diff(want, []string{lines[0], lines[2]}); diff != "" {
		t.Error(diff)
	}
	if code, stdout, _ := decides(t, "--output", "json", "--cost", "3", "user=a"); code != exitDenied || strings.Contains(stdout, "retry_after") {
		t.Errorf("never: %d %s", code, stdout)
	}
}

func TestDecideSaysThatNoRuleMatched(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := decides(t, "--repeat", "3", "--cost", "0", `nothing=\,`, "user=bob", "user=bob,more")
	want := "rlsd: no rule of the domain \"shop\" matches `nothing=\\,`, so nothing limits it: check --domain and the descriptor\n" +
		"rlsd: no rule of the domain \"shop\" matches `user=bob,more`, so nothing limits it: check --domain and the descriptor\n"
	if code != exitDone || stderr != want || strings.Count(stdout, "\n") != 4 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = decides(t, "--domain", "nowhere", "--output", "json", "user=bob")
	if code != exitDone || !strings.Contains(stderr, `"nowhere"`) || strings.Count(stderr, "\n") != 1 || !json.Valid([]byte(stdout)) {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

func TestDecideReportsFaultyRulesAsValidateDoes(t *testing.T) {
	t.Parallel()
	path := write(t, badPolicy)
	code, stdout, stderr := rlsd(t, "decide", "--config", path, "--domain", "shop", "x")
	if _, _, want := rlsd(t, "validate", path); code != exitFault || stdout != "" || stderr != want {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = decides(t, strings.TrimSuffix(strings.Repeat("k,", 65), ","))
	if want := "rlsd: descriptors[0].entries: more than 64\n"; code != exitFault || stdout != "" || stderr != want {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

func TestDecideAsksAServer(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, decidePolicy))
	defer stop()
	ask := func(args ...string) (int, string, string) {
		t.Helper()
		return rlsd(t, append([]string{"decide", "--addr", d.grpc, "--domain", "shop", "--timeout", patience.String()}, args...)...)
	}
	code, stdout, stderr := ask("queue")
	if code != exitDone || stderr != "" || !strings.HasPrefix(stdout, "allowed\n\n") || !slices.Contains(strings.Fields(stdout), "leaky_bucket") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = ask("--cost", "3", "--output", "json", "queue", "nothing")
	if code != exitDenied || strings.Count(stdout, "\n") != 1 || !json.Valid([]byte(stdout)) || strings.Contains(stdout, `"time"`) ||
		strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "nothing") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = ask(strings.TrimSuffix(strings.Repeat("k,", 65), ","))
	if want := "rlsd: ask " + d.grpc + ": descriptors[0].entries: more than 64\n"; code != exitFault || stdout != "" || stderr != want {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

func TestDecideSaysWhyNoAnswerCame(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	addr := closed.Addr().String()
	for _, test := range []struct{ addr, want string }{
		{addr, "dial tcp " + addr + ": connect: connection refused; check --addr, and that rlsd and its store are up"},
		{silent.Addr().String(), "no answer within 50ms; check --addr, or give it longer with --timeout"},
		{"unix:/nowhere/rlsd.sock", "dial unix /nowhere/rlsd.sock: connect: no such file or directory; check --addr, and that rlsd and its store are up"},
	} {
		timeout := patience.String()
		if strings.HasPrefix(test.want, "no answer") {
			timeout = "50ms"
		}
		code, stdout, stderr := rlsd(t, "decide", "--addr", test.addr, "--timeout", timeout, "--domain", "shop", "x")
		if want := "rlsd: ask " + test.addr + ": " + test.want + "\n"; code != exitFault || stdout != "" || stderr != want {
			t.Errorf("%d %s%s\nwant %s", code, stdout, stderr, want)
		}
	}
}

// TestDecideHidesControlCharacters holds that no descriptor reaches the
// terminal as more than text.
func TestDecideHidesControlCharacters(t *testing.T) {
	t.Parallel()
	_, stdout, _ := decides(t, "user=\x1b[2J\u202eevil\nline")
	if !strings.Contains(stdout, `"user=\x1b[2J\u202eevil\nline"`) || strings.ContainsAny(stdout, "\x1b\u202e") {
		t.Errorf("printed %q", stdout)
	}
}

// TestArgumentsAreUTF8 holds that nothing else is asked for in place of what is
// not.
func TestArgumentsAreUTF8(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"user=\xff"}, {"--domain", "shop\xff", "user=a"}} {
		if code, stdout, stderr := decides(t, args...); code != exitUsage || stdout != "" || !strings.Contains(stderr, "is not UTF-8") {
			t.Errorf("%q: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
}
