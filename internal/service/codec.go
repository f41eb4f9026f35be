package service

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec returns the server's codec: the ordinary protobuf one, but for the
// requests of Envoy's RateLimitService. Those it decodes into a message of our
// own, because the ordinary one fails on invalid UTF-8 in a value, before any
// handler: under a caller's fail-open setting that is a way past every limit.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

type codec struct{ encoding.CodecV2 }

// Unmarshal implements [encoding.CodecV2]. What is wrong with a request to
// RateLimitService is kept for its handler to answer.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	req, ok := v.(*rateLimitRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	req.fault = req.decode(buf.ReadOnlyData())
	return nil
}
