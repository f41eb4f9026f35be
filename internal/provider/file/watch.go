package file

import (
	"maps"
	"slices"
	"time"

	"github.com/rlsd/rlsd/internal/policy"
)

// PollInterval is how often to call [Watcher.Poll]. A change takes effect after
// three to four times as long, and after eight times at most while other files
// never come to rest.
const PollInterval = 150 * time.Millisecond

// Options say what to watch.
type Options struct {
	Paths []string // as of [Load]
	// StateDir is the directory that keeps the last good version of each domain
	// for the next start; empty for none.
	StateDir string
}

// A Watcher keeps rules in step with their files. What is wrong at its start is
// an error; later on, a domain that something is wrong with stays as it was last
// good. It is not safe for concurrent use.
type Watcher struct {
	paths  []string
	state  *state // nil if there is none
	motion motion

	// taken is the stamps of the files that were read. One that had no time to
	// come to rest has none, so that it is read once more: what is written within
	// a tick of the file system's clock looks the same.
	taken   map[string]stamp
	sources map[string]*source
	domains map[string]*version // in force

	status *Status
}

// A Status is the rules in force and how they came about. It is immutable.
type Status struct {
	Snapshot *policy.Snapshot
	Version  int       // counts the changes of what the rules say, from 1
	Changed  time.Time // when they last did
	Files    []string  // that they are from
	Stale    []Stale   // domains that stand on their last good version, by name
	Faults   policy.Faults
	// LastFaults are those that were there last and LastFailed when they were
	// first seen, though all may be right again.
	LastFaults policy.Faults
	LastFailed time.Time
}

// A Stale is a domain that stands on its last good version.
type Stale struct {
	Domain string
	Since  time.Time
}

// A Report is what a change came to.
type Report struct {
	Status                  *Status
	Added, Changed, Removed []string      // domains, sorted
	NewlyStale, Recovered   []string      // domains, sorted
	NewFaults               policy.Faults // that the report before did not have
	StateFaults             policy.Faults // files of the state directory that are of no use
}

// Open reads the rules for the first time. The error is as of [Load], unless
// every domain that a fault taints has its last good version in the state
// directory.
func Open(o Options, now time.Time) (*Watcher, *Report, error) {
	if len(o.Paths) == 0 {
		return nil, nil, errNoPaths
	}
	w := &Watcher{paths: o.Paths, status: &Status{Snapshot: policy.NewSnapshot(nil)}}
	var last map[string]*version
	var lost policy.Faults
	if o.StateDir != "" {
		w.state = &state{dir: o.StateDir}
		last, lost = w.state.load()
	}

	found := look(w.paths)
	w.motion.seen = stamps(found)
	w.take(found, func(e entry) (*source, stamp) {
		s, _ := load(e, nil)
		return s, stamp{}
	})
	j := judge(w.inOrder(), last)
	if !j.settled {
		return nil, nil, j.faults
	}
	report := w.apply(j, now)
	report.StateFaults = lost
	return w, report, nil
}

// Poll looks at the files and takes over what has changed and come to rest. It
// returns nil if there is nothing to say.
func (w *Watcher) Poll(now time.Time) *Report {
	found := look(w.paths)
	moving, ready := w.motion.observe(stamps(found), w.taken)
	if !ready {
		return nil
	}
	changed := w.take(found, func(e entry) (*source, stamp) {
		before, known := w.taken[e.name]
		switch {
		case known && e.stamp == before, moving[e.name]:
			return w.sources[e.name], before
		default:
			return w.reload(e)
		}
	}, slices.Collect(maps.Keys(moving))...)
	if !changed {
		return nil
	}
	return w.apply(judge(w.inOrder(), w.domains), now)
}

// Reload takes over the files as they are, whether or not they look different.
func (w *Watcher) Reload(now time.Time) *Report {
	found := look(w.paths)
	w.take(found, func(e entry) (*source, stamp) {
		s, _ := w.reload(e)
		return s, stamp{}
	})
	return w.apply(judge(w.inOrder(), w.domains), now)
}

