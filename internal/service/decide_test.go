package service_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	rlsdv1 "github.com/rlsd/rlsd/gen/rlsd/v1"
)

// of makes a descriptor of a key, with the value x.
func of(key string) *rlsdv1.Descriptor {
	return &rlsdv1.Descriptor{Entries: []*rlsdv1.Entry{{Key: key, Value: "x"}}}
}

func costs(n uint64, d *rlsdv1.Descriptor) *rlsdv1.Descriptor {
	d.Cost = new(n)
	return d
}

func in(domain string, d *rlsdv1.Descriptor) *rlsdv1.Descriptor {
	d.Domain = domain
	return d
}

func decide(t *testing.T, conn *grpc.ClientConn, req *rlsdv1.DecideRequest) *rlsdv1.DecideResponse {
	t.Helper()
	resp, err := rlsdv1.NewDecisionServiceClient(conn).Decide(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// ask asks the domain shop about descriptors.
func (c *decider) ask(descriptors ...*rlsdv1.Descriptor) *rlsdv1.DecideResponse {
	c.t.Helper()
	return decide(c.t, c.conn, &rlsdv1.DecideRequest{Domain: "shop", Descriptors: descriptors})
}

type decider struct {
	t    *testing.T
	conn *grpc.ClientConn
}

func newDecider(t *testing.T) *decider {
	t.Helper()
	return &decider{t, inMemory(t)}
}

func (c *decider) expect(got, want *rlsdv1.DecideResponse) {
	c.t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		c.t.Error(diff)
	}
}

func TestDecideTellsEveryLimit(t *testing.T) {
	t.Parallel()
	c := newDecider(t)
	ask := func(cost uint64) *rlsdv1.DecideResponse {
		return decide(t, c.conn, &rlsdv1.DecideRequest{
			Domain: "shop", Cost: new(cost),
			Descriptors: []*rlsdv1.Descriptor{of("slow"), costs(2, of("shaded")), {}},
		})
	}
	shaded := &rlsdv1.DescriptorResult{Allowed: true, Rule: "shaded", Limits: []*rlsdv1.LimitResult{{
		Domain: "shop", Name: "shaded", Algorithm: "fixed_window", Quota: 1, Window: durationpb.New(time.Minute),
		Remaining: 1, ResetAfter: durationpb.New(41_600 * time.Millisecond), Shadow: true, DecidedBy: "memory",
	}}}
	slow := &rlsdv1.LimitResult{
		Domain: "shop", Name: "slow", Algorithm: "token_bucket", Quota: 8, Window: durationpb.New(time.Hour), Burst: 1,
		Allowed: true, ResetAfter: durationpb.New(450 * time.Second), DecidedBy: "memory",
	}
	headers := func(lines ...string) (out []*rlsdv1.Header) {
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ": ")
			out = append(out, &rlsdv1.Header{Name: name, Value: value})
		}
		return out
	}
	rest := []string{
		`RateLimit-Policy: "slow";q=8;w=3600`, `RateLimit: "slow";r=0;t=450`,
		`X-RateLimit-Limit: 8`, `X-RateLimit-Remaining: 0`, `X-RateLimit-Reset: 450`,
	}
	want := &rlsdv1.DecideResponse{
		Allowed: true, Headers: headers(rest...),
		Results: []*rlsdv1.DescriptorResult{{Allowed: true, Rule: "slow", Limits: []*rlsdv1.LimitResult{slow}}, shaded, {Allowed: true}},
	}
	c.expect(ask(1), want)

	slow.Allowed, slow.RetryAfter = false, durationpb.New(450*time.Second)
	want.Allowed, want.RetryAfter, want.Results[0].Allowed = false, slow.GetRetryAfter(), false
	want.Headers = headers(append([]string{"Retry-After: 450"}, rest...)...)
	c.expect(ask(1), want)

	// Never: nothing says when to retry; the window ends in 54 min 41.6 s.
	slow.RetryAfter, want.RetryAfter = nil, nil
	want.Headers = headers(rest[0], `RateLimit: "slow";r=0;t=3282`, rest[2], rest[3], "X-RateLimit-Reset: 3282")
	for _, cost := range []uint64{2, 1 << 53, 1 << 63, 1<<64 - 1} {
		c.expect(ask(cost), want)
	}
}

