package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/service"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/memory"
)

func jsonDoor(t testing.TB, s store.Store, o service.RLSOptions) http.Handler {
	t.Helper()
	snapshot, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(s, "memory", func() *policy.Snapshot { return snapshot }, nobody{})
	return service.NewRLS(l, func() time.Time { return now }, o)
}

// post asks over a real connection and returns the code, the content type and
// the body without the spaces that vary.
func post(t *testing.T, url, contentType string, body io.Reader) (code int, header http.Header, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		t.Errorf("%v: %s", err, raw)
	}
	return response.StatusCode, response.Header, compact.String()
}

const bob = `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"bob"}],"hitsAddend":"2"}]}`

func TestJSON(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(jsonDoor(t, memory.New(memory.Options{}), service.RLSOptions{Headers: service.IETF, ProblemBody: true, Envoy: 40}))
	defer server.Close()
	code, header, body := post(t, server.URL, "application/json", strings.NewReader(bob))
	want := `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"per-user","requestsPerUnit":3,"unit":"MINUTE"},"limitRemaining":1,"durationUntilReset":"42s"}],` +
		`"responseHeadersToAdd":[{"key":"ratelimit-policy","value":"\"per-user\";q=3;w=60"},{"key":"ratelimit","value":"\"per-user\";r=1;t=42"}]}`
	if code != http.StatusOK || body != want || header.Get("Content-Type") != "application/json" || header.Get("Retry-After") != "" {
		t.Errorf("%d %v %s, want %s", code, header, body, want)
	}
	if got := header.Get("RateLimit"); got != `"per-user";r=1;t=42` {
		t.Errorf("RateLimit: %s", got)
	}
	code, header, body = post(t, server.URL, "application/json; charset=utf-8", strings.NewReader(bob))
	if code != http.StatusTooManyRequests || header.Get("Retry-After") != "42" || header.Get("Content-Type") != "application/json" ||
		!strings.HasPrefix(body, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT",`) || !strings.Contains(body, `"rawBody":"eyJ0eXBl`) ||
		!strings.Contains(body, `"dynamicMetadata":{"rlsd":{"denied_by":"per-user",`) {
		t.Errorf("%d %v %s", code, header, body)
	}
	// The names of the proto file, and what curl --data says of its data.
	code, _, body = post(t, server.URL, "application/x-www-form-urlencoded", strings.NewReader(`{"domain":"shop","descriptors":[{"entries":[{"key":"ip"}],"hits_addend":1}],"hits_addend":9}`))
	if code != http.StatusOK || !strings.Contains(body, `"limitRemaining":1`) {
		t.Errorf("%d %s", code, body)
	}
	if code, _, body = post(t, server.URL, "", strings.NewReader(`{"domain":"nowhere","descriptors":[{}]}`)); code != http.StatusOK || body != `{"overallCode":"OK","statuses":[{"code":"OK"}]}` {
		t.Errorf("%d %s", code, body)
	}
}

func TestJSONRefuses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(jsonDoor(t, memory.New(memory.Options{}), service.RLSOptions{Envoy: 40}))
	defer server.Close()
	many := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+",", n), ",") }
	for _, test := range []struct {
		body, contentType string
		code              int
		detail            string
	}{
		{"", "", 400, `syntax error (line 1:1): unexpected token `},
		{"{", "", 400, `unexpected EOF`},
		{"[]", "", 400, `syntax error (line 1:1): unexpected token [`},
		{"{}", "", 400, `domain: must not be empty`},
		{`{"domain":"shop"}`, "", 400, `descriptors: must not be empty`},
		{`{"domain":"shop","descriptors":[{"entries":[{"key":"a"},{"value":"b"}]}]}`, "", 400, `descriptors[0].entries[1].key: must not be empty`},
		{`{"domain":"shop","descriptors":[{"limit":{"requestsPerUnit":1}}]}`, "", 400, `descriptors[0].limit.unit: must be set`},
		{"{\n \"domian\":\"shop\"}", "", 400, `(line 2:2): unknown field "domian"`},
		{`{"domain":7}`, "", 400, `(line 1:11): invalid value for string field domain: 7`},
		{`{"domain":"a","domain":"b"}`, "", 400, `(line 1:15): duplicate field "domain"`},
		{`{"hitsAddend":-1}`, "", 400, `(line 1:15): invalid value for uint32 field hitsAddend: -1`},
		{`{"domain":"` + "\xff" + `"}`, "", 400, `syntax error (line 1:11): invalid UTF-8 in string`},
		{`{"domain":"shop","descriptors":[` + many(513, "{}") + `]}`, "", 400, `descriptors: more than 512`},
		{`{"domain":"shop","descriptors":[{"entries":[` + many(65, "{}") + `]}]}`, "", 400, `descriptors[0].entries: more than 64`},
		{`{"domain":"shop","descriptors":[` + many(300_000, "{}") + `]}`, "", 400, `more than 34818 objects: more than 512 descriptors, or one with more than 64 entries`},
		{`{"domain":` + strings.Repeat("[", 900_000), "", 400, `more than 34818 objects: more than 512 descriptors, or one with more than 64 entries`},
		{bob, "application/grpc", 415, `the body is no JSON by its Content-Type: send application/json`},
		{bob, "multipart/form-data; boundary=x", 415, `the body is no JSON by its Content-Type: send application/json`},
		{bob, "application/json; charset", 415, `the body is no JSON by its Content-Type: send application/json`},
		{strings.Repeat(" ", 1<<20) + "{", "", 413, `the body has more than 1048576 bytes`},
	} {
		code, header, body := post(t, server.URL, test.contentType, strings.NewReader(test.body))
		var problem struct {
			Title  string
			Status int
			Detail string
		}
		if err := json.Unmarshal([]byte(body), &problem); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		if code != test.code || problem.Status != code || problem.Title != http.StatusText(code) || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.50s: %d %v %s, want %d", test.body, code, header, body, test.code)
		}
		if !strings.HasPrefix(problem.Detail, test.detail) {
			t.Errorf("%.50s: %s, want %s", test.body, problem.Detail, test.detail)
		}
	}
	// A body that does not say how long it is.
	code, header, body := post(t, server.URL, "", io.MultiReader(strings.NewReader(strings.Repeat(" ", 1<<20)), strings.NewReader("{}")))
	if code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %v %s", code, header, body)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(bob))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Encoding", "gzip")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("gzip: %s", response.Status)
	}
}

func TestJSONWithoutAStore(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(jsonDoor(t, failing{}, service.RLSOptions{Envoy: 40}))
	defer server.Close()
	code, _, body := post(t, server.URL, "application/json", strings.NewReader(bob))
	if want := `{"title":"Service Unavailable","status":503,"detail":"the store did not answer in time"}`; code != http.StatusServiceUnavailable || body != want {
		t.Errorf("%d %s, want %s", code, body, want)
	}
}

// hanging is a store that answers when its caller has enough.
type hanging struct{ store.Store }

func (hanging) Take(ctx context.Context, _ time.Time, _ []store.Op) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
}

func TestJSONHasADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, w := time.Now(), httptest.NewRecorder()
		jsonDoor(t, hanging{}, service.RLSOptions{Envoy: 40}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(bob)))
		if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took != 5*time.Second {
			t.Errorf("%d after %v", w.Code, took)
		}
	})
}

func TestJSONWaitsForNoBody(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(jsonDoor(t, memory.New(memory.Options{}), service.RLSOptions{Envoy: 40}))
	server.Config.ReadTimeout = 50 * time.Millisecond
	server.Start()
	defer server.Close()
	body, stall := io.Pipe()
	defer func() { _ = stall.Close() }()
	if code, _, text := post(t, server.URL, "", body); code != http.StatusRequestTimeout {
		t.Errorf("%d %s", code, text)
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		bob, "", "{}", "[", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"\u0000\r\n"}],"limit":{"requestsPerUnit":1,"unit":"DAY","unitMultiplier":3},"isNegativeHits":true}]}`,
		`{"domain":"shop","descriptors":[{"hitsAddend":"18446744073709551615","entries":[{"key":"plan"}]}],"hitsAddend":4294967295}`,
		`{"\ud800":1}`, "{\"\xff\":1}", `{"domain":"shop","descriptors":[null]}`, `{"@type":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	door := jsonDoor(f, memory.New(memory.Options{}), service.RLSOptions{Headers: service.IETF | service.XRateLimit | service.Reference, ProblemBody: true, Envoy: 36})
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		door.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", bytes.NewReader(body)))
		if w.Code != 200 && w.Code != 429 && w.Code != 400 {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) || !utf8.Valid(w.Body.Bytes()) || w.Code == 400 && w.Body.Len() > 4096 {
			t.Errorf("%q: %q", body, w.Body)
		}
		for name, values := range w.Header() {
			for _, v := range values {
				if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%q: %s: %q", body, name, v)
				}
			}
		}
	})
}
