// Package server runs the daemon's listeners: gRPC for the services, HTTP for
// probes, and an admin port for whoever operates it. It knows no service, no
// limiter and no policy; it is handed functions that register the ones and
// pages that show the others.
//
// A server that is told to stop first says so to those who watch its health,
// goes on answering until they have turned elsewhere, and only then lets go of
// its connections.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
)

// Addrs are the addresses of the listeners: host:port, where port 0 is any
// free one, or unix:PATH.
type Addrs struct {
	GRPC  string
	HTTP  string // probes and routes
	Admin string // pages
}

// Options say what a server serves and how it ends.
type Options struct {
	Addrs Addrs

	Register    []func(grpc.ServiceRegistrar)
	Codec       encoding.CodecV2 // of all services; nil is grpc's own
	HealthNames []string         // what health checks may ask for besides ""
	Descriptors []byte           // a FileDescriptorSet that reflection prefers to the linked one; may be nil
	Unlogged    []string         // full methods too frequent for a log line each, such as /a.B/C
	Routes      []Route          // of the HTTP port, besides probes
	Pages       []Page           // of the admin port

	// DrainDelay is how long to go on answering after saying that this server
	// is about to go; 0 is not at all. It should exceed what those who watch
	// its health need to notice.
	DrainDelay time.Duration
	// ShutdownTimeout is how long the calls under way then have to end before
	// they are cut off.
	ShutdownTimeout time.Duration

	// All of these are required.
	Logger   *slog.Logger
	Metrics  prometheus.Registerer // where the metrics of gRPC calls go
	Panicked func()                // called for each panic of a call
}

// A Route answers requests over HTTP.
type Route struct {
	Pattern string // of http.ServeMux, such as POST /json
	Handler http.Handler
}

// A Page is something to see on the admin port.
type Page struct {
	Path    string // such as /metrics
	About   string // one line for the index
	Handler http.Handler
	// AnyMethod says that the handler takes more than GET and itself refuses
	// what it does not take.
	AnyMethod bool
}

// ErrCutOff says that a server was made to stop before it had drained.
var ErrCutOff = errors.New("stopped at once: calls under way were cut off")

// A Server holds its listeners from New on and answers while Run runs.
type Server struct {
	options   Options
	listeners listeners
	grpc      *grpc.Server
	health    *health.Server
	probes    *http.Server
	admin     *http.Server
	phase     atomic.Int32
	// endStreams ends the context of every stream.
	endStreams context.CancelFunc
}

// New opens the listeners, and nothing else if one of them cannot be had: the
// error is then a *ListenError. What it returns must be Run.
func New(ctx context.Context, o Options) (*Server, error) {
	ls, err := listenAll(ctx, o.Addrs)
	if err != nil {
		return nil, err
	}
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{options: o, listeners: ls, health: newHealth(o.HealthNames), endStreams: endStreams}
	if s.grpc, err = newGRPC(streams, &o, s.health); err != nil {
		endStreams()
		ls.close()
		return nil, err
	}
	s.probes = newHTTP(s.routes(probeHandler(s.currentPhase)), o.Logger)
	s.admin = newHTTP(adminHandler(o.Pages), o.Logger)
	return s, nil
}

// Addrs returns the addresses that the listeners got.
func (s *Server) Addrs() Addrs {
	return Addrs{
		GRPC:  address(s.listeners.grpc),
		HTTP:  address(s.listeners.http),
		Admin: address(s.listeners.admin),
	}
}

// Run serves until ctx ends, then drains, and returns nil once all is still.
// If stop ends it does not wait for anything any more and returns ErrCutOff. If
// a listener fails, the others are stopped without a delay and the failure is
// returned. Run can be called once.
func (s *Server) Run(ctx, stop context.Context) error {
	s.phase.Store(int32(ready))
	s.health.Resume()
	group, serving := errgroup.WithContext(ctx)
	group.Go(func() error { return serveGRPC(s.grpc, s.listeners.grpc) })
	group.Go(func() error { return serveHTTP("http", s.probes, s.listeners.http) })
	group.Go(func() error { return serveHTTP("admin", s.admin, s.listeners.admin) })
	group.Go(func() error {
		select {
		case <-serving.Done():
		case <-stop.Done():
		}
		delay := s.options.DrainDelay
		if ctx.Err() == nil {
			delay = 0
		}
		return s.drain(stop, delay)
	})
	return group.Wait()
}

func (s *Server) currentPhase() phase { return phase(s.phase.Load()) }

// address is how a client would name the listener.
func address(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return unixPrefix + l.Addr().String()
	}
	return l.Addr().String()
}
