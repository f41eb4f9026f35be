package server

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const (
	emptyCall = "/grpc.testing.TestService/EmptyCall"
	unaryCall = "/grpc.testing.TestService/UnaryCall"
)

func TestAPanicBecomesInternalAndEndsNothing(t *testing.T) {
	h := start(t, &testService{
		empty: func(context.Context) error { panic("secret of the house") },
		full:  func() error { panic(errors.New("secret of the stream")) },
	}, func(o *Options) { o.Unlogged = []string{emptyCall} })

	_, err := h.calls.EmptyCall(t.Context(), &testpb.Empty{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("the client sees %v", err)
	}
	stream, err := h.calls.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("the client of the stream sees %v", err)
	}
	if _, err := h.calls.UnaryCall(t.Context(), &testpb.SimpleRequest{}); err != nil {
		t.Errorf("the next call: %v", err)
	}
	if got := h.panics.Load(); got != 2 {
		t.Errorf("%d panics counted, want 2", got)
	}
	h.eventually("counted", func() bool {
		return h.metric("grpc_server_handled_total", map[string]string{"grpc_code": "Internal"}) == 2
	})
	for _, want := range []string{"secret of the house", "secret of the stream", emptyCall, "interceptors_test.go"} {
		if !strings.Contains(h.logs.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, h.logs.String())
		}
	}
}

func TestCallsAreMeasured(t *testing.T) {
	h := start(t, &testService{}, nil)
	for range 3 {
		if _, err := h.calls.EmptyCall(t.Context(), &testpb.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	labels := map[string]string{"grpc_service": "grpc.testing.TestService", "grpc_method": "EmptyCall"}
	for _, name := range []string{"grpc_server_started_total", "grpc_server_handled_total", "grpc_server_handling_seconds"} {
		h.eventually(name+" is 3", func() bool { return h.metric(name, labels) == 3 })
	}
}

func TestOnlyCallsThatAreNotExemptAreLogged(t *testing.T) {
	h := start(t, &testService{}, func(o *Options) { o.Unlogged = []string{emptyCall} })
	if _, err := h.calls.EmptyCall(t.Context(), &testpb.Empty{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.calls.UnaryCall(t.Context(), &testpb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("logged", func() bool { return strings.Contains(h.logs.String(), "UnaryCall") })
	if log := h.logs.String(); strings.Contains(log, "EmptyCall") || !strings.Contains(log, "level=DEBUG") {
		t.Errorf("logged:\n%s", log)
	}
}

func TestAMessageThatIsTooLongIsRefusedBeforeAnyHandler(t *testing.T) {
	h := start(t, &testService{unary: func(in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
		return &testpb.SimpleResponse{Username: string(in.GetPayload().GetBody()[:1])}, nil
	}}, nil)
	fits := &testpb.SimpleRequest{Payload: &testpb.Payload{Body: make([]byte, maxMessageBytes-100)}}
	if _, err := h.calls.UnaryCall(t.Context(), fits); err != nil {
		t.Errorf("one that fits: %v", err)
	}
	over := &testpb.SimpleRequest{Payload: &testpb.Payload{Body: make([]byte, maxMessageBytes+1)}}
	if _, err := h.calls.UnaryCall(t.Context(), over); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one that does not: %v, want ResourceExhausted", err)
	}
}

// fragileCodec panics on SimpleRequests.
type fragileCodec struct{ encoding.CodecV2 }

func (c fragileCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(*testpb.SimpleRequest); ok {
		panic("secret of the codec")
	}
	return c.CodecV2.Unmarshal(data, v)
}

func TestAPanicOfTheCodecEndsNothing(t *testing.T) {
	h := start(t, &testService{}, func(o *Options) { o.Codec = fragileCodec{encoding.GetCodecV2(proto.Name)} })
	if _, err := h.calls.UnaryCall(t.Context(), &testpb.SimpleRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("got %v, want Internal", err)
	}
	if _, err := h.calls.EmptyCall(t.Context(), &testpb.Empty{}); err != nil {
		t.Errorf("the next call: %v", err)
	}
	if got := h.panics.Load(); got != 1 {
		t.Errorf("%d panics counted, want 1", got)
	}
}
