package file

import (
	"slices"
	"strings"
)

// A section is a kind of mapping in a rule file.
type section struct {
	place string // where its keys belong
	keys  []string
}

var (
	rootSection = section{"at the top of the document", []string{"domain", "descriptors"}}

	descriptorSection = section{"directly in a descriptor", []string{
		"key", "value", "rate_limit", "cidr", "regex", "descriptors", "rate_limits", "shadow_mode", "quota_mode",
		"share_threshold", "value_to_metric", "detailed_metric", "metadata",
	}}

	limitSection = section{"in a rate_limit", []string{
		"requests_per_unit", "unit", "name", "time_zone", "algorithm", "burst", "max_delay", "failure_mode", "shadow", "enforce_percent", "expose", "unlimited",
		"replaces", "max_override", "overdraft",
	}}

	replacesSection = section{"in replaces", []string{"name"}}
)

// check reports whether v is a mapping, and every key that does not belong into
// the section.
func (d *decoder) check(v *value, s *section) bool {
	switch v.kind {
	case mapping:
	case broken:
		return false
	default:
		d.add(v.at, v.path, "want a mapping with %s, got %s", s.examples(), v)
		return false
	}
	for _, f := range v.fields {
		if !slices.Contains(s.keys, f.name) {
			d.add(f.at, join(v.path, f.name), "%s", s.objection(f.name))
		}
	}
	return true
}

// examples names the keys of the section, the first of them if they are many.
func (s *section) examples() string {
	if len(s.keys) > 4 {
		return "keys such as " + strings.Join(s.keys[:3], ", ")
	}
	if len(s.keys) == 1 {
		return "the key " + s.keys[0]
	}
	return "the keys " + strings.Join(s.keys, ", ")
}

// objection says why a key does not belong into the section.
func (s *section) objection(key string) string {
	for _, other := range []*section{&rootSection, &descriptorSection, &limitSection} {
		if slices.Contains(other.keys, key) {
			return quote(key) + " has no place here, it belongs " + other.place
		}
	}
	return "unknown key " + alternatives(key, s.keys)
}

// alternatives quotes an unknown word and says what it may have meant.
func alternatives(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return quote(word) + ", did you mean " + quote(near) + "?"
	}
	return quote(word) + ", known here: " + strings.Join(known, ", ")
}

// nearest returns the known word that a misspelt one was meant to be, or "" if
// none is near: up to one letter in three, and at least one, may be wrong.
func nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, least := "", max(1, len(word)/3)+1
	for _, k := range known {
		if len(k)-len(word) >= least || len(word)-len(k) >= least {
			continue
		}
		if n := distance(word, k); n < least {
			best, least = k, n
		}
	}
	return best
}

// distance counts the letters to add, drop, replace or swap with their
// neighbour to turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
