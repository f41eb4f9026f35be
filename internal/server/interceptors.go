package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// newMetrics makes the metrics of gRPC calls under the names that dashboards
// know. A decision takes from tens of microseconds to the caller's deadline,
// which is 20 ms by default in Envoy.
func newMetrics() *grpcprom.ServerMetrics {
	return grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
		grpcprom.WithHistogramBuckets([]float64{
			.0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1,
		}),
	))
}

// unaryInterceptors lists what a call passes through, the outermost first.
// Recovery is the innermost, so that the others see a panic as the INTERNAL
// that it becomes.
func unaryInterceptors(o *Options, calls *grpcprom.ServerMetrics) []grpc.UnaryServerInterceptor {
	log, options := logTo(o.Logger), loggingOptions()
	return []grpc.UnaryServerInterceptor{
		calls.UnaryServerInterceptor(),
		selector.UnaryServerInterceptor(logging.UnaryServerInterceptor(log, options...), notIn(o.Unlogged)),
		recovery.UnaryServerInterceptor(recovery.WithRecoveryHandlerContext(o.recovered)),
	}
}

// streamInterceptors is the same for streams, whose contexts end with the
// context streams.
func streamInterceptors(streams context.Context, o *Options, calls *grpcprom.ServerMetrics) []grpc.StreamServerInterceptor {
	log, options := logTo(o.Logger), loggingOptions()
	return []grpc.StreamServerInterceptor{
		calls.StreamServerInterceptor(),
		endWith(streams),
		selector.StreamServerInterceptor(logging.StreamServerInterceptor(log, options...), notIn(o.Unlogged)),
		recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(o.recovered)),
	}
}

// endWith ends the context of every stream once the given one ends. A stream
// that waits on its context, as a health watch does for as long as its client
// likes, would otherwise hold up a graceful stop for ever.
func endWith(streams context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(streams, cancel)()

		wrapped := middleware.WrapServerStream(stream)
		wrapped.WrappedContext = ctx
		err := handler(srv, wrapped)
		if streams.Err() != nil && status.Code(err) == codes.Canceled {
			return status.Error(codes.Unavailable, "the server is shutting down")
		}
		return err
	}
}

// recovered turns the panic of a call into its error: what happened goes to
// the log, the client learns nothing of it.
func (o *Options) recovered(ctx context.Context, p any) error {
	o.Panicked()
	method, _ := grpc.Method(ctx)
	o.Logger.ErrorContext(ctx, "a call panicked",
		"method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}

// guardedCodec keeps a panic of a codec from ending the process: messages are
// decoded outside of the reach of interceptors.
type guardedCodec struct {
	encoding.CodecV2
	recovered func(ctx context.Context, p any) error
}

// Marshal encodes a response.
func (c guardedCodec) Marshal(v any) (_ mem.BufferSlice, err error) {
	defer c.guard(&err)
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes a request.
func (c guardedCodec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	defer c.guard(&err)
	return c.CodecV2.Unmarshal(data, v)
}

func (c guardedCodec) guard(err *error) {
	if p := recover(); p != nil {
		*err = c.recovered(context.Background(), p)
	}
}

// notIn matches the methods that are not among full.
func notIn(full []string) selector.Matcher {
	type method struct{ service, name string }
	set := make(map[method]bool, len(full))
	for _, f := range full {
		meta := interceptors.NewServerCallMeta(f, nil, nil)
		set[method{meta.Service, meta.Method}] = true
	}
	return selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool {
		return !set[method{call.Service, call.Method}]
	})
}

func loggingOptions() []logging.Option {
	return []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(levelOf),
	}
}

// levelOf keeps calls that ended as they should, health checks above all, out
// of the log unless it is asked for everything.
func levelOf(code codes.Code) logging.Level {
	if code == codes.OK || code == codes.Canceled {
		return logging.LevelDebug
	}
	return logging.DefaultServerCodeToLevel(code)
}

func logTo(l *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, message string, fields ...any) {
		l.Log(ctx, slog.Level(level), message, fields...)
	})
}
