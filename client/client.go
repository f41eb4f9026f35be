// Package client asks rlsd whether a request is within its limits, through
// rlsd's own API, and answers in plain Go.
//
// A client goes over whatever gRPC connection it is given, so addresses, load
// balancing, TLS and interceptors are gRPC's:
//
//	conn, err := grpc.NewClient("dns:///rlsd:8081", grpc.WithTransportCredentials(insecure.NewCredentials()))
//	...
//	verdict, err := client.New(conn).Decide(ctx, client.Request{
//		Domain:      "shop",
//		Descriptors: []client.Descriptor{{Entries: []client.Entry{{Key: "api_key", Value: key}}}},
//	})
//	switch {
//	case err != nil: // there is no answer: let it pass, or not
//	case !verdict.Allowed: // 429, with verdict.Headers
//	default: // go on after verdict.Delay
//	}
//
// A denial is an answer, not an error. Nothing is retried: an attempt that
// failed may have been counted.
package client

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	rlsdv1 "github.com/rlsd/rlsd/gen/rlsd/v1"
)

// A Client asks for decisions. It is safe for concurrent use.
type Client struct{ service rlsdv1.DecisionServiceClient }

// New returns a client that asks over the connection, which stays the caller's
// to close.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{rlsdv1.NewDecisionServiceClient(conn)}
}

// Decide asks for all descriptors of a request at once. If it is denied, none
// of its limits has been charged. Give ctx a deadline: without one it waits for
// as long as gRPC does.
//
// An error is a gRPC status: INVALID_ARGUMENT names the field of the request
// that is wrong; UNAVAILABLE and DEADLINE_EXCEEDED say that no answer came, be
// it from rlsd or from its store.
func (c *Client) Decide(ctx context.Context, r Request) (*Verdict, error) {
	answer, err := c.service.Decide(ctx, r.message())
	if err != nil {
		return nil, err
	}
	if got, want := len(answer.GetResults()), len(r.Descriptors); got != want {
		return nil, status.Errorf(codes.Internal, "%d results for %d descriptors", got, want)
	}
	return verdict(answer), nil
}

func (r *Request) message() *rlsdv1.DecideRequest {
	out := &rlsdv1.DecideRequest{Domain: r.Domain, Cost: r.Cost}
	for _, d := range r.Descriptors {
		descriptor := &rlsdv1.Descriptor{Domain: d.Domain, Cost: d.Cost}
		for _, e := range d.Entries {
			descriptor.Entries = append(descriptor.Entries, &rlsdv1.Entry{Key: e.Key, Value: e.Value})
		}
		out.Descriptors = append(out.Descriptors, descriptor)
	}
	return out
}

func verdict(m *rlsdv1.DecideResponse) *Verdict {
	out := &Verdict{
		Allowed:    m.GetAllowed(),
		RetryAfter: wait(m.GetAllowed(), m.GetRetryAfter()),
		Delay:      m.GetDelay().AsDuration(),
	}
	for _, r := range m.GetResults() {
		result := Result{Allowed: r.GetAllowed(), Rule: r.GetRule()}
		for _, l := range r.GetLimits() {
			result.Limits = append(result.Limits, limit(l))
		}
		out.Results = append(out.Results, result)
	}
	for _, h := range m.GetHeaders() {
		out.Headers = append(out.Headers, Header{Name: h.GetName(), Value: h.GetValue()})
	}
	return out
}

func limit(m *rlsdv1.LimitResult) Limit {
	return Limit{
		Domain:     m.GetDomain(),
		Name:       m.GetName(),
		Algorithm:  m.GetAlgorithm(),
		Quota:      m.GetQuota(),
		Window:     m.GetWindow().AsDuration(),
		Burst:      m.GetBurst(),
		Allowed:    m.GetAllowed(),
		Remaining:  m.GetRemaining(),
		RetryAfter: wait(m.GetAllowed(), m.GetRetryAfter()),
		ResetAfter: m.GetResetAfter().AsDuration(),
		Delay:      m.GetDelay().AsDuration(),
		Shadow:     m.GetShadow(),
		DecidedBy:  m.GetDecidedBy(),
	}
}

// wait is a retry-after, which on a denial is unset if no wait helps.
func wait(allowed bool, m *durationpb.Duration) time.Duration {
	if !allowed && m == nil {
		return Never
	}
	return m.AsDuration()
}
