package file

import (
	"strings"
	"unicode/utf8"
)

// A chunk is the text of one YAML document.
type chunk struct {
	text   string
	before int // lines of the file before it
}

// split cuts a text into its documents and leaves out the empty ones. The
// parser does not see the markers between documents, for two in a row make it
// drop what follows.
func split(text string) []chunk {
	var chunks []chunk
	start, before := 0, 0
	cut := func(end int) {
		if piece := text[start:end]; hasContent(piece) {
			chunks = append(chunks, chunk{piece, before})
		}
	}
	for at, line := 0, 0; at < len(text); line++ {
		next := lineEnd(text, at)
		switch current := text[at:next]; {
		case isMarker(current, "---"):
			cut(at)
			start, before = at, line
		case isMarker(current, "...") && !hasContent(current[3:]):
			cut(at)
			start, before = next, line+1
		}
		at = next
	}
	cut(len(text))
	return chunks
}

// hasContent reports whether there is anything but blanks, comments, directives
// and the start of the document.
func hasContent(text string) bool {
	for at := 0; at < len(text); {
		next := lineEnd(text, at)
		line := text[at:next]
		if isMarker(line, "---") {
			line = line[3:]
		}
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != '%' {
			return true
		}
		at = next
	}
	return false
}

// isMarker reports whether a line begins with a marker that stands by itself.
func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], " \t\n"))
}

// lineEnd returns the index after the line that begins at an index.
func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// clean returns a file's text without byte order mark and with the line breaks
// of Unix, and the place of its first byte that is not UTF-8, if there is one.
func clean(data []byte) (text string, bad position) {
	text = strings.TrimPrefix(string(data), "\ufeff")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if utf8.ValidString(text) {
		return text, position{}
	}
	bad = position{1, 1}
	for rest := text; ; {
		r, size := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && size == 1 {
			return text, bad
		}
		bad.column++
		if r == '\n' {
			bad = position{bad.line + 1, 1}
		}
		rest = rest[size:]
	}
}
