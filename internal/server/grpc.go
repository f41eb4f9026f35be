package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

const (
	// A request is a few hundred bytes; grpc answers RESOURCE_EXHAUSTED to
	// what is longer than this, before any of our code runs.
	maxMessageBytes = 1 << 20
	maxHeaderBytes  = 16 << 10
	// An Envoy puts up to 1024 calls on one connection and fails what would
	// exceed it by itself; this is only to have a bound.
	maxStreams = 4096
	// Beyond this many calls at a time grpc starts a goroutine for each, as it
	// does without workers. Workers keep their grown stacks, which saves about
	// a fifth of the time of a call.
	streamWorkers = 64
)

// newGRPC makes the gRPC server with everything registered. The contexts of
// its streams end when the context streams does.
func newGRPC(streams context.Context, o *Options, h *health.Server) (*grpc.Server, error) {
	resolver, err := newResolver(o.Descriptors)
	if err != nil {
		return nil, fmt.Errorf("read the descriptors for reflection: %w", err)
	}
	calls := newMetrics()
	if err := o.Metrics.Register(calls); err != nil {
		return nil, fmt.Errorf("register the metrics of grpc: %w", err)
	}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.ConnectionTimeout(10 * time.Second),
		// Envoys are commonly told to ping every 10 to 30 s, idle or not; by
		// default grpc takes that for an attack.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		// Behind a single address connections stay where they were first
		// opened; ending them now and then lets new instances have their share.
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      10 * time.Minute,
			MaxConnectionAgeGrace: 30 * time.Second,
		}),
		grpc.ChainUnaryInterceptor(unaryInterceptors(o, calls)...),
		grpc.ChainStreamInterceptor(streamInterceptors(streams, o, calls)...),
	}
	if o.Codec != nil {
		options = append(options, grpc.ForceServerCodecV2(guardedCodec{o.Codec, o.recovered}))
	}
	s := grpc.NewServer(options...)
	for _, register := range o.Register {
		register(s)
	}
	healthpb.RegisterHealthServer(s, h)
	registerReflection(s, resolver)
	calls.InitializeMetrics(s)
	return s, nil
}

// newHealth makes a health service that knows the names, and "" for the whole,
// none of which serves yet.
func newHealth(names []string) *health.Server {
	h := health.NewServer()
	for _, name := range names {
		h.SetServingStatus(name, healthpb.HealthCheckResponse_NOT_SERVING)
	}
	h.Shutdown()
	return h
}

func serveGRPC(s *grpc.Server, l net.Listener) error {
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve grpc: %w", err)
	}
	return nil
}
