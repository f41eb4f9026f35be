package file

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlsd/rlsd/internal/policy"
)

const (
	// maxState is the most bytes of a file with the state of a domain.
	maxState = 64 << 20
	// maxStates is the most files that are read of a state directory.
	maxStates = 10_000
	// stateFormat is the number of the format of these files.
	stateFormat = 1
)

// A state is a directory that keeps domains as they were last good, one file for
// each, for the next start.
type state struct {
	dir   string
	saved map[string]*version // what is in it, by domain
}

// A stateFile holds the documents of a domain as they stand in the rule files,
// so that whoever reads it checks them anew.
type stateFile struct {
	Format    int         `json:"format"`
	Domain    string      `json:"domain"`
	Documents []stateText `json:"documents"`
	SHA256    string      `json:"sha256"` // of all of this without it
}

type stateText struct {
	File   string `json:"file"`
	Before int    `json:"before"` // lines of the file before it
	Text   string `json:"text"`
}

// load returns the domains in the directory, which it makes if there is none,
// and what is in it that is of no use.
func (s *state) load() (map[string]*version, policy.Faults) {
	s.saved = map[string]*version{}
	var faults policy.Faults
	complain := func(name string, err error) {
		faults = append(faults, policy.Fault{Source: policy.Source{File: name}, Message: err.Error()})
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		complain(s.dir, errors.New(reason(err)+": the last good rules cannot be kept here"))
		return nil, faults
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		complain(s.dir, errors.New(reason(err)))
		return nil, faults
	}
	domains := map[string]*version{}
	for _, f := range files {
		name := filepath.Join(s.dir, f.Name())
		switch {
		case f.IsDir() || strings.HasPrefix(f.Name(), "."):
			continue
		case !f.Type().IsRegular() || !strings.HasSuffix(f.Name(), stateSuffix):
			complain(name, errForeign)
			continue
		case len(domains) == maxStates:
			complain(s.dir, fmt.Errorf("holds more than %d domains: the rest is ignored", maxStates))
			return domains, faults
		}
		domain, v, err := loadState(name)
		if err != nil {
			complain(name, err)
			continue
		}
		domains[domain], s.saved[domain] = v, v
	}
	return domains, faults
}

var errForeign = errors.New("no state of rlsd: ignored")

func loadState(name string) (domain string, v *version, err error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", nil, errors.New(reason(err))
	case info.Size() > maxState:
		return "", nil, fmt.Errorf("larger than %d MiB: ignored", maxState>>20)
	}
	data, err := os.ReadFile(name) //nolint:gosec // in the operator's directory
	if err != nil {
		return "", nil, errors.New(reason(err))
	}
	var file stateFile
	switch err := json.Unmarshal(data, &file); {
	case err != nil:
		return "", nil, fmt.Errorf("%w (%w)", errForeign, err)
	case file.Format != stateFormat:
		return "", nil, fmt.Errorf("state of format %d, this rlsd reads %d: ignored", file.Format, stateFormat)
	case file.SHA256 != file.sum():
		return "", nil, errors.New("corrupt, its checksum is another: ignored")
	case filepath.Base(name) != stateName(file.Domain):
		return "", nil, fmt.Errorf("holds domain %s, whose state is called %s: ignored", quote(file.Domain), stateName(file.Domain))
	}
	v, err = file.version()
	return file.Domain, v, err
}

// version reads the documents as if they stood in their files.
func (f *stateFile) version() (*version, error) {
	var documents []document
	for _, text := range f.Documents {
		r := report{file: text.File}
		d := decoder{report: &r}
		for _, doc := range d.chunk(chunk{text.Text, text.Before}) {
			if doc.Domain == f.Domain {
				documents = append(documents, doc)
			}
		}
		if len(r.faults) > 0 {
			return nil, fmt.Errorf("not good by the rules of this rlsd: ignored (%w)", r.faults)
		}
	}
	if len(documents) == 0 {
		return nil, errForeign
	}
	v, faults := buildDomain(f.Domain, documents, nil)
	if len(faults) > 0 {
		return nil, fmt.Errorf("not good by the rules of this rlsd: ignored (%w)", faults)
	}
	return v, nil
}

func (f *stateFile) sum() string {
	bare := *f
	bare.SHA256 = ""
	data, _ := json.Marshal(bare) // strings and numbers do not fail
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

const stateSuffix = ".json"

// stateName is the name of the file with the state of a domain, which begins
// with what a file name may hold of that of the domain.
func stateName(domain string) string {
	legible := []byte(domain[:min(len(domain), 64)])
	for i, c := range legible {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' {
			legible[i] = '_'
		}
	}
	sum := sha256.Sum256([]byte(domain))
	return string(legible) + "-" + hex.EncodeToString(sum[:8]) + stateSuffix
}

// save makes the directory hold the domains and no others. What it does not know
// it leaves alone.
func (s *state) save(domains map[string]*version) error {
	var errs []error
	for domain, v := range domains {
		if s.saved[domain] == v {
			continue
		}
		if err := s.write(stateName(domain), newStateFile(domain, v)); err != nil {
			errs = append(errs, fmt.Errorf("domain %s: %w", quote(domain), err))
			continue
		}
		s.saved[domain] = v
	}
	for domain := range s.saved {
		if domains[domain] != nil {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, stateName(domain))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("domain %s, which is gone: %w", quote(domain), err))
			continue
		}
		delete(s.saved, domain)
	}
	return errors.Join(errs...)
}

func newStateFile(domain string, v *version) *stateFile {
	f := &stateFile{Format: stateFormat, Domain: domain}
	seen := map[stateText]bool{}
	for _, d := range v.documents {
		text := stateText{strings.ToValidUTF8(d.Source.File, "\ufffd"), d.chunk.before, d.chunk.text}
		if !seen[text] {
			seen[text] = true
			f.Documents = append(f.Documents, text)
		}
	}
	f.SHA256 = f.sum()
	return f
}

// write replaces a file so that after a crash either the old or the new one is
// there.
func (s *state) write(name string, f *stateFile) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if len(data) > maxState {
		return fmt.Errorf("more than %d MiB, which is too large to keep", maxState>>20)
	}
	temporary := filepath.Join(s.dir, "."+name+".tmp")
	if err := writeSynced(temporary, data); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(s.dir, name)); err != nil {
		return err
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // in the operator's directory
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
