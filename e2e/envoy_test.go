package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"
	"time"
)

// The listeners of an Envoy. Those of requests differ in who says when to retry,
// and in what becomes of a request if the service fails.
const (
	front           = "front"             // the service alone
	frontRetryAfter = "front_retry_after" // Envoy too, by enable_retry_after_header
	frontOpen       = "front_open"        // the service alone; what fails is let through
	network         = "tcp"               // connections, not requests
)

// many is how many descriptors a request to /many has.
const many = 256

// An envoy is an Envoy that asks rlsd about each request, and what it needs.
type envoy struct {
	*process
	admin     string            // its URL
	listeners map[string]string // name to URL
	accessLog string
	client    *http.Client
	requests  atomic.Int64
	mayFail   bool // calls of rlsd, since the test stops it
}

// startEnvoy starts an Envoy that asks the daemons, and waits until it takes
// requests and all daemons are healthy in its eyes. When the test ends, no
// answer of theirs may have failed.
func startEnvoy(t *testing.T, daemons ...*daemon) *envoy {
	t.Helper()
	path := tool(t, "envoy")
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	}))
	t.Cleanup(upstream.Close)

	dir := t.TempDir()
	e := &envoy{accessLog: filepath.Join(dir, "access.log")}
	adminFile := filepath.Join(dir, "admin")
	config := e.config(t, dir, upstream.Listener.Addr().(*net.TCPAddr).Port, daemons)
	e.process = start(t, "envoy", path, "-c", config,
		"--concurrency", "2",
		"--disable-hot-restart", // which would want an id that no other Envoy here has
		"--admin-address-path", adminFile,
		"--file-flush-interval-msec", "20",
	)
	transport := &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256}
	e.client = &http.Client{Transport: transport, Timeout: patience}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if t.Failed() {
			t.Logf("the access log:\n%s", tail(e.accessLog))
		}
	})

	e.awaitReady(t, func() error {
		addr, err := os.ReadFile(adminFile)
		if err != nil {
			return err
		}
		e.admin = "http://" + string(addr)
		if _, err := get(e.admin + "/ready"); err != nil {
			return err
		}
		if n := e.healthy(t); n != len(daemons) {
			return fmt.Errorf("%d of %d daemons are healthy", n, len(daemons))
		}
		return nil
	})
	e.findListeners(t)
	t.Cleanup(func() {
		if n := e.stat(t, "cluster.upstream.ratelimit.error"); n != 0 && !e.mayFail {
			t.Errorf("%d calls of rlsd failed", n)
		}
	})
	return e
}

