package server

import (
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// registerReflection lets clients such as grpcurl ask what s serves.
func registerReflection(s *grpc.Server, r resolver) {
	options := reflection.ServerOptions{Services: s, DescriptorResolver: r}
	reflectionv1.RegisterServerReflectionServer(s, reflection.NewServerV1(options))
	reflectionv1alpha.RegisterServerReflectionServer(s, reflection.NewServer(options))
}

// A resolver finds descriptors in its own set, and what is not there among
// those that are linked in, which have lost their comments.
type resolver struct{ own *protoregistry.Files }

var _ protodesc.Resolver = resolver{}

// newResolver reads an encoded FileDescriptorSet, in which files follow those
// that they import. Imports may be missing if they are linked in.
func newResolver(set []byte) (resolver, error) {
	r := resolver{own: new(protoregistry.Files)}
	var files descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &files); err != nil {
		return r, err
	}
	for _, file := range files.GetFile() {
		fd, err := protodesc.NewFile(file, r)
		if err != nil {
			return r, err
		}
		if err := r.own.RegisterFile(fd); err != nil {
			return r, err
		}
	}
	return r, nil
}

// FindFileByPath finds a file by the path under which others import it.
func (r resolver) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	fd, err := r.own.FindFileByPath(path)
	if errors.Is(err, protoregistry.NotFound) {
		return protoregistry.GlobalFiles.FindFileByPath(path)
	}
	return fd, err
}

// FindDescriptorByName finds what has the full name.
func (r resolver) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	d, err := r.own.FindDescriptorByName(name)
	if errors.Is(err, protoregistry.NotFound) {
		return protoregistry.GlobalFiles.FindDescriptorByName(name)
	}
	return d, err
}
