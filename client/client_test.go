package client_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rlsd/rlsd/client"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/service"
	"github.com/rlsd/rlsd/internal/store/memory"
)

const rules = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3, name: per-user}
  - key: queue
    rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, burst: 2, name: queue, shadow: true}
  - key: line
    rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket, burst: 2, name: line}
`

type nobody struct{}

func (nobody) DecidedValue(*policy.Limit, string, limiter.Outcome) {}
func (nobody) Decided(*policy.Limit, limiter.Outcome)              {}
func (nobody) Failing(error)                                       {}
func (nobody) UnknownDomain(string, policy.Descriptor)             {}
func (nobody) Unmatched(string, policy.Descriptor)                 {}

// dial serves the rules at one time, 20 s into a minute.
func dial(t *testing.T) *client.Client {
	t.Helper()
	snapshot, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 30, 12, 0, 20, 0, time.UTC)
	l := limiter.New(memory.New(memory.Options{}), "memory", func() *policy.Snapshot { return snapshot }, nobody{})
	server := grpc.NewServer(grpc.ForceServerCodecV2(service.Codec()))
	service.NewDecide(l, func() time.Time { return now }).Register(server)
	listener := bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///rlsd", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return client.New(conn)
}

func of(key string) client.Descriptor {
	return client.Descriptor{Entries: []client.Entry{{Key: key, Value: "bob"}}}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	c := dial(t)
	ask := func(cost *uint64, want *client.Verdict) {
		t.Helper()
		queue := of("queue")
		queue.Domain, queue.Cost = "shop", new(uint64(1))
		elsewhere := of("user")
		elsewhere.Domain = "nowhere"
		got, err := c.Decide(t.Context(), client.Request{
			Domain: "shop", Cost: cost, Descriptors: []client.Descriptor{of("user"), queue, elsewhere},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	user := client.Limit{
		Domain: "shop", Name: "per-user", Algorithm: "fixed_window", Quota: 3, Window: time.Minute,
		Allowed: true, Remaining: 2, ResetAfter: 40 * time.Second, DecidedBy: "memory",
	}
	queue := client.Limit{
		Domain: "shop", Name: "queue", Algorithm: "leaky_bucket", Quota: 2, Window: time.Second, Burst: 2,
		Allowed: true, Remaining: 1, ResetAfter: 500 * time.Millisecond, Shadow: true, DecidedBy: "memory",
	}
	want := func(headers ...client.Header) *client.Verdict {
		return &client.Verdict{
			Allowed: user.Allowed, RetryAfter: user.RetryAfter, Headers: headers,
			Results: []client.Result{
				{Allowed: user.Allowed, Rule: "user", Limits: []client.Limit{user}},
				{Allowed: true, Rule: "queue", Limits: []client.Limit{queue}},
				{Allowed: true},
			},
		}
	}
	h := func(name, value string) client.Header { return client.Header{Name: name, Value: value} }
	told := func(remaining, reset string) []client.Header {
		return []client.Header{
			h("RateLimit-Policy", `"per-user";q=3;w=60`), h("RateLimit", `"per-user";r=`+remaining+";t="+reset),
			h("X-RateLimit-Limit", "3"), h("X-RateLimit-Remaining", remaining), h("X-RateLimit-Reset", reset),
		}
	}
	ask(nil, want(told("2", "40")...))

	user.Remaining, queue.Remaining, queue.ResetAfter, queue.Delay = 0, 0, time.Second, 500*time.Millisecond
	ask(new(uint64(2)), want(told("0", "40")...))

	user.Allowed, user.RetryAfter = false, 40*time.Second
	queue.Allowed, queue.Delay, queue.RetryAfter = false, 0, 500*time.Millisecond
	ask(new(uint64(0)), want(append([]client.Header{h("Retry-After", "40")}, told("0", "40")...)...))

	user.RetryAfter = client.Never
	ask(new(uint64(4)), want(told("0", "40")...))
}

func TestDelay(t *testing.T) {
	t.Parallel()
	c := dial(t)
	for _, want := range []string{"true 0s 0s", "true 250ms 0s", "false 0s 250ms"} {
		v, err := c.Decide(t.Context(), client.Request{Domain: "shop", Descriptors: []client.Descriptor{of("line")}})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(v.Allowed, v.Delay, v.RetryAfter); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDecideHasErrorsOfGRPC(t *testing.T) {
	t.Parallel()
	_, err := dial(t).Decide(t.Context(), client.Request{Domain: "shop"})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v, want INVALID_ARGUMENT", err)
	}
}

// odd is a server that answers with no results.
type odd struct{ grpc.ClientConnInterface }

func (odd) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return nil }

func TestAnAnswerToSomethingElseIsAnError(t *testing.T) {
	t.Parallel()
	v, err := client.New(odd{}).Decide(t.Context(), client.Request{Domain: "shop", Descriptors: []client.Descriptor{of("user")}})
	if status.Code(err) != codes.Internal {
		t.Errorf("got %v, %v, want INTERNAL", v, err)
	}
}
