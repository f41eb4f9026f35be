package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlsd/rlsd/client"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/telemetry"
)

// admin runs a subcommand of admin against the daemon. What differs from one
// run to the next stands as TIME and PEER.
func (d *daemon) adminCommand(words string) (code int, stdout, stderr string) {
	d.t.Helper()
	code, stdout, stderr = rlsd(d.t, append(strings.Fields("admin "+words), "--addr", d.admin)...)
	stdout = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`).ReplaceAllString(stdout, "TIME")
	stdout = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(stdout, "PEER")
	return code, regexp.MustCompile(` +`).ReplaceAllString(stdout, " "), stderr
}

// ignoreLog lets the daemon log what it likes from now on.
func (d *daemon) ignoreLog() {
	go func() {
		for d.log.Scan() {
		}
	}()
}

// codes asks n times about a key.
func (d *daemon) codes(n int, key string) string {
	d.t.Helper()
	var got []string
	for range n {
		got = append(got, d.ask(key).String())
	}
	return strings.Join(got, " ")
}

func TestAdminSwitches(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	defer stop()
	d.ignoreLog()
	const head = "MODE DOMAIN LIMIT SINCE UNTIL BY STATE\n"
	if got := d.codes(3, "k1"); got != "OK OK OVER_LIMIT" {
		t.Fatalf("at first: %s", got)
	}
	for _, test := range []struct {
		command        string
		code           int
		stdout, stderr string
		then           string // what k1 gets
	}{
		{"switches", 0, "nothing is switched: the rules are in force\n", "", "OVER_LIMIT"},
		{"shadow --domain shop --limit per-key", 0, head + "shadow shop per-key TIME cleared PEER in force\n", "", "OK"},
		{"clear --domain shop", 1, "", "rlsd: no switch is set on domain \"shop\"\n", "OK"},
		{"clear --domain shop --limit per-key", 0, "nothing is switched: the rules are in force\n", "", "OVER_LIMIT"},
		{"clear --domain shop --limit per-key", 1, "", "rlsd: no switch is set on limit \"per-key\" of the domain \"shop\"\n", "OVER_LIMIT"},
		{"shadow --domain shop --for 1h", 0, head + "shadow shop any TIME TIME PEER in force\n", "", "OK"},
		{"off --domain shop --limit per-key", 0, head + "shadow shop any TIME TIME PEER in force\noff shop per-key TIME cleared PEER in force\n", "", "OK"},
		{"clear --domain shop", 0, head + "off shop per-key TIME cleared PEER in force\n", "", "OK"},
		{"clear --domain shop --limit per-key", 0, "nothing is switched: the rules are in force\n", "", "OVER_LIMIT"},
		{"shadow --everywhere", 0, head + "shadow any any TIME cleared PEER in force\n", "", "OK"},
		{"clear --everywhere", 0, "nothing is switched: the rules are in force\n", "", "OVER_LIMIT"},
		{"off --domain shop --limit per-kye", 1, "", "rlsd: the domain \"shop\" has no limit \"per-kye\": see /policies for the names\n", "OVER_LIMIT"},
		{"shadow --domain shop --for 1ms", 1, "", "rlsd: for \"1ms\": want a duration such as 30m or 12h, at least 1s\n", "OVER_LIMIT"},
		{"shadow --domain shop --for=-1h", 1, "", "rlsd: for \"-1h0m0s\": want a duration such as 30m or 12h, at least 1s\n", "OVER_LIMIT"},
	} {
		code, stdout, stderr := d.adminCommand(test.command)
		if code != test.code || stdout != test.stdout || stderr != test.stderr {
			t.Errorf("%s: %d %q %q, want %d %q %q", test.command, code, stdout, stderr, test.code, test.stdout, test.stderr)
		}
		if got := d.codes(1, "k1"); got != test.then {
			t.Errorf("after %s: %s, want %s", test.command, got, test.then)
		}
	}
}

// TestSwitchesAreSeen looks for a switch in the log, the metrics, /policies and
// the metadata of an answer.
func TestSwitchesAreSeen(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.adminCommand("shadow --domain shop --limit per-key --for 1s")
	}()
	set := d.await("switch set")
	<-done
	by, _ := set["by"].(string)
	if set["level"] != "WARN" || set["mode"] != "shadow" || set["on"] != `limit "per-key" of the domain "shop"` ||
		!strings.HasPrefix(by, "127.0.0.1:") || set["until"] == nil {
		t.Errorf("the log says %v", set)
	}
	d.codes(2, "k1")
	answer, err := rls.NewRateLimitServiceClient(d.dial()).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
		Domain: "shop",
		Descriptors: []*common.RateLimitDescriptor{
			{Entries: []*common.RateLimitDescriptor_Entry{{Key: "api_key", Value: "k1"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	over := answer.GetDynamicMetadata().GetFields()["rlsd"].GetStructValue().GetFields()["limits"].GetListValue().GetValues()
	if answer.GetOverallCode() != rls.RateLimitResponse_OK || len(over) != 1 || !over[0].GetStructValue().GetFields()["shadow"].GetBoolValue() {
		t.Errorf("got %v", answer)
	}
	if s := answer.GetStatuses()[0]; s.GetCurrentLimit() != nil || s.GetCode() != rls.RateLimitResponse_OK {
		t.Errorf("a limit in shadow is shown: %v", s)
	}
	_, metrics := d.get("http://" + d.admin + "/metrics")
	for _, want := range []string{"\nrlsd_switches 1\n", `outcome="shadow_denied"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	_, body := d.get("http://" + d.admin + "/policies")
	var page policiesPage
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Switches) != 1 || page.Switches[0].Limit != "per-key" || page.Limits[0].InForce != "shadow" || page.Limits[0].Shadow {
		t.Errorf("/policies: %s", body)
	}
	if over := d.await("switch expired"); over["by"] != by {
		t.Errorf("the log says %v", over)
	}
	if got := d.codes(1, "k1"); got != "OVER_LIMIT" {
		t.Errorf("after it expired: %s", got)
	}
}

