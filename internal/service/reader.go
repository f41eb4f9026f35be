package service

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

var errMalformed = errors.New("malformed protobuf message")

// A reader walks the fields of a protobuf message. Strings share one copy of
// it.
type reader struct {
	text string // the outermost message
	rest []byte // what is still to be read
	at   int    // where rest begins in text

	tag    tag
	varint uint64 // the value, if it is a varint
	bytes  []byte // the value, if it is bytes
	fault  error  // why next ended, if not at the end
}

// A tag is a field's number and wire type.
type tag uint64

func varintField(n protowire.Number) tag { return tag(protowire.EncodeTag(n, protowire.VarintType)) }
func bytesField(n protowire.Number) tag  { return tag(protowire.EncodeTag(n, protowire.BytesType)) }

func newReader(message []byte) reader {
	return reader{text: string(message), rest: message}
}

// next reads a field and reports whether there was one.
func (m *reader) next() bool {
	if len(m.rest) == 0 || m.fault != nil {
		return false
	}
	number, wireType, n := protowire.ConsumeTag(m.rest)
	if n > 0 && !number.IsValid() {
		n = -1
	}
	if !m.skip(n) {
		return false
	}
	m.tag = tag(protowire.EncodeTag(number, wireType))
	switch wireType {
	case protowire.VarintType:
		m.varint, n = protowire.ConsumeVarint(m.rest)
	case protowire.BytesType:
		m.bytes, n = protowire.ConsumeBytes(m.rest)
	default:
		n = protowire.ConsumeFieldValue(number, wireType, m.rest)
	}
	return m.skip(n)
}

// skip passes over n bytes; a negative n is how protowire reports an error.
func (m *reader) skip(n int) bool {
	if n < 0 {
		m.fault = errMalformed
		return false
	}
	m.rest = m.rest[n:]
	m.at += n
	return true
}

// string returns the value as a string.
func (m *reader) string() string { return m.text[m.at-len(m.bytes) : m.at] }

// message returns a reader of the value as a message.
func (m *reader) message() reader {
	return reader{text: m.text, rest: m.bytes, at: m.at - len(m.bytes)}
}
