package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// patience bounds every wait of these tests.
const patience = 10 * time.Second

// testService answers calls by the functions that a test sets.
type testService struct {
	testpb.UnimplementedTestServiceServer
	empty func(ctx context.Context) error
	unary func(in *testpb.SimpleRequest) (*testpb.SimpleResponse, error)
	full  func() error
}

func (s *testService) EmptyCall(ctx context.Context, in *testpb.Empty) (*testpb.Empty, error) {
	if s.empty != nil {
		return in, s.empty(ctx)
	}
	return in, nil
}

func (s *testService) UnaryCall(_ context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if s.unary != nil {
		return s.unary(in)
	}
	return &testpb.SimpleResponse{}, nil
}

func (s *testService) FullDuplexCall(grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	return s.full()
}

// A harness is a server that runs, and a client of it.
type harness struct {
	*Server
	t        *testing.T
	conn     *grpc.ClientConn
	calls    testpb.TestServiceClient
	registry *prometheus.Registry
	panics   atomic.Int64
	logs     logBuffer
	drain    context.CancelFunc
	cut      context.CancelFunc
	result   chan error
}

// start runs a server with the service until the test ends.
func start(t *testing.T, service *testService, edit func(*Options)) *harness {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	h := &harness{t: t, registry: prometheus.NewRegistry(), result: make(chan error, 1)}
	o := Options{
		Addrs:           Addrs{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0"},
		Register:        []func(grpc.ServiceRegistrar){func(r grpc.ServiceRegistrar) { testpb.RegisterTestServiceServer(r, service) }},
		ShutdownTimeout: time.Minute, // longer than any wait, so that a hang shows
		Logger:          slog.New(slog.NewTextHandler(&h.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics:         h.registry,
		Panicked:        func() { h.panics.Add(1) },
	}
	if edit != nil {
		edit(&o)
	}
	var err error
	if h.Server, err = New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var ctx, stop context.Context
	ctx, h.drain = context.WithCancel(context.Background())
	stop, h.cut = context.WithCancel(context.Background())
	go func() { h.result <- h.Run(ctx, stop) }()
	t.Cleanup(func() {
		h.drain()
		h.cut()
		_ = h.ended()
		http.DefaultClient.CloseIdleConnections()
	})
	h.conn = dial(t, h.Addrs().GRPC)
	h.calls = testpb.NewTestServiceClient(h.conn)
	h.eventually("ready", func() bool { code, _ := h.get("/readyz"); return code == http.StatusOK })
	return h
}

func dial(t *testing.T, target string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ended waits for Run to return and returns what it did.
func (h *harness) ended() error {
	h.t.Helper()
	select {
	case err := <-h.result:
		h.result <- err
		return err
	case <-time.After(patience):
		h.t.Fatal("the server does not stop")
		return nil
	}
}

// running reports whether Run has not returned.
func (h *harness) running() bool { return len(h.result) == 0 }

func (h *harness) eventually(what string, is func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("never %s", what)
		}
	}
}

// get asks the HTTP listener; the code is 0 if it does not answer.
func (h *harness) get(path string) (code int, body string) {
	return h.request(http.MethodGet, "http://"+h.Addrs().HTTP+path)
}

func (h *harness) request(method, url string) (code int, body string) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return response.StatusCode, string(b)
}

// metric returns the sum of the counters, or of the counts of the histograms,
// that have the name and the labels.
func (h *harness) metric(name string, labels map[string]string) float64 {
	h.t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	var sum float64
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			matching := 0
			for _, pair := range m.GetLabel() {
				if labels[pair.GetName()] == pair.GetValue() {
					matching++
				}
			}
			if matching == len(labels) {
				sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// A logBuffer is a buffer that can be read while it is written to.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestATakenPortFailsTheStartInOneLine(t *testing.T) {
	defer goleak.VerifyNone(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr := taken.Addr().String()
	for _, test := range []struct {
		name  string
		addrs Addrs
	}{
		{"grpc", Addrs{GRPC: addr, HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0"}},
		{"http", Addrs{GRPC: "127.0.0.1:0", HTTP: addr, Admin: "127.0.0.1:0"}},
		{"admin", Addrs{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Admin: addr}},
	} {
		_, err := New(t.Context(), Options{Addrs: test.addrs})
		want := "listen " + test.name + " " + addr + ": address already in use: another process holds the port"
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if refused, ok := errors.AsType[*ListenError](err); !ok || refused.Name != test.name {
			t.Errorf("%T does not tell the listener", err)
		}
	}
}

func TestAnAddressThatCannotBeSaysWhy(t *testing.T) {
	for addr, want := range map[string]string{
		"8081":                       "listen grpc 8081: missing port in address",
		"192.0.2.1:1":                "listen grpc 192.0.2.1:1: cannot assign requested address: this host has no such address",
		"127.0.0.1:http-but-not":     "listen grpc 127.0.0.1:http-but-not: lookup tcp/http-but-not: unknown port",
		"unix:/nowhere/at/all/there": "listen grpc unix:/nowhere/at/all/there: no such file or directory",
	} {
		_, err := New(t.Context(), Options{Addrs: Addrs{GRPC: addr, HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0"}})
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", addr, err, want)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rlsd.sock")
	leaveBehind(t, path)

	h := start(t, &testService{}, func(o *Options) { o.Addrs.GRPC = "unix:" + path })
	if got := h.Addrs().GRPC; got != "unix:"+path {
		t.Errorf("the address is %s", got)
	}
	if _, err := h.calls.EmptyCall(t.Context(), &testpb.Empty{}); err != nil {
		t.Error(err)
	}
	_, err := New(t.Context(), Options{Addrs: h.Addrs()})
	if want := "listen grpc unix:" + path + ": address already in use: another process listens there"; err == nil || err.Error() != want {
		t.Errorf("a second server: got %v, want %s", err, want)
	}
	h.drain()
	if err := h.ended(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// leaveBehind makes the socket that a process leaves that is killed.
func leaveBehind(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedListenerStopsTheOthers(t *testing.T) {
	h := start(t, &testService{}, func(o *Options) { o.DrainDelay = time.Hour })
	_ = h.listeners.admin.Close()
	if err := h.ended(); err == nil || !strings.HasPrefix(err.Error(), "serve admin: ") {
		t.Errorf("got %v, want the failure of the admin listener", err)
	}
	if code, _ := h.get("/healthz"); code != 0 {
		t.Errorf("the HTTP listener still answers %d", code)
	}
}
