package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/redistest"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/memory"
)

const explainPolicy = `domain: shop
descriptors:
  - key: plan
    value: premium
    descriptors:
      - key: user
        rate_limit: {name: per-user, unit: minute, requests_per_unit: 3}
  - key: plan
    value: pre*
    descriptors:
      - key: seat
        rate_limit: {name: per-seat, unit: hour, requests_per_unit: 50, algorithm: token_bucket, burst: 5}
  - key: ip
    cidr: 10.0.0.0/8
    rate_limit: {name: inner, unit: minute, requests_per_unit: 10, algorithm: gcra}
  - key: ip
    rate_limit: {name: outer, unit: minute, requests_per_unit: 1, replaces: [{name: inner}]}
  - key: free
    rate_limit: {unlimited: true}
  - key: free
    value: trial
    shadow_mode: true
    rate_limit: {name: trial, unit: minute, requests_per_unit: 1}
  - key: free
    value: staff
  - key: batch
    quota_mode: true
    rate_limit: {name: batch, unit: minute, requests_per_unit: 2, overdraft: on}
`

// A brokenStore never answers.
type brokenStore struct{ store.Store }

func (brokenStore) Take(context.Context, time.Time, []store.Op) error {
	return fmt.Errorf("%w: no answer within 10ms", store.ErrUnavailable)
}

