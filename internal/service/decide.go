package service

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	rlsdv1 "github.com/rlsd/rlsd/gen/rlsd/v1"
	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// Decide is rlsd's own DecisionService.
type Decide struct {
	limiter *limiter.Limiter
	now     func() time.Time
}

// NewDecide returns the service. Its server must use [Codec].
func NewDecide(l *limiter.Limiter, now func() time.Time) *Decide { return &Decide{l, now} }

// Register adds the service to the server.
func (s *Decide) Register(server grpc.ServiceRegistrar) {
	desc := rlsdv1.DecisionService_ServiceDesc
	desc.HandlerType = nil // the method takes a message of our own
	desc.Methods = []grpc.MethodDesc{{MethodName: "Decide", Handler: s.handle}}
	server.RegisterService(&desc, nil)
}

func (s *Decide) handle(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the signature is grpc's
	req := new(decideRequest)
	if err := decode(req); err != nil {
		return nil, err
	}
	call := func(ctx context.Context, req any) (any, error) { return s.decide(ctx, req.(*decideRequest)) }
	if interceptor == nil {
		return call(ctx, req)
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: rlsdv1.DecisionService_Decide_FullMethodName}
	return interceptor(ctx, req, info, call)
}

func (s *Decide) decide(ctx context.Context, req *decideRequest) (*rlsdv1.DecideResponse, error) {
	x := exchanges.Get().(*exchange)
	defer x.free()
	if err := req.translate(&x.request); err != nil {
		return nil, toStatus(err)
	}
	now := s.now()
	if err := s.limiter.Decide(ctx, now, &x.request, &x.verdict); err != nil {
		return nil, toStatus(err)
	}
	return decideResponse(&x.verdict, now.UnixMicro()), nil
}

// A decideRequest is a DecideRequest that may have been none.
type decideRequest struct {
	rlsdv1.DecideRequest

	fault error // why it could not be decoded
}

func (r *decideRequest) decode(message []byte) error {
	if proto.Unmarshal(message, &r.DecideRequest) == nil {
		return nil
	}
	if err := invalidUTF8(message, r.ProtoReflect().Descriptor()); err != nil {
		return err
	}
	return errMalformed
}

// translate puts the request into the engine's terms.
func (r *decideRequest) translate(out *limiter.Request) error {
	switch {
	case r.fault != nil:
		return r.fault
	case len(r.GetDescriptors()) == 0:
		return badField("descriptors", "must not be empty")
	case len(r.GetDescriptors()) > maxDescriptors:
		return badField("descriptors", "more than %d", maxDescriptors)
	}
	out.Domain, out.CanWait = r.GetDomain(), true
	cost := uint64(1)
	if r.Cost != nil {
		cost = r.GetCost()
	}
	for i, d := range r.GetDescriptors() {
		if out.Domain == "" && d.GetDomain() == "" {
			return badField("domain", "must not be empty, as descriptors[%d] has none of its own", i)
		}
		entries, err := translateEntries(d.GetEntries())
		if err != nil {
			return within(fmt.Sprintf("descriptors[%d]", i), err)
		}
		cost := cost
		if d.Cost != nil {
			cost = d.GetCost()
		}
		out.Descriptors = append(out.Descriptors, limiter.Descriptor{Domain: d.GetDomain(), Entries: entries, Cost: saturate(cost)})
	}
	return nil
}

func translateEntries(in []*rlsdv1.Entry) (policy.Descriptor, error) {
	if len(in) > maxEntries {
		return nil, badField("entries", "more than %d", maxEntries)
	}
	out := make(policy.Descriptor, len(in))
	for i, e := range in {
		if e.GetKey() == "" {
			return nil, badField(fmt.Sprintf("entries[%d].key", i), "must not be empty")
		}
		out[i] = policy.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	return out, nil
}

// decideResponse tells the verdict with every limit that is not hidden.
func decideResponse(v *limiter.Verdict, now int64) *rlsdv1.DecideResponse {
	out := &rlsdv1.DecideResponse{
		Allowed: v.Allowed,
		Results: make([]*rlsdv1.DescriptorResult, len(v.Statuses)),
		Headers: headers(v, now),
	}
	if v.Allowed {
		out.Delay = orUnset(longestDelay(v))
	} else if wait, ok := longestWait(v); ok {
		out.RetryAfter = micros(wait)
	}
	for i := range v.Statuses {
		s := &v.Statuses[i]
		result := &rlsdv1.DescriptorResult{Allowed: s.Allowed}
		if s.Rule != nil {
			result.Rule = s.Rule.Path
		}
		for j := range s.Results {
			if r := &s.Results[j]; !r.Limit.Hidden {
				result.Limits = append(result.Limits, limitResult(r))
			}
		}
		out.Results[i] = result
	}
	return out
}

func limitResult(r *limiter.Result) *rlsdv1.LimitResult {
	out := &rlsdv1.LimitResult{
		Domain:     r.Limit.Domain,
		Name:       r.Limit.Name,
		Algorithm:  r.Limit.Algorithm.String(),
		Quota:      uint64(r.Limit.Quota), //nolint:gosec // never negative
		Window:     micros(r.Limit.Window),
		Burst:      uint64(r.Limit.Burst), //nolint:gosec // never negative
		Allowed:    r.Decision.Allowed,
		Remaining:  uint64(r.Decision.Remaining), //nolint:gosec // never negative
		ResetAfter: micros(r.Decision.ResetAfter),
		Delay:      orUnset(r.Decision.Delay),
		Shadow:     r.Shadow,
		DecidedBy:  r.DecidedBy,
	}
	if !r.Decision.Allowed && r.Decision.RetryAfter != algo.Never {
		out.RetryAfter = micros(r.Decision.RetryAfter)
	}
	return out
}

// orUnset is the duration, or nil for 0.
func orUnset(n int64) *durationpb.Duration {
	if n == 0 {
		return nil
	}
	return micros(n)
}

func micros(n int64) *durationpb.Duration {
	return durationpb.New(time.Duration(n) * time.Microsecond)
}
