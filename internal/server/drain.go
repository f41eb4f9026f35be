package server

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"
)

// A phase is where in its life a server is.
type phase int32

const (
	starting phase = iota
	ready
	draining
)

// String says it as a probe would like to hear it.
func (p phase) String() string {
	switch p {
	case starting:
		return "starting: not serving yet"
	case draining:
		return "draining: still answering, about to stop"
	default:
		return "ready"
	}
}

// stragglers is how long handlers whose calls were cut off have to notice,
// before what they use is closed under them.
const stragglers = 100 * time.Millisecond

// drain takes the server out of service, step by step. HTTP goes last, so that
// probes and metrics can be had for as long as there is something to see. If
// stop ends, the steps that are left take no time.
func (s *Server) drain(stop context.Context, delay time.Duration) error {
	s.phase.Store(int32(draining))
	s.health.Shutdown()
	s.options.Logger.InfoContext(stop, "draining", "delay", delay.String(), "timeout", s.options.ShutdownTimeout.String())
	pause(stop, delay)

	ctx, cancel := context.WithTimeout(stop, s.options.ShutdownTimeout)
	defer cancel()
	s.endStreams()
	if !stopGRPC(ctx, s.grpc) {
		s.options.Logger.WarnContext(stop, "cut off the calls that were still under way")
	}
	stopHTTP(ctx, s.probes)
	stopHTTP(ctx, s.admin)
	if stop.Err() != nil {
		return ErrCutOff
	}
	return nil
}

// pause waits for the duration or the end of ctx, whichever comes first.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// stopGRPC lets the calls under way end until ctx does, then cuts them off. It
// reports whether they all ended by themselves.
func stopGRPC(ctx context.Context, s *grpc.Server) bool {
	ended := make(chan struct{})
	go func() {
		s.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	}
	s.Stop()
	select {
	case <-ended:
	case <-time.After(stragglers):
	}
	return false
}

func stopHTTP(ctx context.Context, s *http.Server) {
	if s.Shutdown(ctx) != nil {
		_ = s.Close()
	}
}