// config writes the configuration and returns its path.
func (e *envoy) config(t *testing.T, dir string, upstream int, daemons []*daemon) string {
	t.Helper()
	type listener struct {
		Name       string
		RetryAfter bool
		FailOpen   bool
	}
	values := struct {
		Listeners []listener
		AccessLog string
		Upstream  int
		Rlsd      []int
		Many      []int
	}{
		Listeners: []listener{{front, false, false}, {frontRetryAfter, true, false}, {frontOpen, false, true}},
		AccessLog: e.accessLog,
		Upstream:  upstream,
	}
	for i := range many {
		values.Many = append(values.Many, i)
	}
	for _, d := range daemons {
		values.Rlsd = append(values.Rlsd, d.port(t))
	}
	parsed, err := template.ParseFiles("testdata/envoy.yaml.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, values); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// findListeners asks which ports the listeners got.
func (e *envoy) findListeners(t *testing.T) {
	t.Helper()
	page, err := get(e.admin + "/listeners?format=json")
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Statuses []struct {
			Name    string `json:"name"`
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(page), &found); err != nil {
		t.Fatalf("%v: %s", err, page)
	}
	e.listeners = map[string]string{}
	for _, l := range found.Statuses {
		e.listeners[l.Name] = fmt.Sprintf("http://%s:%d", l.Address.Socket.Address, l.Address.Socket.Port)
	}
	for _, name := range []string{front, frontRetryAfter, frontOpen, network} {
		if e.listeners[name] == "" {
			t.Fatalf("listener %s is missing: %s", name, page)
		}
	}
}

// stat returns a counter or gauge, 0 if Envoy does not know it (yet).
func (e *envoy) stat(t *testing.T, name string) (value int) {
	t.Helper()
	page, err := get(e.admin + "/stats?filter=^" + strings.ReplaceAll(name, ".", `\.`) + "$")
	if err != nil {
		t.Fatal(err)
	}
	if page == "" {
		return 0
	}
	if _, err := fmt.Sscanf(page, name+": %d", &value); err != nil {
		t.Fatalf("%v: %q", err, page)
	}
	return value
}

// healthy returns how many daemons the health checks found well.
func (e *envoy) healthy(t *testing.T) int {
	t.Helper()
	return e.stat(t, "cluster.rlsd.membership_healthy")
}

// A request is one that goes through Envoy.
type request struct {
	listener string // front, if empty
	path     string
	headers  map[string]string
}

// plan is a request of a user whose plan says what the limit is.
func plan(plan, user string) request {
	return request{path: "/plan", headers: map[string]string{"x-plan": plan, "x-user": user}}
}

// An answer is what came of a request.
type answer struct {
	path         string // in the access log; no other has it
	code         int
	header       http.Header
	body         string
	began, ended time.Time
}

// send sends the request.
func (e *envoy) send(r request) (a answer, err error) {
	if r.listener == "" {
		r.listener = front
	}
	a.path = fmt.Sprintf("%s?request=%d", r.path, e.requests.Add(1))
	outgoing, err := http.NewRequest(http.MethodGet, e.listeners[r.listener]+a.path, http.NoBody)
	if err != nil {
		return a, err
	}
	for name, value := range r.headers {
		outgoing.Header.Set(name, value)
	}
	a.began = time.Now()
	response, err := e.client.Do(outgoing)
	if err != nil {
		return a, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	a.ended, a.code, a.header, a.body = time.Now(), response.StatusCode, response.Header, string(body)
	return a, err
}

// ask is send for requests that cannot but be answered.
func (e *envoy) ask(t *testing.T, r request) answer {
	t.Helper()
	a, err := e.send(r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// askTimes asks n times, one after the other.
func (e *envoy) askTimes(t *testing.T, n int, r request) []answer {
	t.Helper()
	var all []answer
	for range n {
		all = append(all, e.ask(t, r))
	}
	return all
}

// one returns the value of a header field that must not be there twice, which
// is empty if it is not there.
func (a *answer) one(t *testing.T, name string) string {
	t.Helper()
	values := a.header.Values(name)
	if len(values) > 1 {
		t.Errorf("%s is there %d times: %q", name, len(values), values)
	}
	return strings.Join(values, " and ")
}

// codes returns the status codes as text, for comparison.
func codes(answers []answer) string {
	var all []string
	for i := range answers {
		all = append(all, strconv.Itoa(answers[i].code))
	}
	return strings.Join(all, " ")
}

// A logged request is a line of the access log.
type logged struct {
	Path     string `json:"path"`
	Code     int    `json:"code"`
	Flags    string `json:"flags"`
	Metadata struct {
		Metadata struct {
			Budget string `json:"budget"`
		} `json:"metadata"`
		Rlsd struct {
			DeniedBy string `json:"denied_by"`
			Limits   []struct {
				Descriptor   int    `json:"descriptor"`
				Domain       string `json:"domain"`
				Limit        string `json:"limit"`
				Algorithm    string `json:"algorithm"`
				Shadow       bool   `json:"shadow"`
				Remaining    int    `json:"remaining"`
				RetryAfterMs int    `json:"retry_after_ms"`
			} `json:"limits"`
		} `json:"rlsd"`
	} `json:"metadata"`
}

// logOf waits for the line of the access log about the request.
func (e *envoy) logOf(t *testing.T, a answer) (line logged) {
	t.Helper()
	eventually(t, func() error {
		file, err := os.Open(e.accessLog)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			line = logged{}
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Path == a.path {
				return nil
			}
		}
		return fmt.Errorf("the access log does not tell of %s", a.path)
	})
	return line
}
