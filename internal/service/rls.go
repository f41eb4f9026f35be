package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
)

// RLS is Envoy's RateLimitService, version 3.
type RLS struct {
	limiter *limiter.Limiter
	now     func() time.Time
	options RLSOptions
}

// RLSOptions say what the answers are like.
type RLSOptions struct {
	// Headers is what clients are told beside Retry-After. With XRateLimit no
	// status shows a limit, so that Envoy does not send these too.
	Headers     HeaderSet
	ProblemBody bool         // denials have an application/problem+json body
	Envoy       EnvoyVersion // the oldest in use
}

// NewRLS returns the service. Its server must use [Codec].
func NewRLS(l *limiter.Limiter, now func() time.Time, o RLSOptions) *RLS { return &RLS{l, now, o} }

// Register adds the service to the server.
func (s *RLS) Register(server grpc.ServiceRegistrar) {
	desc := rls.RateLimitService_ServiceDesc
	desc.HandlerType = nil // the method takes a message of our own
	desc.Methods = []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: s.handle}}
	server.RegisterService(&desc, nil)
}

func (s *RLS) handle(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the signature is grpc's
	req := new(rateLimitRequest)
	if err := decode(req); err != nil {
		return nil, err
	}
	call := func(ctx context.Context, req any) (any, error) {
		return s.shouldRateLimit(ctx, req.(*rateLimitRequest))
	}
	if interceptor == nil {
		return call(ctx, req)
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: rls.RateLimitService_ShouldRateLimit_FullMethodName}
	return interceptor(ctx, req, info, call)
}

// an exchange is what one call needs of memory between its two messages.
type exchange struct {
	request limiter.Request
	verdict limiter.Verdict
	view    clientView
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func (x *exchange) free() {
	clear(x.request.Descriptors)
	x.request = limiter.Request{Descriptors: x.request.Descriptors[:0]}
	exchanges.Put(x)
}

func (s *RLS) shouldRateLimit(ctx context.Context, req *rateLimitRequest) (*rls.RateLimitResponse, error) {
	x := exchanges.Get().(*exchange)
	defer x.free()
	if err := req.translate(&x.request); err != nil {
		return nil, toStatus(err)
	}
	now := s.now()
	if err := s.limiter.Decide(ctx, now, &x.request, &x.verdict); err != nil {
		return nil, toStatus(err)
	}
	return s.options.response(x, now.UnixMicro()), nil
}

// translate puts the request into the engine's terms.
func (r *rateLimitRequest) translate(out *limiter.Request) error {
	switch {
	case r.fault != nil:
		return r.fault
	case r.domain == "":
		return badField("domain", "must not be empty")
	case len(r.descriptors) == 0:
		return badField("descriptors", "must not be empty")
	}
	out.Domain = r.domain
	for i := range r.descriptors {
		d, err := r.descriptors[i].translate(r.hitsAddend)
		if err != nil {
			return within(fmt.Sprintf("descriptors[%d]", i), err)
		}
		out.Descriptors = append(out.Descriptors, d)
	}
	return nil
}

func (d *descriptor) translate(hitsAddend uint32) (limiter.Descriptor, error) {
	for i := range d.entries {
		if d.entries[i].Key == "" {
			return limiter.Descriptor{}, badField(fmt.Sprintf("entries[%d].key", i), "must not be empty")
		}
	}
	out := limiter.Descriptor{Entries: d.entries, Cost: max(1, int64(hitsAddend)), Give: d.isNegative}
	if d.hasHitsAddend {
		out.Cost, out.PostPaid = saturate(d.hitsAddend), true
	}
	if d.hasLimit {
		o, err := d.limit.translate()
		if err != nil {
			return limiter.Descriptor{}, within("limit", err)
		}
		out.Override = o
	}
	return out, nil
}

// saturate bounds a cost by the most that there is.
func saturate(cost uint64) int64 { return int64(min(cost, algo.MaxCost)) }
