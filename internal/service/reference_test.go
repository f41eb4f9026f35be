package service_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/service"
	"github.com/rlsd/rlsd/internal/store/memory"
)

// script plays calls to a server with the rules and wants their answers. A line
// is a call, key=value,key=value for each descriptor and -> the codes of the
// statuses with what remains of each: + within, - over, or what else was told.
// Before a descriptor may stand N* for its hits_addend, and -N* to give back;
// before the arrow @N for the hits_addend of the call.
func script(t *testing.T, rules, lines string) {
	t.Helper()
	conn := dialTo(t, rules, memory.New(memory.Options{}), service.RLSOptions{Envoy: 40})
	for line := range strings.Lines(lines) {
		call, want, ok := strings.Cut(strings.TrimSpace(line), " -> ")
		if !ok {
			continue
		}
		if got := told(t, conn, call); got != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%s: got %s, want %s", call, got, want)
		}
	}
}

func told(t *testing.T, conn *grpc.ClientConn, call string) string {
	t.Helper()
	req := &rls.RateLimitRequest{Domain: "shop"}
	for word := range strings.FieldsSeq(call) {
		if _, err := fmt.Sscanf(word, "@%d", &req.HitsAddend); err == nil {
			continue
		}
		d := &common.RateLimitDescriptor{}
		if hits, rest, found := strings.Cut(word, "*"); found && !strings.Contains(hits, "=") {
			d.IsNegativeHits = strings.HasPrefix(hits, "-")
			var n uint64
			if _, err := fmt.Sscan(strings.TrimPrefix(hits, "-"), &n); err != nil {
				t.Fatal(err)
			}
			d.HitsAddend, word = wrapperspb.UInt64(n), rest
		}
		for entry := range strings.SplitSeq(word, ",") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	resp, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), req)
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	words := []string{map[rls.RateLimitResponse_Code]string{1: "OK", 2: "OVER"}[resp.GetOverallCode()]}
	for _, s := range resp.GetStatuses() {
		switch {
		case s.GetDurationUntilReset() == nil && s.GetLimitRemaining() == 0 && s.GetCode() == rls.RateLimitResponse_OK:
			words = append(words, "none")
		case s.GetLimitRemaining() == 1<<32-1:
			words = append(words, "unlimited")
		case s.GetCode() == rls.RateLimitResponse_OK:
			words = append(words, fmt.Sprint("+", s.GetLimitRemaining()))
		default:
			words = append(words, fmt.Sprint("-", s.GetLimitRemaining()))
		}
	}
	return strings.Join(words, " ")
}

// TestAsTheReference holds what whoever comes from the reference service relies
// on.
func TestAsTheReference(t *testing.T) {
	t.Parallel()
	script(t, `
domain: shop
descriptors:
  - key: k
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: k
    value: exact
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: k
    value: ex*
    rate_limit: {unit: minute, requests_per_unit: 20}
  - key: k
    value: vip
    rate_limit: {unlimited: true}
  - key: k
    value: nothing
  - key: deep
    descriptors:
      - key: er
        rate_limit: {unit: hour, requests_per_unit: 5}
  - key: shade
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: own
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: spare
    quota_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: partner
    rate_limit: {unit: minute, requests_per_unit: 100, name: partner, replaces: [{name: strict}]}
  - key: strict
    rate_limit: {unit: minute, requests_per_unit: 1, name: strict}
`, `
what no rule matches is within
	x=y         -> OK none
	k=nothing   -> OK none
	k=vip       -> OK unlimited
	deep=1      -> OK none
	deep=1,er=2 -> OK +4
	deep=1,er=2,est=3 -> OK none
exact, wildcard, any value
	k=exact -> OK +9
	k=extra -> OK +19
	k=other -> OK +2
hits of the call, of the descriptor, none, and back
	@0 k=a       -> OK +2
	@2 k=a       -> OK +0
	0*k=a        -> OVER -0
	-1*k=a       -> OK +1
	0*k=a        -> OK +1
	@9 1*k=a     -> OK +0
	-99*k=a      -> OK +3
	k=a k=a      -> OK +2 +1
statuses in order, and all or nothing
	k=b x=y k=vip deep=2,er=1 -> OK +2 none unlimited +4
	3*k=b deep=2,er=1         -> OVER -0 +4
in shadow
	shade=1 -> OK none
	shade=1 -> OK none
quota mode
	own=1 spare=1 -> OK +0 +0
	own=1 spare=2 -> OK -0 +0
	own=1 spare=1 -> OVER -0 -0
	own=2 spare=3 k=c -> OK +0 +0 +2
replaces
	strict=1           -> OK +0
	strict=1           -> OVER -0
	strict=1 partner=1 -> OK none +99
`)
}

// TestPostPaid plays what Envoy asks of a budget: whether there is any, and after
// the response what it took.
func TestPostPaid(t *testing.T) {
	t.Parallel()
	script(t, `
domain: shop
descriptors:
  - key: tokens
    rate_limit: {unit: hour, requests_per_unit: 1000}
  - key: strict
    rate_limit: {unit: hour, requests_per_unit: 1000, overdraft: off}
`, `
	0*tokens=a     -> OK +1000
	10000*tokens=a -> OVER -0
	0*tokens=a     -> OVER -0
	tokens=a       -> OVER -0
	-9000*tokens=a -> OK +0
	0*tokens=a     -> OVER -0
	-500*tokens=a  -> OK +500
	10000*strict=a -> OVER -1000
	0*strict=a     -> OK +1000
	18446744073709551615*strict=a -> OVER -1000
	18446744073709551615*tokens=b -> OVER -0
	-18446744073709551615*tokens=b -> OK +1000
`)
}

// TestGivesBack holds that what a request took is to be had again at once, and no
// more than that.
func TestGivesBack(t *testing.T) {
	t.Parallel()
	for _, a := range algo.All() {
		script(t, fmt.Sprintf(`
domain: shop
descriptors:
  - key: k
    rate_limit: {unit: hour, requests_per_unit: 5, algorithm: %s}
`, a), `
	4*k=a  -> OK +1
	2*k=a  -> OVER -1
	-3*k=a -> OK +4
	3*k=a  -> OK +1
	-9*k=a -> OK +5
	-1*k=a -> OK +5
	5*k=a  -> OK +0
	k=a    -> OVER -0
`)
	}
}
