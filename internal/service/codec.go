package service

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec returns the server's codec: the ordinary protobuf one, but for the
// requests that ask for decisions. Of those grpc would answer INTERNAL to what
// cannot be decoded, before any handler; here their handlers answer.
//
// The requests of Envoy's RateLimitService are decoded into a message of our
// own, because the ordinary decoder fails on invalid UTF-8 in a value too:
// under a caller's fail-open setting that is a way past every limit.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

type codec struct{ encoding.CodecV2 }

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	var fault *error
	var decode func(message []byte) error
	switch req := v.(type) {
	case *rateLimitRequest:
		fault, decode = &req.fault, req.decode
	case *decideRequest:
		fault, decode = &req.fault, req.decode
	default:
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	*fault = decode(buf.ReadOnlyData())
	return nil
}
