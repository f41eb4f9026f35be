package service

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// invalidUTF8 returns the error that names the first string of a message that
// is not UTF-8, such as descriptors[1].entries[0].value, or nil if there is
// none that it can find. It explains a failure and is not for the usual path.
func invalidUTF8(message []byte, is protoreflect.MessageDescriptor) error {
	seen := map[protowire.Number]int{}
	for m := newReader(message); m.next(); {
		number, wireType := protowire.DecodeTag(uint64(m.tag))
		field := is.Fields().ByNumber(number)
		if field == nil || wireType != protowire.BytesType {
			continue
		}
		path := string(field.Name())
		if field.IsList() {
			path = fmt.Sprintf("%s[%d]", path, seen[number])
			seen[number]++
		}
		switch {
		case field.Kind() == protoreflect.StringKind && !utf8.Valid(m.bytes):
			return badField(path, "must be valid UTF-8")
		case field.Kind() == protoreflect.MessageKind:
			if err := invalidUTF8(m.bytes, field.Message()); err != nil {
				return within(path, err)
			}
		}
	}
	return nil
}
