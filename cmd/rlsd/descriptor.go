package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rlsd/rlsd/client"
)

// A descriptor is one as it is written on a command line.
type descriptor struct {
	text    string
	entries []client.Entry
}

// UnmarshalText reads key=value[,key=value...]. The value, with or without the
// =, may be missing, and is then empty. Only the first = of an entry ends the
// key. A backslash before a comma, a = or a backslash makes it a part of the
// key or of the value.
func (d *descriptor) UnmarshalText(text []byte) error {
	*d = descriptor{text: string(text)}
	if !utf8.Valid(text) {
		return fmt.Errorf("descriptor %q: not UTF-8", text)
	}
	for rest := d.text; ; {
		key, stop, after, err := word(rest, ",=")
		value := ""
		if err == nil && stop == "=" {
			value, stop, after, err = word(after, ",")
		}
		if err == nil && key == "" {
			err = errors.New("an entry without a key")
		}
		if err != nil {
			return fmt.Errorf("descriptor %#q: %w; want key=value[,key=value]", d.text, err)
		}
		d.entries = append(d.entries, client.Entry{Key: key, Value: value})
		if stop == "" {
			return nil
		}
		rest = after
	}
}

// word reads up to one of the stops and returns what it read, without
// backslashes, the stop, or "" at the end, and the rest.
func word(s, stops string) (read, stop, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case strings.IndexByte(stops, s[i]) >= 0:
			return b.String(), s[i : i+1], s[i+1:], nil
		case s[i] != '\\':
			b.WriteByte(s[i])
		case i+1 == len(s) || strings.IndexByte(`,=\`, s[i+1]) < 0:
			return "", "", "", errors.New(`a backslash that stands before neither a comma, a = nor a backslash (for one of its own write \\)`)
		default:
			i++
			b.WriteByte(s[i])
		}
	}
	return b.String(), "", "", nil
}
