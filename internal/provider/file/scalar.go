package file

import (
	"errors"
	"strconv"
	"strings"

	"github.com/rlsd/rlsd/internal/algo"
)

func (d *decoder) fault(v *value, format string, args ...any) { d.add(v.at, v.path, format, args...) }

// required returns the value of a field and reports one that is missing, as
// nil.
func (d *decoder) required(v *value, name string) *value {
	found := v.get(name)
	if found == nil {
		d.fault(v, "%s is missing", name)
	}
	return found
}

// scalar reports whether v is one, and, unless it is nil or broken, what it is
// instead.
func (d *decoder) scalar(v *value, want string) bool {
	if v == nil || v.kind == broken {
		return false
	}
	if v.kind != scalar {
		d.fault(v, "want %s, got %s", want, v)
	}
	return v.kind == scalar
}

// text returns a scalar as it is written. It reports false if there is none.
func (d *decoder) text(v *value) (string, bool) {
	if !d.scalar(v, "text") {
		return "", false
	}
	return v.text, true
}

// anyText returns a scalar as it is written, or "" for null.
func (d *decoder) anyText(v *value) string {
	if v == nil || v.kind == null {
		return ""
	}
	text, _ := d.text(v)
	return text
}

// flag returns a boolean, also one by another of its names in YAML 1.1.
func (d *decoder) flag(v *value, otherwise bool) bool {
	if !d.scalar(v, "true or false") {
		return otherwise
	}
	if on, ok := v.flag(); ok && v.plain {
		return on
	}
	d.fault(v, "want true or false, without quotes, got %s", v)
	return otherwise
}

func (v *value) flag() (on, ok bool) {
	switch strings.ToLower(v.text) {
	case "true", "yes", "on", "y":
		return true, true
	case "false", "no", "off", "n":
		return false, true
	default:
		return false, false
	}
}

// integer returns a whole number from 0 to [algo.MaxQuota].
func (d *decoder) integer(v *value) int64 { return d.number(v, algo.MaxQuota) }

// number returns a whole number from 0 to the most.
func (d *decoder) number(v *value, most int64) int64 {
	if !d.scalar(v, "a whole number") {
		return 0
	}
	n, err := strconv.ParseInt(v.text, 0, 64)
	switch {
	case !v.plain:
		d.fault(v, "want a whole number, without quotes, got %s", v)
	case errors.Is(err, strconv.ErrSyntax):
		d.fault(v, "want a whole number, got %s", v)
	case isOctal(v.text):
		d.fault(v, "%s is octal to some and decimal to others: write it without leading zeros", v)
	case err != nil || n < 0 || n > most:
		d.fault(v, "want a number from 0 to %d, got %s", most, v)
	default:
		return n
	}
	return 0
}

// isOctal reports whether leading zeros alone make a number octal, as in
// YAML 1.1.
func isOctal(text string) bool {
	digits := strings.ReplaceAll(strings.TrimLeft(text, "+-"), "_", "")
	return len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'
}