// reload reads a file, unless it changes meanwhile: the next look will tell.
func (w *Watcher) reload(e entry) (*source, stamp) {
	old, before := w.sources[e.name], w.taken[e.name]
	s, ok := load(e, old)
	if !ok {
		return old, before
	}
	return s, e.stamp
}

// take makes what read returns of each entry the sources, and keeps those of the
// names besides. A source that is nil is left out. It reports whether anything
// differs.
func (w *Watcher) take(found []entry, read func(entry) (*source, stamp), keep ...string) bool {
	sources, taken := make(map[string]*source, len(found)), make(map[string]stamp, len(found))
	for _, name := range keep {
		if s := w.sources[name]; s != nil {
			sources[name], taken[name] = s, w.taken[name]
		}
	}
	for _, e := range found {
		if s, at := read(e); s != nil {
			sources[e.name], taken[e.name] = s, at
		}
	}
	changed := !maps.Equal(sources, w.sources)
	w.sources, w.taken, w.motion.waited = sources, taken, 0
	return changed
}

// inOrder returns the sources by name.
func (w *Watcher) inOrder() []*source {
	names := slices.Sorted(maps.Keys(w.sources))
	sources := make([]*source, len(names))
	for i, name := range names {
		sources[i] = w.sources[name]
	}
	return sources
}

// apply puts into force what the files came to.
func (w *Watcher) apply(j *judgement, now time.Time) *Report {
	before := w.status
	s := &Status{
		Snapshot: j.snapshot(), Version: before.Version, Changed: before.Changed, Files: j.files(),
		Faults: j.faults, LastFaults: before.LastFaults, LastFailed: before.LastFailed,
	}
	if s.Version == 0 || s.Snapshot.Hash() != before.Snapshot.Hash() {
		s.Version, s.Changed = before.Version+1, now
	}
	r := &Report{Status: s}
	for _, f := range s.Faults {
		if !slices.Contains(before.Faults, f) {
			r.NewFaults = append(r.NewFaults, f)
		}
	}
	if len(r.NewFaults) > 0 {
		s.LastFailed = now
	}
	if len(s.Faults) > 0 {
		s.LastFaults = s.Faults
	}
	r.compare(w.domains, j.domains)
	s.Stale = r.age(before.Stale, j.stale, now)
	w.domains, w.status = j.domains, s
	return r
}

// compare says which domains differ.
func (r *Report) compare(before, now map[string]*version) {
	for _, domain := range slices.Sorted(maps.Keys(now)) {
		switch old := before[domain]; {
		case old == nil:
			r.Added = append(r.Added, domain)
		case old.policy.Hash() != now[domain].policy.Hash():
			r.Changed = append(r.Changed, domain)
		}
	}
	for _, domain := range slices.Sorted(maps.Keys(before)) {
		if now[domain] == nil {
			r.Removed = append(r.Removed, domain)
		}
	}
}

// age returns the stale domains with the time since when each has been.
func (r *Report) age(before []Stale, now map[string]bool, at time.Time) []Stale {
	since := make(map[string]time.Time, len(before))
	for _, s := range before {
		since[s.Domain] = s.Since
		if !now[s.Domain] {
			r.Recovered = append(r.Recovered, s.Domain)
		}
	}
	var stale []Stale
	for _, domain := range slices.Sorted(maps.Keys(now)) {
		when, was := since[domain]
		if !was {
			when = at
			r.NewlyStale = append(r.NewlyStale, domain)
		}
		stale = append(stale, Stale{domain, when})
	}
	return stale
}

// SaveState writes to the state directory what has changed, if there is one. An
// error says which domains could not be written: call it again.
func (w *Watcher) SaveState() error {
	if w.state == nil {
		return nil
	}
	return w.state.save(w.domains)
}

func stamps(entries []entry) map[string]stamp {
	stamps := make(map[string]stamp, len(entries))
	for _, e := range entries {
		stamps[e.name] = e.stamp
	}
	return stamps
}
