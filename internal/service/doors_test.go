package service_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/service"
	"github.com/rlsd/rlsd/internal/store"
	"github.com/rlsd/rlsd/internal/store/memory"
)

const rules = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 3, name: per-user}
  - key: ip
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: strict
    rate_limit: {unit: hour, requests_per_unit: 2, overdraft: off}
  - key: bucket
    value: a
    quota_mode: true
    metadata: {bucket: a, tree: {n: 1.5}}
    rate_limit: {unit: minute, requests_per_unit: 1, name: bucket-a}
  - key: bucket
    value: b
    quota_mode: true
    metadata: {bucket: b, more: [true, null]}
    rate_limit: {unit: hour, requests_per_unit: 2, name: bucket-b}
  - key: plan
    rate_limits:
      - {unit: minute, requests_per_unit: 10, name: plan-minute}
      - {unit: hour, requests_per_unit: 10, name: plan-hour}
      - {unit: second, requests_per_unit: 2, algorithm: token_bucket, burst: 5, name: plan-burst}
  - key: equal
    rate_limits:
      - {unit: minute, requests_per_unit: 10, name: equal-minute}
      - {unit: hour, requests_per_unit: 10, name: equal-hour}
  - key: five
    rate_limit: {unit: 5m, requests_per_unit: 4294967296, name: five}
  - key: tick
    rate_limit: {unit: 500ms, requests_per_unit: 1}
  - key: slow
    rate_limit: {unit: hour, requests_per_unit: 8, algorithm: token_bucket, burst: 1, name: slow}
  - key: shaded
    rate_limit: {unit: minute, requests_per_unit: 1, name: shaded, shadow: true}
  - key: secret
    rate_limit: {unit: minute, requests_per_unit: 1, name: secret, expose: false}
  - key: banned
    rate_limit: {unit: minute, requests_per_unit: 0}
  - key: free
    rate_limit: {unlimited: true}
  - key: queue
    rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, burst: 3, max_delay: 500ms, name: queue}
  - key: trial
    rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, burst: 9, name: trial, shadow: true}
  - key: hush
    rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, burst: 9, name: hush, expose: false}
