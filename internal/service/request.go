package service

import (
	"fmt"

	"github.com/rlsd/rlsd/internal/policy"
)

// Bounds of a request; its size is bounded by the server.
const (
	maxDescriptors = 512
	maxEntries     = 64
)

// A rateLimitRequest is an envoy.service.ratelimit.v3.RateLimitRequest whose
// strings are whatever bytes the client sent.
type rateLimitRequest struct {
	domain      string
	descriptors []descriptor
	hitsAddend  uint32
	fault       error // why it could not be decoded
}

// A descriptor is an envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.
type descriptor struct {
	entries       policy.Descriptor
	limit         override
	hasLimit      bool
	hitsAddend    uint64
	hasHitsAddend bool
	isNegative    bool
}

// An override is a RateLimitDescriptor.RateLimitOverride.
type override struct {
	requestsPerUnit   uint32
	unit              int32
	unitMultiplier    uint32
	hasUnitMultiplier bool
}

// decode reads the message; like every protobuf decoder it lets the last of a
// field that comes twice win, merges messages, and passes over what it does
// not know.
func (r *rateLimitRequest) decode(message []byte) error {
	m := newReader(message)
	for m.next() {
		switch m.tag {
		case bytesField(1):
			r.domain = m.string()
		case bytesField(2):
			if len(r.descriptors) == maxDescriptors {
				return badField("descriptors", "more than %d", maxDescriptors)
			}
			r.descriptors = append(r.descriptors, descriptor{})
			if err := r.descriptors[len(r.descriptors)-1].decode(m.message()); err != nil {
				return within(fmt.Sprintf("descriptors[%d]", len(r.descriptors)-1), err)
			}
		case varintField(3):
			r.hitsAddend = uint32(m.varint) //nolint:gosec // as protobuf cuts it
		}
	}
	return m.fault
}

func (d *descriptor) decode(m reader) error {
	for m.next() {
		var err error
		switch m.tag {
		case bytesField(1):
			if len(d.entries) == maxEntries {
				return badField("entries", "more than %d", maxEntries)
			}
			var e policy.Entry
			e, err = decodeEntry(m.message())
			d.entries = append(d.entries, e)
		case bytesField(2):
			d.hasLimit = true
			err = d.limit.decode(m.message())
		case bytesField(3):
			d.hasHitsAddend = true
			d.hitsAddend, err = decodeWrapper(m.message(), d.hitsAddend)
		case varintField(4):
			d.isNegative = m.varint != 0
		}
		if err != nil {
			return err
		}
	}
	return m.fault
}

func decodeEntry(m reader) (e policy.Entry, err error) {
	for m.next() {
		switch m.tag {
		case bytesField(1):
			e.Key = m.string()
		case bytesField(2):
			e.Value = m.string()
		}
	}
	return e, m.fault
}

func (o *override) decode(m reader) error {
	for m.next() {
		switch m.tag {
		case varintField(1):
			o.requestsPerUnit = uint32(m.varint) //nolint:gosec // as protobuf cuts it
		case varintField(2):
			o.unit = int32(m.varint) //nolint:gosec // as protobuf cuts it
		case bytesField(3):
			v, err := decodeWrapper(m.message(), uint64(o.unitMultiplier))
			if err != nil {
				return err
			}
			o.hasUnitMultiplier, o.unitMultiplier = true, uint32(v) //nolint:gosec // as protobuf cuts it
		}
	}
	return m.fault
}

// decodeWrapper reads a google.protobuf.UInt64Value or UInt32Value over v.
func decodeWrapper(m reader, v uint64) (uint64, error) {
	for m.next() {
		if m.tag == varintField(1) {
			v = m.varint
		}
	}
	return v, m.fault
}
