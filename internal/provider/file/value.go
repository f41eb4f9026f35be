package file

import (
	"strconv"
	"strings"
)

// A kind is what a value is.
type kind uint8

const (
	broken  kind = iota // already reported
	null                // nothing, or null
	scalar              // text
	list                // of values
	mapping             // of fields
)

// A value is a node of a document with aliases, merges and tags resolved.
// Aliased values are shared.
type value struct {
	kind   kind
	text   string // of a scalar, as it is written
	plain  bool   // whether the scalar may be a number or a boolean: it has no quotes
	items  []*value
	fields []field

	at   position
	path string // in the document, such as descriptors[2].rate_limit
}

// A field is a key of a mapping and its value.
type field struct {
	name  string
	at    position
	value *value
}

// get returns the value of a field, or nil if there is none.
func (v *value) get(name string) *value {
	for i := range v.fields {
		if v.fields[i].name == name {
			return v.fields[i].value
		}
	}
	return nil
}

// String describes the value in a message that says what was found.
func (v *value) String() string {
	switch v.kind {
	case null:
		return "nothing"
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	default:
		if _, err := strconv.ParseFloat(v.text, 64); err == nil && v.plain && len(v.text) < 30 {
			return v.text
		}
		return quote(v.text)
	}
}

// join appends a key to a path. A key that would be hard to read in it is
// quoted.
func join(path, key string) string {
	if strings.ContainsFunc(key, func(r rune) bool {
		return r != '_' && r != '-' && r != '<' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) || key == "" {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
