package main

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/service"
	"github.com/rlsd/rlsd/internal/store/memory"
)

// A local connection leads to services in this process, without a network.
type local map[string]grpc.MethodDesc // by their full names

var (
	_ grpc.ServiceRegistrar    = local{}
	_ grpc.ClientConnInterface = local{}
)

// openLocal returns a connection to an rlsd with the rules in the files at the
// paths, whose buckets are untouched and whose clock is now.
func openLocal(paths []string, now func() time.Time) (local, error) {
	snapshot, err := file.Load(paths...)
	if err != nil {
		return nil, err
	}
	current := func() *policy.Snapshot { return snapshot }
	l := local{}
	service.NewDecide(limiter.New(memory.New(memory.Options{}), memoryStore, current, unobserved{}), now).Register(l)
	return l, nil
}

// RegisterService makes the methods of a service callable.
func (l local) RegisterService(desc *grpc.ServiceDesc, _ any) {
	for _, m := range desc.Methods {
		l["/"+desc.ServiceName+"/"+m.MethodName] = m
	}
}

// Invoke calls a method.
func (l local) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	m, ok := l[method]
	if !ok {
		return status.Error(codes.Unimplemented, "unknown method "+method)
	}
	answer, err := m.Handler(nil, ctx, func(req any) error { return carry(args, req) }, nil)
	if err != nil {
		return err
	}
	return carry(answer, reply)
}

// NewStream fails: no method that is asked for here streams.
func (l local) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

// carry carries a message over as a connection would.
func carry(from, to any) error {
	data, err := service.Codec().Marshal(from)
	if err != nil {
		return err
	}
	defer data.Free()
	return service.Codec().Unmarshal(data, to)
}

// unobserved decisions are not counted.
type unobserved struct{}

func (unobserved) Decided(*policy.Limit, limiter.Outcome)              {}
func (unobserved) DecidedValue(*policy.Limit, string, limiter.Outcome) {}
func (unobserved) Failing(error)                                       {}
func (unobserved) UnknownDomain(string, policy.Descriptor)             {}
func (unobserved) Unmatched(string, policy.Descriptor)                 {}