func TestDecideCosts(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	for i, test := range []struct {
		cost, own *uint64
		allowed   bool
		remaining uint64
	}{
		{nil, nil, true, 2},
		{new(uint64(0)), nil, true, 2},
		{nil, new(uint64(0)), true, 2},
		{new(uint64(7)), new(uint64(1)), true, 1},
		{nil, new(uint64(1<<64 - 1)), false, 1},
		{new(uint64(2)), nil, false, 1},
		{new(uint64(2)), new(uint64(0)), true, 1},
		{nil, nil, true, 0},
		{new(uint64(0)), nil, false, 0},
	} {
		d := of("user")
		d.Cost = test.own
		resp := decide(t, conn, &rlsdv1.DecideRequest{Domain: "shop", Cost: test.cost, Descriptors: []*rlsdv1.Descriptor{d}})
		if l := resp.GetResults()[0].GetLimits()[0]; resp.GetAllowed() != test.allowed || l.GetAllowed() != test.allowed || l.GetRemaining() != test.remaining {
			t.Errorf("%d: got %v", i, resp)
		}
	}
}

func TestDecideDelay(t *testing.T) {
	t.Parallel()
	c := newDecider(t)
	seconds := func(d *durationpb.Duration) string {
		if d == nil {
			return "-"
		}
		return d.AsDuration().String()
	}
	// The queue drains two a second and holds nobody for more than 500 ms; a
	// trial in shadow asks for more and gets no hearing.
	for i, want := range []string{"- - -", "500ms 500ms 2s", "- - 4s"} {
		resp := c.ask(of("queue"), costs(2, of("trial")))
		if i == 2 && (resp.GetAllowed() || seconds(resp.GetRetryAfter()) != "500ms") {
			t.Errorf("the queue is full: %v", resp)
		}
		got := seconds(resp.GetDelay()) + " " + seconds(resp.GetResults()[0].GetLimits()[0].GetDelay()) +
			" " + seconds(resp.GetResults()[1].GetLimits()[0].GetDelay())
		if got != want {
			t.Errorf("request %d: delays %s, want %s", i, got, want)
		}
	}
	// The longest counts, be it of a limit that is not shown.
	c.ask(costs(3, of("hush")))
	if resp := c.ask(of("hush"), of("free")); seconds(resp.GetDelay()) != "3s" || len(resp.GetResults()[0].GetLimits()) != 0 {
		t.Errorf("got %v", resp)
	}
	// Envoy cannot wait: there it is a meter that admits three.
	for i := range 4 {
		if resp := should(t, c.conn, ask("queue", "y")); (resp.GetOverallCode() == 1) != (i < 3) {
			t.Errorf("request %d: got %v", i, resp)
		}
	}
}

func TestDecideHidesWhatIsNotExposed(t *testing.T) {
	t.Parallel()
	c := newDecider(t)
	secret := func(allowed bool) *rlsdv1.DescriptorResult {
		return &rlsdv1.DescriptorResult{Allowed: allowed, Rule: "secret"}
	}
	c.expect(c.ask(of("secret")), &rlsdv1.DecideResponse{Allowed: true, Results: []*rlsdv1.DescriptorResult{secret(true)}})
	c.expect(c.ask(of("secret")), &rlsdv1.DecideResponse{
		RetryAfter: durationpb.New(41_600 * time.Millisecond),
		Results:    []*rlsdv1.DescriptorResult{secret(false)},
		Headers:    []*rlsdv1.Header{{Name: "Retry-After", Value: "42"}},
	})
}