---
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5, name: per-user}
`

// now is 18.4 s into a minute and 5 min 18.4 s into an hour.
var now = time.Date(2026, 11, 30, 12, 5, 18, 400_000_000, time.UTC)

type nobody struct{}

func (nobody) DecidedValue(*policy.Limit, string, limiter.Outcome) {}
func (nobody) Decided(*policy.Limit, limiter.Outcome)              {}
func (nobody) Failing(error)                                       {}
func (nobody) UnknownDomain(string, policy.Descriptor)             {}
func (nobody) Unmatched(string, policy.Descriptor)                 {}

// dial serves both doors over the store and returns a connection to them.
func dial(t *testing.T, s store.Store) *grpc.ClientConn {
	t.Helper()
	return dialWith(t, s, service.RLSOptions{Envoy: 40})
}

func dialWith(t *testing.T, s store.Store, o service.RLSOptions) *grpc.ClientConn {
	t.Helper()
	return dialTo(t, rules, s, o)
}

func dialTo(t *testing.T, rules string, s store.Store, o service.RLSOptions) *grpc.ClientConn {
	t.Helper()
	snapshot, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(s, "memory", func() *policy.Snapshot { return snapshot }, nobody{})
	clock := func() time.Time { return now }
	server := grpc.NewServer(grpc.ForceServerCodecV2(service.Codec()))
	service.NewRLS(l, clock, o).Register(server)
	service.NewDecide(l, clock).Register(server)
	listener := bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///doors", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func inMemory(t *testing.T) *grpc.ClientConn {
	t.Helper()
	return dial(t, memory.New(memory.Options{}))
}

// ask makes a descriptor of keys and values in turn.
func ask(words ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(words); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: words[i], Value: words[i+1]})
	}
	return d
}

func costing(hits uint64, d *common.RateLimitDescriptor) *common.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

func should(t *testing.T, conn *grpc.ClientConn, descriptors ...*common.RateLimitDescriptor) *rls.RateLimitResponse {
	t.Helper()
	resp, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Domain: "shop", Descriptors: descriptors})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

type st = rls.RateLimitResponse_DescriptorStatus

func ok(remaining uint32, reset int64, l *rls.RateLimitResponse_RateLimit) *st {
	return &st{Code: rls.RateLimitResponse_OK, LimitRemaining: remaining, DurationUntilReset: durationpb.New(time.Duration(reset) * time.Second), CurrentLimit: l}
}

func over(remaining uint32, reset int64, l *rls.RateLimitResponse_RateLimit) *st {
	s := ok(remaining, reset, l)
	s.Code = rls.RateLimitResponse_OVER_LIMIT
	return s
}

func per(n uint32, unit rls.RateLimitResponse_RateLimit_Unit, name string) *rls.RateLimitResponse_RateLimit {
	return &rls.RateLimitResponse_RateLimit{RequestsPerUnit: n, Unit: unit, Name: name}
}

const (
	perSecond = rls.RateLimitResponse_RateLimit_SECOND
	perMinute = rls.RateLimitResponse_RateLimit_MINUTE
	perHour   = rls.RateLimitResponse_RateLimit_HOUR
)

// expect compares the statuses and, on a denial, the retry-after ("" for none)
// and the limit that denied; neither is there on an allowed answer.
func expect(t *testing.T, resp *rls.RateLimitResponse, retryAfter, deniedBy string, want ...*st) {
	t.Helper()
	if diff := cmp.Diff(want, resp.GetStatuses(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	code := rls.RateLimitResponse_OK
	if deniedBy != "" {
		code = rls.RateLimitResponse_OVER_LIMIT
	}
	if resp.GetOverallCode() != code {
		t.Errorf("overall %v, want %v", resp.GetOverallCode(), code)
	}
	headers := map[string]string{}
	for _, h := range resp.GetResponseHeadersToAdd() {
		headers[h.GetKey()] = h.GetValue()
	}
	wantHeaders := map[string]string{}
	if retryAfter != "" {
		wantHeaders["retry-after"] = retryAfter
	}
	if diff := cmp.Diff(wantHeaders, headers); diff != "" {
		t.Error(diff)
	}
	if got := resp.GetDynamicMetadata().GetFields()["rlsd"].GetStructValue().GetFields()["denied_by"].GetStringValue(); got != deniedBy {
		t.Errorf("denied by %q, want %q", got, deniedBy)
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	user := per(3, perMinute, "per-user")
	expect(t, should(t, conn, ask("user", "bob")), "", "", ok(2, 42, user))
	expect(t, should(t, conn, costing(0, ask("user", "bob"))), "", "", ok(2, 42, user))
	expect(t, should(t, conn, costing(2, ask("user", "bob"))), "", "", ok(0, 42, user))
	expect(t, should(t, conn, costing(0, ask("user", "bob"))), "42", "per-user", over(0, 42, user))
	expect(t, should(t, conn, ask("user", "bob")), "42", "per-user", over(0, 42, user))

	// Nothing to limit by.
	expect(t, should(t, conn, ask(), ask("nothing", "here"), ask("user", "bob", "more", "")), "", "", &st{Code: 1}, &st{Code: 1}, &st{Code: 1})
	expect(t, should(t, conn, ask("free", "")), "", "", &st{Code: 1, LimitRemaining: 1<<32 - 1})

	// On a denial only what denied shows its limit.
	expect(t, should(t, conn, ask("ip", "1"), ask("user", "bob"), ask("free", "")), "42", "per-user",
		ok(2, 54*60+42, nil), over(0, 42, user), &st{Code: 1, LimitRemaining: 1<<32 - 1})

	// A cost of its own is recorded though it does not fit.
	expect(t, should(t, conn, costing(4, ask("user", "eve"))), "42", "per-user", over(0, 42, user))

	// Never, and nothing at all: the end of the window, no retry-after.
	all := ask("user", "zoe")
	expect(t, should(t, conn, all, all, all, all), "", "per-user",
		ok(3, 42, nil), ok(3, 42, nil), ok(3, 42, nil), over(3, 42, user))
	expect(t, should(t, conn, ask("banned", "")), "", "banned", over(0, 42, per(0, perMinute, "")))
	expect(t, should(t, conn, ask("banned", ""), ask("user", "bob")), "", "banned",
		over(0, 42, per(0, perMinute, "")), over(0, 42, user))

	// A bucket's wait, rounded up; limit_remaining is at most requests_per_unit.
	expect(t, should(t, conn, ask("slow", "")), "", "", ok(0, 450, per(8, perHour, "slow")))
	expect(t, should(t, conn, ask("slow", "")), "450", "slow", over(0, 450, per(8, perHour, "slow")))
	five := per(1<<32-1, perMinute, "five")
	five.UnitMultiplier = wrapperspb.UInt32(5)
	expect(t, should(t, conn, ask("five", "")), "", "", ok(1<<32-1, 282, five))
	expect(t, should(t, conn, ask("tick", "")), "", "", ok(0, 1, per(1, rls.RateLimitResponse_RateLimit_UNKNOWN, "")))

	// Neither a shadow nor a hidden limit shows.
	expect(t, should(t, conn, costing(9, ask("shaded", ""))), "", "", &st{Code: 1})
	expect(t, should(t, conn, ask("secret", "")), "", "", ok(0, 42, nil))
	expect(t, should(t, conn, ask("secret", "")), "42", "secret", over(0, 42, nil))
}

func TestOneLimitStandsForSeveral(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	// The least remaining: of the bucket, though it says so by its rate.
	expect(t, should(t, conn, ask("plan", "a")), "", "", ok(2, 1, per(2, perSecond, "plan-burst")))
	expect(t, should(t, conn, costing(5, ask("plan", "a"))), "1", "plan-burst", over(2, 1, per(2, perSecond, "plan-burst")))
	// Of equals, the longer reset.
	expect(t, should(t, conn, ask("equal", "")), "", "", ok(9, 54*60+42, per(10, perHour, "equal-hour")))
	// Denied: the longest wait of those over, and never is the longest.
	should(t, conn, costing(5, ask("plan", "b")))
	expect(t, should(t, conn, costing(6, ask("plan", "b"))), "", "plan-burst", over(0, 1, per(2, perSecond, "plan-burst")))
	should(t, conn, costing(10, ask("equal", "x")))
	expect(t, should(t, conn, ask("equal", "x")), "3282", "equal-hour", over(0, 54*60+42, per(10, perHour, "equal-hour")))
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	if m := should(t, conn, ask("user", "bob")).GetDynamicMetadata(); m != nil {
		t.Errorf("metadata on an allowed answer: %v", m)
	}
	should(t, conn, costing(2, ask("user", "bob")))
	limit := func(fields map[string]any) map[string]any { return fields }
	want, err := structpb.NewStruct(map[string]any{"rlsd": map[string]any{
		"denied_by": "per-user",
		"limits": []any{
			limit(map[string]any{
				"descriptor": 0, "domain": "shop", "limit": "shaded", "algorithm": "fixed_window",
				"shadow": true, "remaining": 0, "retry_after_ms": 41_600, "reset_after_ms": 41_600,
			}),
			limit(map[string]any{
				"descriptor": 1, "domain": "shop", "limit": "per-user", "algorithm": "fixed_window",
				"shadow": false, "remaining": 0, "retry_after_ms": 41_600, "reset_after_ms": 41_600,
			}),
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := should(t, conn, costing(2, ask("shaded", "")), ask("user", "bob")).GetDynamicMetadata()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	// A shadow denial says so, and that nobody denied.
	got = should(t, conn, costing(2, ask("shaded", ""))).GetDynamicMetadata()
	ours := got.GetFields()["rlsd"].GetStructValue().GetFields()
	if len(ours["limits"].GetListValue().GetValues()) != 1 || ours["denied_by"] != nil {
		t.Errorf("got %v", got)
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	d := ask("user", "bob")
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: typev3.RateLimitUnit_HOUR, UnitMultiplier: wrapperspb.UInt32(2)}
	l := per(1, perHour, "per-user")
	l.UnitMultiplier = wrapperspb.UInt32(2)
	expect(t, should(t, conn, d), "", "", ok(0, 6882, l)) // 12:05:18.4 to 14:00
	expect(t, should(t, conn, d), "6882", "per-user", over(0, 6882, l))
}

func TestErrors(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	client := rls.NewRateLimitServiceClient(conn)
	_, err := client.ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{ask("user", "bob")}})
	expectError(t, err, codes.InvalidArgument, "domain")
	_, err = client.ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{}, ask("", "x")}})
	expectError(t, err, codes.InvalidArgument, "descriptors[1].entries[0].key")

	gone := dial(t, failing{})
	_, err = rls.NewRateLimitServiceClient(gone).ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{ask("user", "bob")}})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}

func expectError(t *testing.T, err error, code codes.Code, field string) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != code || !strings.HasPrefix(s.Message(), field+": ") {
		t.Errorf("got %v, want %v at %s", err, code, field)
	}
	for _, detail := range s.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok && bad.GetFieldViolations()[0].GetField() == field {
			return
		}
	}
	t.Errorf("no detail names the field: %v", s.Details())
}

type failing struct{ store.Store }

func (failing) Take(context.Context, time.Time, []store.Op) error { return store.ErrUnavailable }

// raw sends a message as it is.
func raw(t *testing.T, conn *grpc.ClientConn, message []byte) (*rls.RateLimitResponse, error) {
	t.Helper()
	in := new(emptypb.Empty)
	in.ProtoReflect().SetUnknown(message)
	out := new(rls.RateLimitResponse)
	err := conn.Invoke(context.Background(), rls.RateLimitService_ShouldRateLimit_FullMethodName, in, out)
	return out, err
}

func TestHostileBytes(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	message := func(value string) []byte {
		field := func(b []byte, n protowire.Number, v []byte) []byte {
			return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
		}
		entry := field(field(nil, 1, []byte("user")), 2, []byte(value))
		return field(field(nil, 1, []byte("shop")), 2, field(nil, 1, entry))
	}
	for _, value := range []string{"\xff\xfe", "\x00", "a\r\nx: y", strings.Repeat("\xf0", 100_000), "{x}", "../../"} {
		for i := range 4 {
			resp, err := raw(t, conn, message(value))
			if err != nil {
				t.Fatalf("%.10q: %v", value, err)
			}
			if denied := resp.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT; denied != (i == 3) {
				t.Errorf("%.10q: request %d denied %t", value, i, denied)
			}
		}
	}
	for _, garbage := range []string{"\xff", "\x0a\xff", "\x12\x03\x0a\x01", "\x0b"} {
		if _, err := raw(t, conn, []byte(garbage)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v, want INVALID_ARGUMENT", garbage, err)
		}
	}
}

func TestCostsSaturate(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	user := per(3, perMinute, "per-user")
	for _, hits := range []uint64{1<<64 - 1, 1 << 63, 1<<63 - 1, 1 << 53, 4} {
		expect(t, should(t, conn, costing(hits, ask("user", "bob"))), "42", "per-user", over(0, 42, user))
	}
	refund := costing(1<<64-1, ask("user", "bob"))
	refund.IsNegativeHits = true
	should(t, conn, ask("user", "bob"))
	expect(t, should(t, conn, refund), "", "", ok(3, 42, user))
}
