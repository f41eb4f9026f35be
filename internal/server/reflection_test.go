package server

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// ask asks one question of reflection v1 or v1alpha, which only differ in name.
func (h *harness) ask(version string, question *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
	h.t.Helper()
	stream, err := h.conn.NewStream(h.t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/grpc.reflection."+version+".ServerReflection/ServerReflectionInfo")
	if err != nil {
		h.t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(question), stream.CloseSend()); err != nil {
		h.t.Fatal(err)
	}
	answer := new(reflectionv1.ServerReflectionResponse)
	if err := stream.RecvMsg(answer); err != nil {
		h.t.Fatal(err)
	}
	if err := stream.RecvMsg(new(reflectionv1.ServerReflectionResponse)); !errors.Is(err, io.EOF) {
		h.t.Fatalf("after the answer: %v", err)
	}
	return answer
}

func TestReflectionListsTheServices(t *testing.T) {
	h := start(t, &testService{}, nil)
	for _, version := range []string{"v1", "v1alpha"} {
		var got []string
		for _, s := range h.ask(version, &reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
		}).GetListServicesResponse().GetService() {
			got = append(got, s.GetName())
		}
		want := []string{
			"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
			"grpc.reflection.v1alpha.ServerReflection", "grpc.testing.TestService",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want %v", version, got, want)
		}
	}
}

// commented returns a set with the file of the test service, its first service
// commented, and without the files that it imports.
func commented(t *testing.T, comment string) []byte {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(testpb.File_grpc_testing_test_proto)
	file.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
		{Path: []int32{6, 0}, Span: []int32{0, 0, 0}, LeadingComments: &comment},
	}}
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestReflectionShowsTheCommentsOfItsDescriptors(t *testing.T) {
	const comment = "Tests what is to be tested."
	set := commented(t, comment)
	h := start(t, &testService{}, func(o *Options) { o.Descriptors = set })
	for symbol, want := range map[string]bool{"grpc.testing.TestService": true, "grpc.health.v1.Health": false} {
		files := h.ask("v1", &reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol},
		}).GetFileDescriptorResponse().GetFileDescriptorProto()
		if len(files) == 0 {
			t.Fatalf("no file for %s", symbol)
		}
		if got := strings.Contains(string(files[0]), comment); got != want {
			t.Errorf("%s: comment %v, want %v", symbol, got, want)
		}
	}
}

func TestDescriptorsThatCannotBeReadFailTheStart(t *testing.T) {
	h := start(t, &testService{}, nil)
	o := h.options
	o.Addrs = Addrs{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0"}
	o.Descriptors = []byte("no descriptors")
	h.registry.Unregister(newMetrics())
	if _, err := New(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), "read the descriptors for reflection: ") {
		t.Errorf("got %v", err)
	}
}
