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
	"io/fs"

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
		return nil, errNoPaths
	}
	var sources []*source
	for _, e := range look(paths) {
		s, _ := load(e, nil)
		sources = append(sources, s)
	}
	return strict(sources)
}

var errNoPaths = errors.New("no rule files were named")

// Parse reads the contents of one rule file. The name stands for it in faults.
func Parse(name string, data []byte) (*policy.Snapshot, error) {
	return strict([]*source{newSource(name, data)})
}

// strict returns a snapshot of sources in which nothing is wrong.
func strict(sources []*source) (*policy.Snapshot, error) {
	j := judge(sources, nil)
	if err := j.faults.Err(); err != nil {
		return nil, err
	}
	return j.snapshot(), nil
}

// reason is what a file operation failed of, without its name for the file.
func reason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}