// explains runs explain against an admin page whose clock stands at 20 s past a
// full minute, after the descriptors have been taken from once for each time
// that they are named.
func explains(t *testing.T, s store.Store, taken []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	snapshot, err := file.Parse("rules.yaml", []byte(explainPolicy))
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Date(2026, 11, 30, 12, 0, 20, 0, time.UTC) }
	l := limiter.New(s, "memory", func() *policy.Snapshot { return snapshot }, unobserved{})
	for _, text := range taken {
		var d descriptor
		if err := d.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		req := &limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{{Cost: 1}}}
		for _, e := range d.entries {
			req.Descriptors[0].Entries = append(req.Descriptors[0].Entries, policy.Entry{Key: e.Key, Value: e.Value})
		}
		if err := l.Decide(t.Context(), now(), req, new(limiter.Verdict)); err != nil {
			t.Fatal(err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /explain", explainHandler(l, now))
	server := httptest.NewServer(mux)
	defer server.Close()
	return rlsd(t, append([]string{"explain", "--addr", server.Listener.Addr().String()}, args...)...)
}

func TestExplainAServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, args, taken, want string
	}{
		{"denied now", "--domain shop plan=premium,user=bob", "plan=premium,user=bob plan=premium,user=bob plan=premium,user=bob", `
plan=premium,user=bob: limited by the rule plan=premium/user (rules.yaml:6)
  plan=premium: exact (rules.yaml:3)
    passed over: wildcard pre* (rules.yaml:8), which is more general
  user=bob: any value (rules.yaml:6)
  bucket: shop/plan=premium/user=bob
  limit per-user: 3 per 1m, fixed_window (rules.yaml:7)
    0 of 3 remain, as if untouched in 40s
    a cost of 1 would be denied, retry after 40s

a request with a cost of 1: denied, retry after 40s
`},
		{"a cost that remains is allowed, one above is not", "--domain shop --cost 4 plan=prelude,seat=1", "plan=prelude,seat=1 plan=prelude,seat=1", `
plan=prelude,seat=1: limited by the rule plan=pre*/seat (rules.yaml:11)
  plan=prelude: wildcard pre* (rules.yaml:8)
    passed over: exact premium (rules.yaml:3), which does not cover it
  seat=1: any value (rules.yaml:11)
  bucket: shop/plan=prelude/seat=1
  limit per-seat: 50 per 1h, burst 5, token_bucket (rules.yaml:12)
    3 of 5 remain, as if untouched in 2m24s
    a cost of 4 would be denied, retry after 1m12s

a request with a cost of 4: denied, retry after 1m12s
`},
		{"the exact value wins, and there is no way back", "--domain shop plan=premium,seat=1", "", `
plan=premium,seat=1: not limited, for no rule matches: there is no key seat below plan=premium; the nearest there: user
  plan=premium: exact (rules.yaml:3)
    passed over: wildcard pre* (rules.yaml:8), which is more general; it would have led to the rule plan=pre*/seat, but there is no way back
  seat=1: nothing

a request with a cost of 1: allowed
`},
		{"too shallow", "--domain shop plan=premium", "", `
plan=premium: not limited, for no rule matches: the descriptor is shallower than the rules, which go on with: user
  plan=premium: exact (rules.yaml:3)
    passed over: wildcard pre* (rules.yaml:8), which is more general

a request with a cost of 1: allowed
`},
		{"too deep", "--domain shop ip=192.0.2.1,path=/pay", "", `
ip=192.0.2.1,path=/pay: not limited, for no rule matches: the descriptor is deeper than the rules, which have nothing below ip=192.0.2.1
  ip=192.0.2.1: any value (rules.yaml:16)
    passed over: network 10.0.0.0/8 (rules.yaml:13), which does not cover it
  path=/pay: nothing

a request with a cost of 1: allowed
`},
		{"a network, whose limit another rule replaces", "--domain shop ip=10.1.2.3 ip=::1", "", `
ip=10.1.2.3: limited by the rule ip~cidr:10.0.0.0%2F8 (rules.yaml:13)
  ip=10.1.2.3: network 10.0.0.0/8 (rules.yaml:13)
    passed over: any value (rules.yaml:16), which is more general
  bucket: shop/ip=10.1.2.3
  limit inner: 10 per 1m, gcra (rules.yaml:15)
    replaced by another rule of this request: it has no say

ip=::1: limited by the rule ip (rules.yaml:16)
  ip=::1: any value (rules.yaml:16)
    passed over: network 10.0.0.0/8 (rules.yaml:13), which does not cover it
  bucket: shop/ip=::1
  replaces inner: these have no say on the same request
  limit outer: 1 per 1m, fixed_window (rules.yaml:17)
    1 of 1 remain: untouched
    a cost of 1 would be allowed

a request with a cost of 1: allowed
`},
		{"neither a value nor a key", "--domain shop plan=free pln=premium", "", `
plan=free: not limited, for no rule matches: no rule of the key plan in this domain covers the value
  plan=free: nothing
    passed over: wildcard pre* (rules.yaml:8), which does not cover it
    passed over: exact premium (rules.yaml:3), which does not cover it

pln=premium: not limited, for no rule matches: there is no key pln in this domain; the nearest there: plan, ip, free, batch
  pln=premium: nothing

a request with a cost of 1: allowed
`},
		{"unlimited, exempt and shadow", "--domain shop free free=staff free=trial", "free=trial", `
free: not limited: the rule free (rules.yaml:18) is unlimited
  free: any value (rules.yaml:18)
    passed over: exact staff (rules.yaml:24), which does not cover it
    passed over: exact trial (rules.yaml:20), which does not cover it

free=staff: not limited: the rule free=staff (rules.yaml:24) has no limits, which exempts it
  free=staff: exact (rules.yaml:24)
    passed over: any value (rules.yaml:18), which is more general

free=trial: limited by the rule free=trial (rules.yaml:20)
  free=trial: exact (rules.yaml:20)
    passed over: any value (rules.yaml:18), which is more general
  bucket: shop/free=trial
  limit trial: 1 per 1m, fixed_window (rules.yaml:23)
    shadow: reported, never enforced
    0 of 1 remain, as if untouched in 40s
    a cost of 1 would be denied, retry after 40s

a request with a cost of 1: allowed
`},
		{"overdraft and quota mode", "--domain shop batch", "batch batch batch", `
batch: limited by the rule batch (rules.yaml:26)
  batch: any value (rules.yaml:26)
  bucket: shop/batch=
  quota_mode: it denies only together with all other rules of quota_mode that the request meets
  limit batch: 2 per 1m, fixed_window (rules.yaml:28)
    0 of 2 remain, and 1 more are owed, as if untouched in 40s
    a cost of 1 would be denied, and recorded all the same (overdraft: on), which makes the wait longer

a request with a cost of 1: denied
`},
		{"unknown domain", "--domain shpo plan=premium", "", `
the domain shpo has no rules, so nothing is limited; the nearest that have: shop

a request with a cost of 1: allowed
`},
		{"what would not be seen is quoted", "--domain shop plan=\x1b[2J", "", `
"plan=\x1b[2J": not limited, for no rule matches: no rule of the key plan in this domain covers the value
  "plan=\x1b[2J": nothing
    passed over: wildcard pre* (rules.yaml:8), which does not cover it
    passed over: exact premium (rules.yaml:3), which does not cover it

a request with a cost of 1: allowed
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := explains(t, memory.New(memory.Options{}), strings.Fields(test.taken), strings.Fields(test.args)...)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), stdout); diff != "" || code != exitDone || stderr != "" {
				t.Errorf("%d %s%s\ngot\n%s", code, stderr, diff, stdout)
			}
		})
	}
}

func TestExplainSaysThatTheStoreDoesNotAnswer(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := explains(t, brokenStore{}, nil, "--domain", "shop", "plan=premium,user=bob")
	want := `plan=premium,user=bob: limited by the rule plan=premium/user (rules.yaml:6)
  plan=premium: exact (rules.yaml:3)
    passed over: wildcard pre* (rules.yaml:8), which is more general
  user=bob: any value (rules.yaml:6)
  bucket: shop/plan=premium/user=bob
  limit per-user: 3 per 1m, fixed_window (rules.yaml:7)
    how it stands is not known: the store did not answer

a request with a cost of 1: it depends on the store, which did not answer
the store (memory) did not tell how all limits stand: store unavailable: no answer within 10ms
`
	if diff := cmp.Diff(want, stdout); diff != "" || code != exitDone || stderr != "" {
		t.Errorf("%d %s%s", code, stderr, diff)
	}
	// Whatever the bucket holds, 4 of 3 are too many.
	code, stdout, _ = explains(t, brokenStore{}, nil, "--domain", "shop", "--cost", "4", "plan=premium,user=bob")
	if code != exitDone || !strings.Contains(stdout, "\na request with a cost of 4: denied, and no wait helps\n") {
		t.Errorf("%d %s", code, stdout)
	}
}

func TestExplainAsJSON(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := explains(t, memory.New(memory.Options{}), []string{"plan=premium,user=bob"},
		"--domain", "shop", "--output", "json", "plan=premium,user=bob")
	want := `{
  "domain": "shop",
  "known": true,
  "cost": 1,
  "answer": "allowed",
  "store": "memory",
  "descriptors": [
    {
      "descriptor": "plan=premium,user=bob",
      "outcome": "limited",
      "rule": "plan=premium/user",
      "source": "rules.yaml:6",
      "levels": [
        {
          "key": "plan",
          "value": "premium",
          "found": {
            "by": "exact",
            "text": "premium",
            "source": "rules.yaml:3",
            "covers": true
          },
          "passed_over": [
            {
              "by": "wildcard",
              "text": "pre*",
              "source": "rules.yaml:8",
              "covers": true
            }
          ]
        },
        {
          "key": "user",
          "value": "bob",
          "found": {
            "by": "any value",
            "source": "rules.yaml:6",
            "covers": true
          }
        }
      ],
      "key": "shop/plan=premium/user=bob",
      "limits": [
        {
          "domain": "shop",
          "limit": "per-user",
          "algorithm": "fixed_window",
          "quota": 3,
          "window": "1m",
          "overdraft": "auto",
          "shadow": false,
          "enforce_percent": 100,
          "in_force": "enforced",
          "file": "rules.yaml",
          "line": 7,
          "known": true,
          "remaining": 2,
          "capacity": 3,
          "debt": 0,
          "reset_after_us": 40000000,
          "allowed": true
        }
      ]
    }
  ]
}
`
	if diff := cmp.Diff(want, stdout); diff != "" || code != exitDone || stderr != "" {
		t.Errorf("%d %s%s", code, stderr, diff)
	}
}

func TestExplainRuleFiles(t *testing.T) {
	t.Parallel()
	path := write(t, explainPolicy)
	code, stdout, stderr := rlsd(t, "explain", "--config", path, "--domain", "shop", "plan=prelude,seat=1")
	want := strings.ReplaceAll(`plan=prelude,seat=1: limited by the rule plan=pre*/seat (FILE:11)
  plan=prelude: wildcard pre* (FILE:8)
    passed over: exact premium (FILE:3), which does not cover it
  seat=1: any value (FILE:11)
  bucket: shop/plan=prelude/seat=1
  limit per-seat: 50 per 1h, burst 5, token_bucket (FILE:12)
    5 of 5 remain: untouched
    a cost of 1 would be allowed

a request with a cost of 1, with buckets that nobody has touched: allowed
`, "FILE", path)
	if diff := cmp.Diff(want, stdout); diff != "" || code != exitDone || stderr != "" {
		t.Errorf("%d %s%s", code, stderr, diff)
	}
	if code, stdout, stderr = rlsd(t, "explain", "--config", write(t, badPolicy), "--domain", "shop", "x"); code != exitFault || stdout != "" ||
		strings.Count(stderr, "\n") != 2 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

// TestServeExplains asks the admin port of a daemon, by the flags that people
// use, and holds that being asked is not counted.
func TestServeExplains(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	defer stop()
	d.ask("k1")
	for range 2 {
		code, stdout, stderr := rlsd(t, "explain", "--addr", d.admin, "--domain", "shop", "api_key=k1")
		if code != exitDone || stderr != "" || !strings.Contains(stdout, "\n    1 of 2 remain, as if untouched in ") {
			t.Errorf("%d %s%s", code, stdout, stderr)
		}
	}
	if _, metrics := d.get("http://" + d.admin + "/metrics"); strings.Contains(metrics, `outcome="peeked"} 1`) {
		t.Error("it was counted")
	}
}

func TestExplainSaysWhyNoAnswerCame(t *testing.T) {
	t.Parallel()
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	defer stop()
	for _, test := range []struct{ addr, descriptor, want string }{
		{d.http, "x", "ask " + d.http + ": 404 Not Found; is that the admin port of an rlsd that can explain? check --addr"},
		{d.admin, strings.Repeat("x", 32<<10), "ask " + d.admin + ": the descriptors are too long for one question: ask about fewer at once"},
		{"127.0.0.1:1", "x", "ask 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; " +
			"check that rlsd is up and --addr is its admin port, or explain its rule files with --config"},
	} {
		code, stdout, stderr := rlsd(t, "explain", "--addr", test.addr, "--domain", "shop", test.descriptor)
		if want := "rlsd: " + test.want + "\n"; code != exitFault || stdout != "" || stderr != want {
			t.Errorf("%d %s%s\nwant %s", code, stdout, stderr, want)
		}
	}
}

func TestExplainPageRefusesWhatIsNoQuestion(t *testing.T) {
	t.Parallel()
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	defer stop()
	for query, want := range map[string]string{
		"":                                 "want ?domain=NAME&descriptor=key=value,key=value with one descriptor or more\n",
		"domain=shop":                      "want ?domain=NAME&descriptor=key=value,key=value with one descriptor or more\n",
		"domain=shop&descriptor=":          "descriptor ``: an entry without a key; want key=value[,key=value]\n",
		"domain=shop&descriptor=x&cost=-1": "cost \"-1\": want a whole number, 0 or more\n",
		"domain=shop&descriptor=%zz":       "query: invalid URL escape \"%zz\"; want ?domain=NAME&descriptor=key=value\n",
		"domain=s" + strings.Repeat("&descriptor=x", 21): "21 descriptors: the most is 20\n",
	} {
		if code, body := d.get("http://" + d.admin + "/explain?" + query); code != http.StatusBadRequest || body != want {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}

// TestExplainWaitsForTheStoreNoLongerThanDecide freezes Redis.
func TestExplainWaitsForTheStoreNoLongerThanDecide(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d, stop := serveHere(t, "--config", write(t, goodPolicy), "--redis-url", server.URL(), "--store-timeout", "200ms")
	defer stop()
	_, stdout, stderr := rlsd(t, "explain", "--addr", d.admin, "--domain", "shop", "api_key=k1")
	if !strings.Contains(stdout, "\n    2 of 2 remain: untouched\n") {
		t.Errorf("%s%s", stdout, stderr)
	}
	server.Freeze()
	defer server.Thaw()
	code, stdout, stderr := rlsd(t, "explain", "--addr", d.admin, "--domain", "shop", "api_key=k1")
	if code != exitDone || !strings.Contains(stdout, "the store (redis) did not tell how all limits stand: store unavailable: ") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

func TestExplainOverAUnixSocket(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "a.sock")
	d, stop := serveHere(t, "--config", write(t, goodPolicy), "--admin-addr", socket)
	defer stop()
	d.ignoreLog()
	if code, stdout, stderr := rlsd(t, "explain", "--addr", socket, "--domain", "shop", "nothing=here"); code != exitDone || !strings.Contains(stdout, "allowed") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}
