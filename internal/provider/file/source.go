package file

import (
	"crypto/sha256"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/rlsd/rlsd/internal/policy"
)

// A source is what a rule file says, or that it cannot be read.
type source struct {
	name      string
	sum       [sha256.Size]byte
	documents []document
	mentions  []string // domains, of a file with faults: also where it cannot be parsed
	faults    policy.Faults
}

// A document is what a chunk of a file says about a domain.
type document struct {
	policy.Document

	chunk chunk
}

func newSource(name string, data []byte) *source {
	r := report{file: name}
	s := &source{name: name, sum: sha256.Sum256(data), documents: decode(data, &r)}
	if s.faults = r.faults; len(s.faults) > 0 {
		s.mentions = mentioned(data)
	}
	return s
}

// domainLine is what a document that cannot be parsed says of its domain: a
// line of it, or its beginning in braces.
var domainLine = regexp.MustCompile(`(?m)^([ \t{]*)["']?domain["']?[ \t]*:[ \t]*([^\s\[\]{}&*|>!%@#][^\r\n]*)`)

// mentioned returns the domains that lines of the text name.
func mentioned(data []byte) (domains []string) {
	for _, line := range domainLine.FindAllSubmatch(data, -1) {
		name, _, _ := strings.Cut(string(line[2]), " #")
		if strings.Contains(string(line[1]), "{") {
			name, _, _ = strings.Cut(name, ",")
			name = strings.TrimRight(name, "} \t")
		}
		name = strings.TrimSpace(name)
		if unquoted, err := strconv.Unquote(name); err == nil {
			name = unquoted
		}
		domains = append(domains, strings.Trim(name, `'"`))
	}
	return domains
}

func unreadable(name, failure string) *source {
	return &source{name: name, faults: policy.Faults{{Source: policy.Source{File: name}, Message: failure}}}
}

// load reads the file of an entry, of which old is what is known, or nil. If it
// says what it said it returns old. It reports false if the file changed while
// it was read.
func load(e entry, old *source) (s *source, ok bool) {
	if e.stamp.failure != "" {
		return renew(unreadable(e.name, e.stamp.failure), old), true
	}
	if e.stamp.special && old != nil {
		return old, true
	}
	data, after, err := read(e.name)
	if err != nil {
		return renew(unreadable(e.name, reason(err)), old), true
	}
	if old != nil && old.sum == sha256.Sum256(data) {
		return old, after == e.stamp
	}
	return newSource(e.name, data), after == e.stamp
}

// renew returns the old of two sources that cannot be read for the same reason,
// else the new one.
func renew(s, old *source) *source {
	if old != nil && old.sum == s.sum && old.faults[0] == s.faults[0] {
		return old
	}
	return s
}

// read returns the contents of a file, and of a large one so much that it is
// seen to be too large, and its stamp when that was read.
func read(path string) ([]byte, stamp, error) {
	f, err := os.Open(path) //nolint:gosec // which files are read is the operator's choice
	if err != nil {
		return nil, stamp{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, stamp{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	return data, stampOf(info), nil
}
