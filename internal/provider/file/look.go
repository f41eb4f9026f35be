package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An entry is a rule file as it looks from outside, or a path that cannot be
// looked at.
type entry struct {
	name  string // as it is to be called
	stamp stamp
}

// A stamp differs if the contents do.
type stamp struct {
	failure  string // why it cannot be read
	special  bool   // no regular file, such as a pipe: what it holds can be had once
	size     int64
	modified int64
	node     uint64
	changed  int64
}

func stampOf(info fs.FileInfo) stamp {
	if !info.Mode().IsRegular() {
		return stamp{special: true}
	}
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	s.identify(info)
	return s
}

// look finds the rule files that the paths lead to, each once, without reading
// them.
func look(paths []string) []entry {
	l := looker{seen: map[string]bool{}}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			l.fail(path, reason(err))
		case info.IsDir():
			l.directory(path)
		default:
			l.add(path, stampOf(info))
		}
	}
	return l.entries
}

type looker struct {
	seen    map[string]bool // clean paths
	entries []entry
}

func (l *looker) add(name string, s stamp) {
	if clean := filepath.Clean(name); !l.seen[clean] {
		l.seen[clean] = true
		l.entries = append(l.entries, entry{name, s})
	}
}

func (l *looker) fail(name, failure string) { l.add(name, stamp{failure: failure}) }

func (l *looker) directory(path string) {
	files, err := os.ReadDir(path)
	if err != nil {
		l.fail(path, reason(err))
		return
	}
	found := false
	for _, f := range files {
		if !isRuleFile(f.Name()) {
			continue
		}
		name := filepath.Join(path, f.Name())
		info, err := os.Stat(name) // of what a link points to
		switch {
		case err != nil:
			l.fail(name, reason(err))
		case info.IsDir():
			continue
		case !info.Mode().IsRegular():
			l.fail(name, "not a regular file")
		default:
			l.add(name, stampOf(info))
		}
		found = true
	}
	if !found {
		l.fail(path, "no rule files (*.yaml or *.yml) in this directory")
	}
}

func isRuleFile(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name))
}

// leadsTo reports whether a path, of a file or a directory, is how a file is
// found.
func leadsTo(path, name string) bool {
	path, name = filepath.Clean(path), filepath.Clean(name)
	return path == name || path == filepath.Dir(name)
}
