package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

const (
	serving    = healthpb.HealthCheckResponse_SERVING
	notServing = healthpb.HealthCheckResponse_NOT_SERVING
)

// check asks for the health of a service.
func (h *harness) check(service string) (healthpb.HealthCheckResponse_ServingStatus, error) {
	r, err := healthpb.NewHealthClient(h.conn).Check(context.Background(), &healthpb.HealthCheckRequest{Service: service})
	return r.GetStatus(), err
}

// watch opens a health watch and takes the first answer off it.
func (h *harness) watch() grpc.ServerStreamingClient[healthpb.HealthCheckResponse] {
	h.t.Helper()
	w, err := healthpb.NewHealthClient(h.conn).Watch(h.t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	if r, err := w.Recv(); err != nil || r.GetStatus() != serving {
		h.t.Fatalf("the watch begins with %v, %v", r, err)
	}
	return w
}

func TestHealthKnowsItsNames(t *testing.T) {
	h := start(t, &testService{}, func(o *Options) { o.HealthNames = []string{"ratelimit"} })
	for _, name := range []string{"", "ratelimit"} {
		if got, err := h.check(name); got != serving || err != nil {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if _, err := h.check("something else"); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown name: %v, want NotFound", err)
	}
}

func TestDrainAnswersUntilTheDelayIsOver(t *testing.T) {
	h := start(t, &testService{}, func(o *Options) {
		o.HealthNames = []string{"ratelimit"}
		o.DrainDelay = 500 * time.Millisecond
	})
	watch := h.watch()
	began := time.Now()
	h.drain()
	if r, err := watch.Recv(); err != nil || r.GetStatus() != notServing {
		t.Fatalf("the watch says %v, %v", r, err)
	}
	for _, name := range []string{"", "ratelimit"} {
		if got, err := h.check(name); got != notServing || err != nil {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	for path, want := range map[string]int{"/readyz": 503, "/healthcheck": 500, "/healthz": 200} {
		if code, body := h.get(path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	if code, body := h.request(http.MethodGet, "http://"+h.Addrs().Admin+"/"); code != http.StatusOK {
		t.Errorf("admin: %d %s", code, body)
	}
	if _, err := h.calls.EmptyCall(t.Context(), &testpb.Empty{}); err != nil {
		t.Errorf("a call while draining: %v", err)
	}
	if time.Since(began) > 400*time.Millisecond {
		t.Skip("this machine is too slow to see what happens within the delay")
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ends with %v, want Unavailable", err)
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("the watch ended after %v, before the delay was over", took)
	}
	if err := h.ended(); err != nil {
		t.Error(err)
	}
}

func TestACallUnderWayFinishesThoughAWatchIsOpen(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := start(t, &testService{empty: func(context.Context) error {
		close(entered)
		<-leave
		return nil
	}}, nil)
	h.watch()
	answer := make(chan error, 1)
	go func() {
		_, err := h.calls.EmptyCall(context.Background(), &testpb.Empty{})
		answer <- err
	}()
	<-entered
	h.drain()
	h.eventually("draining", func() bool { code, _ := h.get("/readyz"); return code == http.StatusServiceUnavailable })
	time.Sleep(20 * time.Millisecond)
	if !h.running() {
		t.Fatal("it stopped under a call")
	}
	close(leave)
	if err := <-answer; err != nil {
		t.Errorf("the call: %v", err)
	}
	if err := h.ended(); err != nil {
		t.Error(err)
	}
}

func TestAStuckCallIsCutOffWhenTheTimeIsUp(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := start(t, &testService{empty: func(context.Context) error {
		close(entered)
		<-leave // not even the end of its context moves it
		return nil
	}}, func(o *Options) { o.ShutdownTimeout = 50 * time.Millisecond })
	defer close(leave)
	answer := make(chan error, 1)
	go func() {
		_, err := h.calls.EmptyCall(context.Background(), &testpb.Empty{})
		answer <- err
	}()
	<-entered
	h.drain()
	if err := h.ended(); err != nil {
		t.Error(err)
	}
	if err := <-answer; status.Code(err) != codes.Unavailable {
		t.Errorf("the call: %v, want Unavailable", err)
	}
	if !strings.Contains(h.logs.String(), "cut off") {
		t.Errorf("the log does not say so: %s", h.logs.String())
	}
}

func TestHandlersThatAreCutOffMayFinishBeforeRunReturns(t *testing.T) {
	entered, finished := make(chan struct{}), false
	h := start(t, &testService{empty: func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond)
		finished = true
		return nil
	}}, func(o *Options) { o.ShutdownTimeout = 0 })
	go func() { _, _ = h.calls.EmptyCall(context.Background(), &testpb.Empty{}) }()
	<-entered
	h.drain()
	if err := h.ended(); err != nil {
		t.Error(err)
	}
	if !finished {
		t.Error("Run returned while a handler was at work")
	}
}

func TestStopAtOnceCutsTheDelayShort(t *testing.T) {
	h := start(t, &testService{}, func(o *Options) { o.DrainDelay = time.Hour })
	h.drain()
	h.eventually("draining", func() bool { code, _ := h.get("/readyz"); return code == http.StatusServiceUnavailable })
	h.cut()
	if err := h.ended(); !errors.Is(err, ErrCutOff) {
		t.Errorf("got %v, want ErrCutOff", err)
	}
}

func TestAServerThatIsToldToStopBeforeItRunsStops(t *testing.T) {
	h := start(t, &testService{}, nil)
	o := h.options
	o.Addrs = Addrs{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0"}
	h.registry.Unregister(newMetrics())
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx, t.Context()); err != nil {
		t.Error(err)
	}
}
