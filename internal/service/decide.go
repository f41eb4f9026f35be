package service

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	rlsdv1 "github.com/rlsd/rlsd/gen/rlsd/v1"
	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// Decide is rlsd's own DecisionService.
type Decide struct {
	rlsdv1.UnimplementedDecisionServiceServer

	limiter *limiter.Limiter
	now     func() time.Time
}

// NewDecide returns the service.
func NewDecide(l *limiter.Limiter, now func() time.Time) *Decide {
	return &Decide{limiter: l, now: now}
}

// Register adds the service to the server.
func (s *Decide) Register(server grpc.ServiceRegistrar) {
	rlsdv1.RegisterDecisionServiceServer(server, s)
}

// Decide implements DecisionService.
func (s *Decide) Decide(ctx context.Context, in *rlsdv1.DecideRequest) (*rlsdv1.DecideResponse, error) {
	x := exchanges.Get().(*exchange)
	defer x.free()
	if err := translate(in, &x.request); err != nil {
		return nil, toStatus(err)
	}
	if err := s.limiter.Decide(ctx, s.now(), &x.request, &x.verdict); err != nil {
		return nil, toStatus(err)
	}
	return decideResponse(&x.verdict), nil
}

func translate(in *rlsdv1.DecideRequest, out *limiter.Request) error {
	switch {
	case in.GetDomain() == "":
		return badField("domain", "must not be empty")
	case len(in.GetDescriptors()) == 0:
		return badField("descriptors", "must not be empty")
	case len(in.GetDescriptors()) > maxDescriptors:
		return badField("descriptors", "more than %d", maxDescriptors)
	}
	out.Domain = in.GetDomain()
	for i, d := range in.GetDescriptors() {
		entries, err := translateEntries(d.GetEntries())
		if err != nil {
			return within(fmt.Sprintf("descriptors[%d]", i), err)
		}
		cost := uint64(1)
		if in.Cost != nil {
			cost = in.GetCost()
		}
		if d.Cost != nil {
			cost = d.GetCost()
		}
		out.Descriptors = append(out.Descriptors, limiter.Descriptor{Entries: entries, Cost: saturate(cost)})
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

func decideResponse(v *limiter.Verdict) *rlsdv1.DecideResponse {
	out := &rlsdv1.DecideResponse{Allowed: v.Allowed, Results: make([]*rlsdv1.DescriptorResult, len(v.Statuses))}
	if wait, ok := longestWait(v); !v.Allowed && ok {
		out.RetryAfter = micros(wait)
	}
	for i := range v.Statuses {
		s := &v.Statuses[i]
		result := &rlsdv1.DescriptorResult{Allowed: s.Allowed}
		if s.Rule != nil {
			result.Rule = s.Rule.Path
		}
		for j := range s.Results {
			result.Limits = append(result.Limits, limitResult(&s.Results[j]))
		}
		out.Results[i] = result
	}
	return out
}

func limitResult(r *limiter.Result) *rlsdv1.LimitResult {
	out := &rlsdv1.LimitResult{
		Name:       r.Limit.Name,
		Algorithm:  r.Limit.Algorithm.String(),
		Quota:      uint64(r.Limit.Quota), //nolint:gosec // never negative
		Window:     micros(r.Limit.Window),
		Burst:      uint64(r.Limit.Burst), //nolint:gosec // never negative
		Allowed:    r.Decision.Allowed,
		Remaining:  uint64(r.Decision.Remaining), //nolint:gosec // never negative
		ResetAfter: micros(r.Decision.ResetAfter),
		Shadow:     r.Limit.Shadow,
	}
	if !r.Decision.Allowed && r.Decision.RetryAfter != algo.Never {
		out.RetryAfter = micros(r.Decision.RetryAfter)
	}
	return out
}

func micros(n int64) *durationpb.Duration {
	return durationpb.New(time.Duration(n) * time.Microsecond)
}
