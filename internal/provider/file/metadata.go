package file

import (
	"math"
	"strconv"
)

// metadata returns a mapping of anything as JSON would have it.
func (d *decoder) metadata(v *value) map[string]any {
	if v == nil || v.kind == broken {
		return nil
	}
	if v.kind != mapping {
		d.fault(v, "want a mapping, got %s", v)
		return nil
	}
	if d.weigh(v, maxMetadata) < 0 {
		d.fault(v, "the metadata holds more than %d values", maxMetadata)
		return nil
	}
	return v.plainMap()
}

// maxMetadata is the most values that metadata holds, those that aliases make
// included: they go into every answer.
const maxMetadata = 200

// weigh takes the values below v from what may still come, and returns what is
// left, below 0 if they are too many.
func (d *decoder) weigh(v *value, left int) int {
	for i := 0; i < len(v.items) && left >= 0; i++ {
		left = d.weigh(v.items[i], left-1)
	}
	for i := 0; i < len(v.fields) && left >= 0; i++ {
		left = d.weigh(v.fields[i].value, left-1)
	}
	return left
}

func (v *value) plainMap() map[string]any {
	out := make(map[string]any, len(v.fields))
	for _, f := range v.fields {
		out[f.name] = f.value.plainValue()
	}
	return out
}

// plainValue returns what JSON would make of the value. Numbers beyond its range
// stay text.
func (v *value) plainValue() any {
	switch v.kind {
	case mapping:
		return v.plainMap()
	case list:
		out := make([]any, 0, len(v.items))
		for _, item := range v.items {
			out = append(out, item.plainValue())
		}
		return out
	case scalar:
		if !v.plain {
			return v.text
		}
		switch v.text {
		case "true", "True", "TRUE":
			return true
		case "false", "False", "FALSE":
			return false
		}
		if n, err := strconv.ParseFloat(v.text, 64); err == nil && !math.IsInf(n, 0) && !math.IsNaN(n) && !isOctal(v.text) {
			return n
		}
		return v.text
	default:
		return nil
	}
}