// TestASwitchWorksWithoutRedis has a Redis that refuses connections, and one
// that takes them and is silent.
func TestASwitchWorksWithoutRedis(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for _, address := range []string{"127.0.0.1:1", silent.Addr().String()} {
		d, stop := serveHere(t, "--config", write(t, goodPolicy), "--redis-url", "redis://"+address+"/0")
		d.ignoreLog()
		asked := func() error {
			_, err := rls.NewRateLimitServiceClient(d.dial()).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
				Domain: "shop",
				Descriptors: []*common.RateLimitDescriptor{
					{Entries: []*common.RateLimitDescriptor_Entry{{Key: "api_key", Value: "k1"}}},
				},
			})
			return err
		}
		if status.Code(asked()) != codes.Unavailable {
			t.Fatalf("%s: it decides without its Redis", address)
		}
		for _, flags := range []string{"shadow --everywhere", "shadow --domain shop", "shadow --domain shop --limit per-key", "off --domain shop --limit per-key"} {
			if code, _, stderr := d.adminCommand(flags); code != exitDone {
				t.Fatalf("%s: %s", flags, stderr)
			}
			if got := d.codes(3, "k1"); got != "OK OK OK" {
				t.Errorf("%s: %s", flags, got)
			}
			_, target, _ := strings.Cut(flags, " ")
			if code, _, stderr := d.adminCommand("clear " + target); code != exitDone {
				t.Errorf("clear %s: %s", target, stderr)
			}
			if status.Code(asked()) != codes.Unavailable {
				t.Errorf("%s and cleared: it decides without its Redis", flags)
			}
		}
		stop()
	}
}

