// Package file provides policies from rule files in YAML.
//
// The format is that of Envoy's reference service with more to say about a
// limit. It is read strictly: what is unknown, misplaced, given twice or means
// nothing is a fault, and all faults of all files are reported at once, each
// with its place. This is what there is, in full:
//
//	domain: shop                      # required
//	descriptors:
//	  - key: plan                     # required
//	    value: premium                # any value if absent; * stands for any run of characters
//	    cidr: 10.0.0.0/8              # instead of value: the addresses of a network
//	    regex: '[0-9]+'               # instead of value: RE2, of the whole value
//	    descriptors: [...]            # the entries that follow
//	    shadow_mode: true             # all limits here are reported, never enforced
//	    quota_mode: true              # denies only if all rules of quota mode of a request do
//	    share_threshold: true         # all values covered share their buckets
//	    value_to_metric: true         # counts by this entry's value
//	    detailed_metric: true         # counts by all entries' values
//	    metadata: {...}               # for Envoy when the rule admits
//	    rate_limit:                   # or rate_limits, a list of these without unlimited
//	      requests_per_unit: 10       # required; 0 denies everything
//	      unit: second                # required; second to year, or a duration such as 30s or 7d
//	      time_zone: Europe/Berlin    # day to year by its calendar; fixed_window only
//	      algorithm: fixed_window     # the default
//	      burst: 20                   # requests_per_unit if absent; bucket algorithms only
//	      max_delay: 5s               # the longest to hold a request; leaky_bucket only
//	      name: per-user              # the path if absent, such as plan=premium
//	      failure_mode: error         # or open, closed, local
//	      shadow: false               # this limit is reported, never enforced
//	      expose: true                # in what clients see
//	      unlimited: false            # if true, alone or with a name and replaces
//	      replaces: [{name: other}]   # limits that do not count in a request beside this
//	      overdraft: auto             # or on, off: see policy.ChargeMode
//	      max_override: 100           # the most per unit that a caller may bring along
//
// A file holds any number of documents. A domain may be spread over documents
// and files; see [policy.Build] for how they merge.
package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlsd/rlsd/internal/policy"
)

// maxSize is the most bytes that a rule file has.
const maxSize = 16 << 20

// Load reads rule files into one snapshot. A path is a file, whatever its name,
// or a directory, of which it reads the files named *.yaml or *.yml, through
// symbolic links too, but neither hidden files nor directories below it. A file
// that is reached twice by the same path is read once.
//
// An error is [policy.Faults] and holds everything that is wrong in any of the
// files, or with them.
func Load(paths ...string) (*policy.Snapshot, error) {
	if len(paths) == 0 {
		return nil, errors.New("no rule files were named")
	}
	l := loader{seen: map[string]bool{}}
	for _, path := range paths {
		l.path(path)
	}
	return l.build()
}

// Parse reads the contents of one rule file. The name stands for it in faults.
func Parse(name string, data []byte) (*policy.Snapshot, error) {
	var l loader
	l.data(name, data)
	return l.build()
}

// A loader gathers the documents and the faults of all files.
type loader struct {
	seen      map[string]bool // files by their clean paths
	documents []policy.Document
	faults    policy.Faults
}

func (l *loader) build() (*policy.Snapshot, error) {
	snapshot, err := policy.Build(l.documents)
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		l.faults = append(l.faults, faults...)
	}
	if err := l.faults.Err(); err != nil {
		return nil, err
	}
	return snapshot, err
}

func (l *loader) path(path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		l.fault(path, reason(err))
	case info.IsDir():
		l.directory(path)
	default:
		l.file(path)
	}
}

func (l *loader) directory(path string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		l.fault(path, reason(err))
		return
	}
	found := false
	for _, entry := range entries {
		if !isRuleFile(entry.Name()) {
			continue
		}
		name := filepath.Join(path, entry.Name())
		info, err := os.Stat(name) // of what a link points to
		switch {
		case err != nil:
			l.fault(name, reason(err))
		case info.IsDir():
			continue
		case !info.Mode().IsRegular():
			l.fault(name, "not a regular file")
		default:
			l.file(name)
		}
		found = true
	}
	if !found {
		l.fault(path, "no rule files (*.yaml or *.yml) in this directory")
	}
}

func isRuleFile(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name))
}

func (l *loader) file(path string) {
	clean := filepath.Clean(path)
	if l.seen[clean] {
		return
	}
	l.seen[clean] = true
	data, err := read(path)
	if err != nil {
		l.fault(path, reason(err))
		return
	}
	l.data(path, data)
}

// read returns the contents of a file, and of a large one so much that it is
// seen to be too large.
func read(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // which files are read is the operator's choice
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

func (l *loader) data(name string, data []byte) {
	r := report{file: name}
	l.documents = append(l.documents, decode(data, &r)...)
	l.faults = append(l.faults, r.faults...)
}

func (l *loader) fault(file, message string) {
	l.faults = append(l.faults, policy.Fault{Source: policy.Source{File: file}, Message: message})
}

// reason is what a file operation failed of, without its name for the file.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}