func TestDecideInSeveralDomains(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	resp := decide(t, conn, &rlsdv1.DecideRequest{Descriptors: []*rlsdv1.Descriptor{
		in("shop", of("user")), in("edge", costs(2, of("user"))), in("nowhere", of("user")),
	}})
	var got []string
	for _, r := range resp.GetResults() {
		for _, l := range r.GetLimits() {
			got = append(got, l.GetDomain()+" "+l.GetName())
		}
	}
	if diff := cmp.Diff([]string{"shop per-user", "edge per-user"}, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	for _, h := range resp.GetHeaders() {
		got = append(got, h.GetName()+": "+h.GetValue())
	}
	if diff := cmp.Diff([]string{
		`RateLimit-Policy: "shop/per-user";q=3;w=60, "edge/per-user";q=5;w=3600`,
		`RateLimit: "shop/per-user";r=2;t=42, "edge/per-user";r=3;t=3282`,
		`X-RateLimit-Limit: 3`, `X-RateLimit-Remaining: 2`, `X-RateLimit-Reset: 42`,
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecideNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	entry := func(n int, key string) *rlsdv1.Descriptor {
		d := &rlsdv1.Descriptor{}
		for range n {
			d.Entries = append(d.Entries, &rlsdv1.Entry{Key: key})
		}
		return d
	}
	many := make([]*rlsdv1.Descriptor, 513)
	for i := range many {
		many[i] = &rlsdv1.Descriptor{}
	}
	for _, test := range []struct {
		field string
		req   *rlsdv1.DecideRequest
	}{
		{"domain", &rlsdv1.DecideRequest{Descriptors: []*rlsdv1.Descriptor{in("shop", of("user")), of("user")}}},
		{"descriptors", &rlsdv1.DecideRequest{Domain: "shop"}},
		{"descriptors", &rlsdv1.DecideRequest{Domain: "shop", Descriptors: many}},
		{"descriptors[1].entries", &rlsdv1.DecideRequest{Domain: "shop", Descriptors: []*rlsdv1.Descriptor{{}, entry(65, "x")}}},
		{"descriptors[1].entries[0].key", &rlsdv1.DecideRequest{Domain: "shop", Descriptors: []*rlsdv1.Descriptor{{}, entry(1, "")}}},
	} {
		_, err := rlsdv1.NewDecisionServiceClient(conn).Decide(context.Background(), test.req)
		expectError(t, err, codes.InvalidArgument, test.field)
	}
	_, err := rlsdv1.NewDecisionServiceClient(dial(t, failing{})).Decide(context.Background(),
		&rlsdv1.DecideRequest{Domain: "shop", Descriptors: []*rlsdv1.Descriptor{of("user")}})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}

func TestDecideRefusesWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	field := func(n protowire.Number, v string, more ...string) string {
		return string(protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), []byte(v))) + strings.Join(more, "")
	}
	for message, want := range map[string]string{
		field(1, "\xff", field(2, "")):                                          "domain",
		field(1, "shop", field(2, ""), field(2, field(3, "\xff"))):              "descriptors[1].domain",
		field(1, "shop", field(2, field(1, field(1, "k", field(2, "\xc0"))))):   "descriptors[0].entries[0].value",
		field(2, field(1, field(1, "k"), field(1, field(1, "k\xf0")))) + "\x20": "descriptors[0].entries[1].key",
		"\xff": "", "\x0a\xff": "", "\x12\x03\x0a\x01": "", "\x0b": "",
	} {
		in := new(emptypb.Empty)
		in.ProtoReflect().SetUnknown([]byte(message))
		err := conn.Invoke(context.Background(), rlsdv1.DecisionService_Decide_FullMethodName, in, new(rlsdv1.DecideResponse))
		s := status.Convert(err)
		if s.Code() != codes.InvalidArgument {
			t.Errorf("%q: %v, want INVALID_ARGUMENT", message, err)
		}
		got := ""
		for _, detail := range s.Details() {
			got = detail.(*errdetails.BadRequest).GetFieldViolations()[0].GetField()
		}
		if got != want {
			t.Errorf("%q: names the field %q, want %q", message, got, want)
		}
	}
}
