package service

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// plain is what a request says, however it was decoded.
type plain struct {
	Domain      string
	Hits        uint32
	Descriptors []string
}

func plainOf(r *rateLimitRequest) plain {
	out := plain{Domain: r.domain, Hits: r.hitsAddend}
	for _, d := range r.descriptors {
		text := fmt.Sprintf("%q hits %t %d negative %t", d.entries, d.hasHitsAddend, d.hitsAddend, d.isNegative)
		if d.hasLimit {
			text += fmt.Sprint(" limit ", d.limit)
		}
		out.Descriptors = append(out.Descriptors, text)
	}
	return out
}

func plainOfProto(r *rls.RateLimitRequest) plain {
	out := plain{Domain: r.GetDomain(), Hits: r.GetHitsAddend()}
	for _, d := range r.GetDescriptors() {
		var entries policy.Descriptor
		for _, e := range d.GetEntries() {
			entries = append(entries, policy.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		text := fmt.Sprintf("%q hits %t %d negative %t", entries, d.GetHitsAddend() != nil, d.GetHitsAddend().GetValue(), d.GetIsNegativeHits())
		if l := d.GetLimit(); l != nil {
			text += fmt.Sprint(" limit ", override{
				l.GetRequestsPerUnit(), int32(l.GetUnit()),
				l.GetUnitMultiplier().GetValue(), l.GetUnitMultiplier() != nil,
			})
		}
		out.Descriptors = append(out.Descriptors, text)
	}
	return out
}

func fullRequest() *rls.RateLimitRequest {
	return &rls.RateLimitRequest{
		Domain:     "shop",
		HitsAddend: 7,
		Descriptors: []*common.RateLimitDescriptor{
			{Entries: []*common.RateLimitDescriptor_Entry{{Key: "plan", Value: "premium"}, {Key: "user", Value: "bob"}}},
			{},
			{
				Entries:        []*common.RateLimitDescriptor_Entry{{Key: "k"}},
				HitsAddend:     wrapperspb.UInt64(0),
				IsNegativeHits: true,
				Limit: &common.RateLimitDescriptor_RateLimitOverride{
					RequestsPerUnit: math.MaxUint32, Unit: typev3.RateLimitUnit_MONTH, UnitMultiplier: wrapperspb.UInt32(3),
				},
			},
			{HitsAddend: wrapperspb.UInt64(math.MaxUint64), Limit: &common.RateLimitDescriptor_RateLimitOverride{}},
		},
	}
}

// FuzzDecode holds the decoder against the ordinary one: it takes whatever that
// takes, says the same of it, and beyond it takes only invalid UTF-8.
func FuzzDecode(f *testing.F) {
	message, err := proto.Marshal(fullRequest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message)
	f.Add(append(message, message...)) // fields twice: lists grow, messages merge
	f.Add([]byte{0x12, 0x02, 0x0b, 0x0c})
	f.Add([]byte("\x0a\x02\xff\xfe"))
	twice := protowire.AppendTag(nil, 2, protowire.BytesType)
	twice = protowire.AppendBytes(twice, []byte{0x12, 2, 8, 5, 0x12, 2, 16, 2, 0x12, 4, 0x1a, 2, 8, 9, 0x12, 2, 0x1a, 0, 0x1a, 2, 8, 4, 0x1a, 0})
	f.Add(twice)
	f.Fuzz(func(t *testing.T, message []byte) {
		var want rls.RateLimitRequest
		wantErr := proto.Unmarshal(message, &want)
		var got rateLimitRequest
		gotErr := got.decode(message)
		if e := (*fieldError)(nil); errors.As(gotErr, &e) {
			return // beyond a bound that the ordinary decoder does not have
		}
		switch {
		case gotErr != nil && wantErr == nil:
			t.Fatalf("refused: %v", gotErr)
		case gotErr == nil && wantErr != nil && utf8.Valid(message):
			t.Fatalf("taken, though: %v", wantErr)
		case gotErr != nil || wantErr != nil:
			return
		}
		if diff := cmp.Diff(plainOfProto(&want), plainOf(&got)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestDecodeKeepsInvalidUTF8(t *testing.T) {
	t.Parallel()
	const value = "\xff\xfe\x00z"
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "user")
	entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), value)
	d := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
	message := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "shop")
	message = protowire.AppendBytes(protowire.AppendTag(message, 2, protowire.BytesType), d)
	if proto.Unmarshal(message, new(rls.RateLimitRequest)) == nil {
		t.Fatal("the ordinary decoder takes it too: this test proves nothing")
	}
	var r rateLimitRequest
	if err := r.decode(message); err != nil {
		t.Fatal(err)
	}
	if got := r.descriptors[0].entries[0]; got != (policy.Entry{Key: "user", Value: value}) {
		t.Errorf("got %q", got)
	}
}

func entries(n int) []*common.RateLimitDescriptor_Entry {
	out := make([]*common.RateLimitDescriptor_Entry, n)
	for i := range out {
		out[i] = &common.RateLimitDescriptor_Entry{Key: "k"}
	}
	return out
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	request := func(change func(r *rls.RateLimitRequest)) *rls.RateLimitRequest {
		r := &rls.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{}, {Entries: entries(2)}}}
		change(r)
		return r
	}
	limit := func(l *common.RateLimitDescriptor_RateLimitOverride) func(r *rls.RateLimitRequest) {
		return func(r *rls.RateLimitRequest) { r.Descriptors[1].Limit = l }
	}
	for _, c := range []struct {
		name   string
		change func(r *rls.RateLimitRequest)
		want   string
	}{
		{"no domain", func(r *rls.RateLimitRequest) { r.Domain = "" }, "domain: must not be empty"},
		{"no descriptors", func(r *rls.RateLimitRequest) { r.Descriptors = nil }, "descriptors: must not be empty"},
		{"an empty key", func(r *rls.RateLimitRequest) { r.Descriptors[1].Entries[1].Key = "" }, "descriptors[1].entries[1].key: must not be empty"},
		{"too many entries", func(r *rls.RateLimitRequest) { r.Descriptors[1].Entries = entries(65) }, "descriptors[1].entries: more than 64"},
		{"too many descriptors", func(r *rls.RateLimitRequest) { r.Descriptors = make([]*common.RateLimitDescriptor, 513) }, "descriptors: more than 512"},
		{"override without unit", limit(&common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}), "descriptors[1].limit.unit: must be set"},
		{"override of an unknown unit", limit(&common.RateLimitDescriptor_RateLimitOverride{Unit: 99}), "descriptors[1].limit.unit: 99 is no unit"},
		{"override of a negative unit", limit(&common.RateLimitDescriptor_RateLimitOverride{Unit: -1}), "descriptors[1].limit.unit: -1 is no unit"},
		{"override times 0", limit(&common.RateLimitDescriptor_RateLimitOverride{
			Unit: typev3.RateLimitUnit_DAY, UnitMultiplier: wrapperspb.UInt32(0),
		}), "descriptors[1].limit.unit_multiplier: 0 is not between 1 and 400"},
		{"override of more than 400 days", limit(&common.RateLimitDescriptor_RateLimitOverride{
			Unit: typev3.RateLimitUnit_YEAR, UnitMultiplier: wrapperspb.UInt32(2),
		}), "descriptors[1].limit.unit_multiplier: 2 is not between 1 and 1"},
	} {
		message, err := proto.Marshal(request(c.change))
		if err != nil {
			t.Fatal(err)
		}
		var r rateLimitRequest
		r.fault = r.decode(message)
		err = r.translate(new(limiter.Request))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	message, err := proto.Marshal(fullRequest())
	if err != nil {
		t.Fatal(err)
	}
	var r rateLimitRequest
	if err := r.decode(message); err != nil {
		t.Fatal(err)
	}
	var got limiter.Request
	r.descriptors[2].limit.unitMultiplier = 13
	r.descriptors[3].limit.unit = int32(typev3.RateLimitUnit_YEAR)
	if err := r.translate(&got); err != nil {
		t.Fatal(err)
	}
	const day = 86_400 * second
	want := limiter.Request{Domain: "shop", Descriptors: []limiter.Descriptor{
		{Entries: policy.Descriptor{{Key: "plan", Value: "premium"}, {Key: "user", Value: "bob"}}, Cost: 7},
		{Cost: 7},
		{
			Entries: policy.Descriptor{{Key: "k"}}, Give: true, PostPaid: true,
			Override: &limiter.Override{Quota: math.MaxUint32, Window: 13 * 30 * day},
		},
		{Cost: algo.MaxCost, PostPaid: true, Override: &limiter.Override{Window: 365 * day, Calendar: algo.Yearly}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUnitOf(t *testing.T) {
	t.Parallel()
	const day = 86_400 * second
	for _, c := range []struct {
		window     int64
		unit       unit
		multiplier uint32 // 0: none
	}{
		{second, rls.RateLimitResponse_RateLimit_SECOND, 0},
		{30 * second, rls.RateLimitResponse_RateLimit_SECOND, 30},
		{90 * second, rls.RateLimitResponse_RateLimit_SECOND, 90},
		{60 * second, rls.RateLimitResponse_RateLimit_MINUTE, 0},
		{300 * second, rls.RateLimitResponse_RateLimit_MINUTE, 5},
		{36 * 3600 * second, rls.RateLimitResponse_RateLimit_HOUR, 36},
		{day, rls.RateLimitResponse_RateLimit_DAY, 0},
		{7 * day, rls.RateLimitResponse_RateLimit_WEEK, 0},
		{14 * day, rls.RateLimitResponse_RateLimit_WEEK, 2},
		{30 * day, rls.RateLimitResponse_RateLimit_MONTH, 0},
		{365 * day, rls.RateLimitResponse_RateLimit_YEAR, 0},
		{400 * day, rls.RateLimitResponse_RateLimit_DAY, 400},
		{second / 2, rls.RateLimitResponse_RateLimit_UNKNOWN, 0},
		{3 * second / 2, rls.RateLimitResponse_RateLimit_UNKNOWN, 0},
	} {
		u, m := unitOf(c.window)
		if u != c.unit || m.GetValue() != c.multiplier || (m == nil) != (c.multiplier == 0) {
			t.Errorf("%d: got %v × %v, want %v × %d", c.window, u, m, c.unit, c.multiplier)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	message, err := proto.Marshal(&rls.RateLimitRequest{Domain: "bench", Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: "api_key", Value: "user-1234"}},
	}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r rateLimitRequest
			if err := r.decode(message); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("protobuf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r rls.RateLimitRequest
			if err := proto.Unmarshal(message, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
