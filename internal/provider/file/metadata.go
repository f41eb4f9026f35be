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
	left := metadataBudget{values: 200, bytes: 4096}
	if !left.take(v, 16) {
		d.fault(v, "the metadata is too much for every answer: at most 200 values and 4096 bytes, 16 levels deep")
		return nil
	}
	return v.plainMap()
}

// A metadataBudget is what metadata may still hold, what aliases make included.
type metadataBudget struct{ values, bytes int }

// take takes what is in v and below it, which is so many levels deep at most.
// Envoy refuses answers that nest deeper than some thirty levels.
func (b *metadataBudget) take(v *value, levels int) bool {
	b.values--
	b.bytes -= len(v.text)
	if b.values < 0 || b.bytes < 0 || levels < 0 {
		return false
	}
	for _, item := range v.items {
		if !b.take(item, levels-1) {
			return false
		}
	}
	for _, f := range v.fields {
		if b.bytes -= len(f.name); !b.take(f.value, levels-1) {
			return false
		}
	}
	return true
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
