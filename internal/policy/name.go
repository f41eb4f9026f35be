package policy

import (
	"errors"
	"fmt"
	"strconv"
)

// maxName is the longest name, in bytes, that configuration can give a limit.
const maxName = 128

// CheckName says what is wrong with a name that configuration gives a limit. It
// goes into response headers as a quoted string, so it has 1 to 128 characters
// of printable ASCII, quotes and backslashes excepted.
func CheckName(name string) error {
	if name == "" {
		return errors.New("the name is empty: leave it out to have the limit named by its path")
	}
	if len(name) > maxName {
		return fmt.Errorf("the name has %d bytes, the most is %d", len(name), maxName)
	}
	for _, r := range name {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return fmt.Errorf("the name holds %q: use printable ASCII without quotes and backslashes", r)
		}
	}
	return nil
}

// appendStep appends one step of a rule's path: key=value, the key alone for any
// value, or such as key~cidr:10.0.0.0%2F8. The path is printable ASCII and
// distinct for distinct nodes.
func appendStep(path string, e edge) string {
	buf := make([]byte, 0, 128)
	buf = append(buf, path...)
	if path != "" {
		buf = append(buf, '/')
	}
	buf = appendEscaped(buf, e.key)
	switch {
	case e.by != byValue:
		buf = append(append(buf, '~'), matchers[e.by]...)
		buf = appendEscaped(buf, e.text)
	case e.text != "":
		buf = append(buf, '=')
		buf = appendEscaped(buf, e.text)
	}
	return string(buf)
}

// defaultName is the name of a limit that has none: its rule's path, and #n if
// it is the n-th, from the second on.
func defaultName(path string, index int) string {
	if index == 0 {
		return path
	}
	return path + "#" + strconv.Itoa(index+1)
}
