package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/redistest"
)

func testRefund(t *testing.T, e *envoy, d *daemon) {
	type found struct {
		answers []answer
		left    uint64
	}
	f := undisturbed(t, inOneWindow(time.Hour), func(user string) (f found) {
		for range 5 { // more than two, one after the other
			f.answers = append(f.answers, e.ask(t, request{path: "/refund", headers: map[string]string{"x-user": user}}))
			eventually(t, func() error {
				if f.left = d.peek(t, "edge", "kind=under-way", "user="+user).GetRemaining(); f.left != 2 {
					return fmt.Errorf("%d left of 2 after a request that is over", f.left)
				}
				return nil
			})
		}
		return f
	})
	if got := codes(f.answers); got != "200 200 200 200 200" {
		t.Errorf("got %s", got)
	}
}

func testBudgets(t *testing.T, e *envoy, _ *daemon) {
	answers := undisturbed(t, inOneWindow(time.Hour), func(user string) []answer {
		return e.askTimes(t, 4, request{path: "/budgets", headers: map[string]string{"x-user": user}})
	})
	if got := codes(answers); got != "200 200 429 429" {
		t.Fatalf("one of its own and two to spare: got %s", got)
	}
	for i, budget := range []string{"own", "spare", "", ""} {
		line := e.logOf(t, answers[i])
		if got := line.Metadata.Metadata.Budget; got != budget {
			t.Errorf("answer %d came out of budget %q, says the access log, want %q", i, got, budget)
		}
	}
}

func testDomains(t *testing.T, e *envoy, _ *daemon) {
	got := undisturbed(t, inOneWindow(time.Hour), func(user string) (all []answer) {
		for _, who := range []string{"a", "a", "a", "b", "c"} { // two a user, three a tenant
			headers := map[string]string{"x-user": user + who, "x-tenant": user}
			all = append(all, e.ask(t, request{path: "/domains", headers: headers}))
		}
		return all
	})
	if got := codes(got); got != "200 200 429 200 429" {
		t.Errorf("got %s", got)
	}
}

func testManyDescriptors(t *testing.T, e *envoy, _ *daemon) {
	answers := undisturbed(t, inOneWindow(time.Hour), func(user string) []answer {
		return e.askTimes(t, 3, request{path: "/many", headers: map[string]string{"x-user": user}})
	})
	if got := codes(answers); got != "200 200 429" {
		t.Fatalf("two for each of %d: got %s", many, got)
	}
	if n := len(e.logOf(t, answers[2]).Metadata.Rlsd.Limits); n != many {
		t.Errorf("%d limits are over, says the access log, want %d", n, many)
	}
}

func testConnections(t *testing.T, e *envoy, _ *daemon) {
	var got []string
	for range 5 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
		response, err := client.Get(e.listeners[network])
		if err != nil {
			got = append(got, "closed")
			continue
		}
		_ = response.Body.Close()
		got = append(got, strconv.Itoa(response.StatusCode))
	}
	if want := []string{"200", "200", "200", "closed", "closed"}; !slices.Equal(got, want) && inOneWindow(time.Hour)(time.Now().Add(-time.Minute), time.Now()) {
		t.Errorf("three connections an hour: got %q, want %q", got, want)
	}
}

// TestWithoutRlsd holds that it is Envoy's to say what becomes of requests while
// no rlsd runs, and that all is well as soon as one does.
func TestWithoutRlsd(t *testing.T) {
	t.Parallel()
	d := startRlsd(t, "rlsd", "--store", "memory")
	e := startEnvoy(t, d)
	e.mayFail = true
	d.terminate()
	if err := d.wait(); err != nil {
		t.Fatal(err)
	}
	closed, open := plan("trial", "anyone"), plan("trial", "anyone")
	open.listener = frontOpen
	eventually(t, func() error {
		if a, b := e.ask(t, closed), e.ask(t, open); a.code != 503 || b.code != 200 {
			return fmt.Errorf("failure_mode_deny: %d, else %d, want 503 and 200", a.code, b.code)
		}
		return nil
	})
	startRlsd(t, "rlsd-again", "--store", "memory", "--grpc-addr", d.grpc)
	eventually(t, func() error {
		if n := e.healthy(t); n != 1 {
			return errors.New("the new one is not healthy yet")
		}
		return nil
	})
	answers := undisturbed(t, inOneWindow(time.Minute), func(user string) []answer {
		return e.askTimes(t, 4, plan("trial", user))
	})
	if got := codes(answers); got != "200 200 200 429" {
		t.Errorf("once it is back: got %s", got)
	}
}

// TestReloadAndRollingRestart changes the rules and replaces two daemons one after
// the other, all under load. Envoy hands on changes of health to its workers up to
// a second late (update_merge_window), if there was another shortly before: an
// instance has to go on answering for as long.
func TestReloadAndRollingRestart(t *testing.T) {
	t.Parallel()
	rules := copyRules(t)
	redis := redistest.Start(t)
	args := []string{"--config", rules, "--drain-delay", "2s", "--store", "redis", "--redis-url", redis.URL()}
	a, b := startRlsd(t, "rlsd-a", args...), startRlsd(t, "rlsd-b", args...)
	e := startEnvoy(t, a, b)
	type found struct {
		sent     int64
		used     uint64
		problems []error
	}
	quota := uint64(1_000_000)
	f := undisturbed(t, inOneWindow(time.Hour), func(user string) (f found) {
		l := e.startLoad(plan("load", user))
		defer l.stop()
		l.await(t, 100)
		quota++
		raise(t, rules, quota, a, b)
		for _, d := range []**daemon{&a, &b} {
			l.await(t, 100)
			old := *d
			old.terminate()
			if err := old.wait(); err != nil {
				t.Error(err)
			}
			*d = startRlsd(t, "rlsd-next", append(args, "--grpc-addr", old.grpc)...)
			eventually(t, func() error {
				if n := e.healthy(t); n != 2 {
					return fmt.Errorf("%d of 2 are healthy", n)
				}
				return nil
			})
		}
		l.await(t, 100)
		l.stop()
		f.sent, f.problems = l.answered.Load(), l.problems
		f.used = quota - a.peek(t, "edge", "plan=load", "user="+user).GetRemaining()
		return f
	})
	if err := errors.Join(f.problems...); err != nil {
		t.Errorf("%d requests failed: %v", len(f.problems), err)
	}
	if f.used != uint64(f.sent) {
		t.Errorf("%d requests were answered and %d were counted", f.sent, f.used)
	}
}

// copyRules returns a copy of the rules that a test may change.
func copyRules(t *testing.T) (path string) {
	t.Helper()
	text, err := os.ReadFile("testdata/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var loadQuota = regexp.MustCompile(`(name: load, .*requests_per_unit: )\d+`)

// raise gives the limit of the load another quota, and waits until all daemons
// have it.
func raise(t *testing.T, rules string, quota uint64, daemons ...*daemon) {
	t.Helper()
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	text = loadQuota.ReplaceAll(text, fmt.Appendf(nil, "${1}%d", quota))
	if err := errors.Join(os.WriteFile(rules+".new", text, 0o600), os.Rename(rules+".new", rules)); err != nil {
		t.Fatal(err)
	}
	for _, d := range daemons {
		eventually(t, func() error {
			page, err := get("http://" + d.admin + "/policies")
			if err == nil && !strings.Contains(page, fmt.Sprintf(`"quota": %d,`, quota)) {
				err = errors.New("the new rules are not in force")
			}
			return err
		})
	}
}