func TestSwitchesOverHTTP(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	defer stop()
	d.ignoreLog()
	const form, plain = "application/x-www-form-urlencoded", "application/json"
	browser := map[string]string{"Content-Type": plain, "Origin": "http://" + d.admin}
	for _, test := range []struct {
		method, query, body string
		header              map[string]string
		code                int
		want                string
	}{
		{"PUT", "", `{"mode":"shadow","everywhere":true}`, map[string]string{"Content-Type": plain}, 200, `"everywhere": true`},
		{"PUT", "", `{"mode":"shadow","domain":"shop"}`, map[string]string{"Content-Type": plain + "; charset=utf-8"}, 200, `"domain": "shop"`},
		{"GET", "", "", nil, 200, `"domain": "shop"`},
		{"DELETE", "?domain=shop", "", nil, 200, `"everywhere": true`},
		{"DELETE", "?everywhere=true", "", nil, 200, `"switches": []`},
		{"DELETE", "?everywhere=true", "", nil, 404, "no switch is set on everything"},
		{"DELETE", "", "", nil, 400, "want a domain, a domain and a limit, or everywhere"},
		{"PUT", "", `{"mode":"shadow","everywhere":true}`, map[string]string{"Content-Type": form}, 400, "want the header Content-Type: application/json"},
		{"PUT", "", `{"mode":"shadow","everywhere":true}`, map[string]string{"Content-Type": "text/plain"}, 400, "want the header Content-Type: application/json"},
		{"PUT", "", `{"mode":"shadow","everywhere":true}`, nil, 400, "want the header Content-Type: application/json"},
		{"PUT", "", `{"mode":"shadow","everywhere":true}`, browser, 403, "a browser cannot change switches"},
		{"DELETE", "?everywhere=true", "", map[string]string{"Sec-Fetch-Site": "same-origin"}, 403, "a browser cannot change switches"},
		{"POST", "", `{"mode":"shadow","everywhere":true}`, map[string]string{"Content-Type": plain}, 405, "Method Not Allowed"},
		{"PUT", "", `{"mode":"shadow"}`, map[string]string{"Content-Type": plain}, 400, "want a domain, a domain and a limit, or everywhere"},
		{"PUT", "", `{"mode":"shadow","limit":"per-key"}`, map[string]string{"Content-Type": plain}, 400, "want a domain"},
		{"PUT", "", `{"mode":"shadow","everywhere":true,"domain":"shop"}`, map[string]string{"Content-Type": plain}, 400, "drop one of them"},
		{"PUT", "", `{"mode":"loud","domain":"shop"}`, map[string]string{"Content-Type": plain}, 400, `mode \"loud\": want shadow or off`},
		{"PUT", "", `{"mode":"off","domain":"shop"}`, map[string]string{"Content-Type": plain}, 400, "only a single limit can be off"},
		{"PUT", "", `{"mode":"shadow","domain":"shop","untli":"x"}`, map[string]string{"Content-Type": plain}, 400, `unknown field \"untli\"`},
		{"PUT", "", `{"mode":"shadow","domain":"shop"} {}`, map[string]string{"Content-Type": plain}, 400, "more than one JSON object"},
		{"PUT", "", `{"mode":"shadow","domain":"shop","for":"soon"}`, map[string]string{"Content-Type": plain}, 400, `for \"soon\": want a duration`},
		{"PUT", "", `{"mode":"` + strings.Repeat("x", 5000) + `"}`, map[string]string{"Content-Type": plain}, 400, "too large"},
		{"PUT", "", "", map[string]string{"Content-Type": plain}, 400, "the body: EOF"},
		{"PUT", "", `{"mode":"shadow","domain":"shop","limit":""}`, map[string]string{"Content-Type": plain}, 400, "an empty name of a domain or a limit"},
		{"PUT", "", `{"mode":"shadow","domain":"shop","limit":null}`, map[string]string{"Content-Type": plain}, 400, "an empty name of a domain or a limit"},
		{"PUT", "", `{"mode":"shadow","everywhere":true,"domain":""}`, map[string]string{"Content-Type": plain}, 400, "an empty name of a domain or a limit"},
		{"PUT", "", `{"mode":"shadow","everywhere":true,"domain":null}`, map[string]string{"Content-Type": plain}, 400, "an empty name of a domain or a limit"},
		{"PUT", "", `{"mode":"shadow","domain":"shop","limit":7}`, map[string]string{"Content-Type": plain}, 400, "cannot unmarshal number"},
		{"GET", "", "", nil, 200, `"switches": []`},
		{"PUT", "", `{"mode":"shadow","domain":"shop"}`, map[string]string{"Content-Type": plain}, 200, `"domain": "shop"`},
		{"PUT", "", `{"mode":"shadow","everywhere":true}`, map[string]string{"Content-Type": plain}, 200, `"everywhere": true`},
		{"DELETE", "?domain=shop&limit=100%", "", nil, 400, `the query: invalid URL escape`},
		{"DELETE", "?domain=shop;limit=k", "", nil, 400, `the query: invalid semicolon separator`},
		{"DELETE", "?domain=shop&limt=k", "", nil, 400, `parameter \"limt\": want domain, limit or everywhere`},
		{"DELETE", "?domain=shop&limit=", "", nil, 400, `parameter \"limit\": an empty name`},
		{"DELETE", "?domain=shop&limit", "", nil, 400, `parameter \"limit\": an empty name`},
		{"DELETE", "?everywhere=true&domain=", "", nil, 400, `parameter \"domain\": an empty name`},
		{"DELETE", "?domain=shop&domain=shp", "", nil, 400, `parameter \"domain\": it is there more than once`},
		{"DELETE", "?domain=shop&everywhere=yes", "", nil, 400, `parameter \"everywhere\": want true`},
		{"DELETE", "?domain=shop", "", nil, 200, `"everywhere": true`},
		{"DELETE", "?everywhere=true", "", nil, 200, `"switches": []`},
		{"GET", "", "", nil, 200, `"switches": []`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, "http://"+d.admin+"/switches"+test.query, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range test.header {
			req.Header.Set(name, value)
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
		response, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != test.code || !strings.Contains(string(body), test.want) {
			t.Errorf("%s %s %.60s: %d %s, want %d %s", test.method, test.query, test.body, response.StatusCode, body, test.code, test.want)
		}
	}
}

// An unset variable of a script must not widen what is switched.
func TestAdminRefusesEmptyNames(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	defer stop()
	d.ignoreLog()
	for _, flags := range [][]string{
		{"shadow", "--domain", "shop", "--limit", ""},
		{"shadow", "--domain", "shop", "--limit="},
		{"shadow", "--everywhere", "--domain", ""},
		{"off", "--domain", "shop", "--limit", ""},
		{"off", "--domain=", "--limit", "per-key"},
		{"clear", "--domain", "shop", "--limit", ""},
		{"clear", "--everywhere", "--limit="},
	} {
		code, stdout, stderr := rlsd(t, append([]string{"admin", "--addr", d.admin}, flags...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "an empty name of a domain or a limit") {
			t.Errorf("%q: %d %q %q", flags, code, stdout, stderr)
		}
	}
	if _, stdout, _ := d.adminCommand("switches"); !strings.HasPrefix(stdout, "nothing is switched") {
		t.Error(stdout)
	}
}

func TestAdminPrintsNothingOfAServerRaw(t *testing.T) {
	for _, test := range []struct{ answer, want string }{
		{`{"error":"\u001b[31mFORGED\nline two"}`, `rlsd: "\x1b[31mFORGED\nline two"` + "\n"},
		{`{"error":"\u009b31m\u202e"}`, `rlsd: "\u009b31m\u202e"` + "\n"},
		{`{"error":"no \"such\" thing"}`, `rlsd: no "such" thing` + "\n"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, test.answer)
		}))
		for _, command := range []string{"switches", "unmatched"} {
			code, stdout, stderr := rlsd(t, "admin", command, "--addr", strings.TrimPrefix(server.URL, "http://"))
			if code != exitFault || stdout != "" || stderr != test.want {
				t.Errorf("%s: %d %q %q, want %q", test.answer, code, stdout, stderr, test.want)
			}
		}
		server.Close()
	}
}

func TestAdminUnmatched(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	defer stop()
	d.ignoreLog()
	if code, stdout, _ := d.adminCommand("unmatched"); code != exitDone || stdout != "nothing of late: every descriptor led to a rule\n" {
		t.Errorf("%d %q", code, stdout)
	}
	for _, r := range []struct{ domain, value string }{{"shop", "a"}, {"shop", "a"}, {"shp", "\x1b[2J" + strings.Repeat("s", 40)}} {
		time.Sleep(time.Millisecond) // so that the order is certain
		if _, err := rls.NewRateLimitServiceClient(d.dial()).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
			Domain: r.domain,
			Descriptors: []*common.RateLimitDescriptor{
				{Entries: []*common.RateLimitDescriptor_Entry{{Key: "usr", Value: r.value}, {Key: "x"}}},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	const want = "DOMAIN DESCRIPTOR WHY COUNT FIRST LAST\n" +
		`shp 'usr=\x1b[2Jssssssssssssssssssssssssssss…,x=' no such domain 1 TIME TIME` + "\n" +
		"shop usr=a,x= no rule 2 TIME TIME\n"
	if code, stdout, stderr := d.adminCommand("unmatched"); code != exitDone || stdout != want {
		t.Errorf("%d %q %s, want %q", code, stdout, stderr, want)
	}
	_, stdout, _ := d.adminCommand("unmatched --output json")
	var page unmatchedPage
	if err := json.Unmarshal([]byte(strings.ReplaceAll(stdout, "TIME", "2026-11-30T12:00:00Z")), &page); err != nil {
		t.Fatal(err)
	}
	if l := page.Unmatched; page.SamplesPerSecond != 100 || len(l) != 2 || !l[0].UnknownDomain || l[1].Count != 2 || l[1].Entries[0] != (unmatchedPair{"usr", "a"}) {
		t.Errorf("got %+v", page)
	}
}

// TestUnmatchedIsPrintedAsItIsAsked pastes what is printed into a shell.
func TestUnmatchedIsPrintedAsItIsAsked(t *testing.T) {
	for _, pairs := range [][]client.Entry{
		{{Key: "user", Value: "bob"}, {Key: "x"}},
		{{Key: "a,b=c", Value: `d,e=f\`}},
		{{Key: `a\`, Value: `\,`}, {Key: `\x1b`, Value: `\\n`}},
		{{Key: "k", Value: "v  no rule  5"}, {Key: "(and 5 more)"}, {Key: "it's", Value: `$HOME "x" ` + "`y`"}},
		{{Key: "café", Value: "*?#~!{}[]<>|&;"}},
	} {
		tel := telemetry.New(telemetry.Options{})
		var d policy.Descriptor
		for _, e := range pairs {
			d = append(d, policy.Entry{Key: e.Key, Value: e.Value})
		}
		tel.Unmatched("shop", d)
		answer := httptest.NewRecorder()
		unmatchedHandler(tel.Misses).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/unmatched", nil))
		var page unmatchedPage
		if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		text := page.Unmatched[0].descriptor()
		word, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+text).Output()
		if err != nil {
			t.Fatal(err)
		}
		var got descriptor
		if err := got.UnmarshalText(word); err != nil || !slices.Equal(got.entries, pairs) || visible(text) != text {
			t.Errorf("%v is printed as %s: %v %v", pairs, text, got.entries, err)
		}
	}
	for _, test := range []struct {
		line unmatchedLine
		want string
	}{
		{unmatchedLine{}, "(no entries)"},
		{unmatchedLine{Entries: []unmatchedPair{{"(no entries)", ""}}}, "'(no entries)='"},
		{unmatchedLine{Entries: []unmatchedPair{{"k", "v"}}, MoreEntries: 5}, "k=v (and 5 more)"},
		{unmatchedLine{Entries: []unmatchedPair{{"k", `a\nb`}}}, `'k=a\nb'`},
	} {
		if got := test.line.descriptor(); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

func TestAdminSaysWhyThereIsNoAnswer(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	nowhere := filepath.Join(t.TempDir(), "none.sock")
	for addr, want := range map[string]string{
		"127.0.0.1:1":     "rlsd: ask 127.0.0.1:1: nothing listens there; is rlsd running? --addr names its admin port (--admin-addr of rlsd serve)\n",
		"unix:" + nowhere: "rlsd: ask unix:" + nowhere + ": nothing listens there; is rlsd running? --addr names its admin port (--admin-addr of rlsd serve)\n",
		strings.TrimPrefix(other.URL, "http://"): "rlsd: ask " + strings.TrimPrefix(other.URL, "http://") +
			": /switches answers 404 Not Found without what rlsd would say; is that the admin port of rlsd? check --addr\n",
	} {
		if code, stdout, stderr := rlsd(t, "admin", "switches", "--addr", addr); code != exitFault || stdout != "" || stderr != want {
			t.Errorf("%s: %d %q %q, want %q", addr, code, stdout, stderr, want)
		}
	}
}

func TestAdminOverAUnixSocket(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "a.sock")
	d, stop := serveHere(t, "--config", write(t, goodPolicy), "--admin-addr", socket)
	defer stop()
	d.ignoreLog()
	if code, stdout, stderr := rlsd(t, "admin", "shadow", "--everywhere", "--addr", socket); code != exitDone || !strings.Contains(stdout, "shadow") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}
