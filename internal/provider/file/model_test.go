package file_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
)

// A statement is a document with one limit, or with what is no key if it has a
// fault.
type statement struct {
	domain, key string
	quota       int
	faulty      bool
}

func (s statement) text() string {
	text := quota(s.domain, s.key, s.quota)
	if s.faulty {
		text += "foo: 1\n"
	}
	return text
}

// A sheet is a rule file: its documents, of which there may be none that can be
// parsed.
type sheet struct {
	statements []statement
	torn       bool // with a document that cannot be parsed
}

func (s sheet) faulty() bool {
	return s.torn || len(s.statements) == 0 || slices.ContainsFunc(s.statements, func(s statement) bool { return s.faulty })
}

// A placed statement is one with the file it is in and where.
type placed struct {
	statement

	file string
	at   int
}

// A world is what should be in force, told from the files alone.
type world struct {
	sheets map[string]sheet
	good   map[string][]placed // domains in force
	stale  map[string]bool
}

// update is what a reload should do, or a start, which changes nothing if it
// should not succeed. It reports whether it should.
func (w *world) update(start bool) bool {
	now := w.written()
	tainted, settled := w.tainted()
	for domain, documents := range now {
		if conflict(documents) {
			tainted[domain] = true
		}
	}
	for domain, last := range w.good {
		if !settled && !slices.Equal(last, now[domain]) { // a file may be of any domain
			tainted[domain] = true
		}
	}
	for domain := range tainted {
		delete(now, domain)
		if last := w.good[domain]; last != nil {
			now[domain] = last
		} else {
			settled = false
		}
	}
	if start && !settled {
		return false
	}
	w.good, w.stale = now, tainted
	return true
}

// written returns what the files say, by domain.
func (w *world) written() map[string][]placed {
	domains := map[string][]placed{}
	for _, name := range slices.Sorted(maps.Keys(w.sheets)) {
		for i, s := range w.sheets[name].statements {
			domains[s.domain] = append(domains[s.domain], placed{s, name, i})
		}
	}
	return domains
}

// tainted returns the domains that a faulty file speaks of or spoke of, which
// are all if there is no file, and whether each such file has any.
func (w *world) tainted() (domains map[string]bool, settled bool) {
	domains, settled = map[string]bool{}, true
	spokeOf := func(domain, name string) bool {
		return slices.ContainsFunc(w.good[domain], func(p placed) bool { return p.file == name || name == "" })
	}
	hit := func(name string) {
		found := false
		for _, domain := range []string{"x", "y", "z"} {
			speaksOf := slices.ContainsFunc(w.sheets[name].statements, func(s statement) bool { return s.domain == domain })
			if speaksOf || spokeOf(domain, name) {
				domains[domain], found = true, true
			}
		}
		settled = settled && found
	}
	for name, s := range w.sheets {
		if s.faulty() {
			hit(name)
		}
	}
	if len(w.sheets) == 0 {
		hit("")
	}
	return domains, settled
}

// conflict reports whether a key comes twice.
func conflict(documents []placed) bool {
	keys := map[string]bool{}
	for _, p := range documents {
		keys[p.key] = true
	}
	return len(keys) < len(documents)
}

// String describes the world as inForce does a status.
func (w *world) String() string {
	var lines []string
	for domain, documents := range w.good {
		for _, p := range documents {
			lines = append(lines, fmt.Sprintf("%s %s %d %v", domain, p.key, p.quota, w.stale[domain]))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func inForce(s *file.Status) string {
	var lines []string
	for _, l := range s.Snapshot.Limits() {
		stale := slices.ContainsFunc(s.Stale, func(s file.Stale) bool { return s.Domain == l.Domain })
		lines = append(lines, fmt.Sprintf("%s %s %d %v", l.Domain, l.Name, l.Quota, stale))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// A wanderer edits files at random.
type wanderer struct {
	*watched
	*rand.Rand

	world world
	log   []string
}

func (w *wanderer) name() string { return string(rune('a'+w.IntN(4))) + ".yaml" }

// sheet returns a file of any kind, most often one without a fault.
func (w *wanderer) sheet() sheet {
	s := sheet{torn: w.IntN(8) == 0}
	for range w.IntN(4) {
		s.statements = append(s.statements, statement{
			domain: string(rune('x' + w.IntN(3))), key: string(rune('k' + w.IntN(8))), quota: w.IntN(3), faulty: w.IntN(12) == 0,
		})
	}
	return s
}

// put writes a file of a size that none had before, with comments as its last
// document so that the others stay the same text.
func (w *wanderer) put(name string, s sheet) {
	var texts []string
	for _, s := range s.statements {
		texts = append(texts, s.text())
	}
	if s.torn {
		texts = append(texts, broken)
	}
	text := strings.Join(append(texts, "#"), "---\n")
	w.edits++
	write(w.t, w.dir, name, text+strings.Repeat("x", 1000+w.edits-len(text)))
	w.world.sheets[name] = s
}

// edit changes one file.
func (w *wanderer) edit() {
	name, other := w.name(), w.name()
	old, here := w.world.sheets[name]
	switch what := w.IntN(10); {
	case what == 0 && here:
		w.log = append(w.log, "delete "+name)
		w.must(os.Remove(w.path(name)))
		delete(w.world.sheets, name)
	case what == 1 && here && name != other:
		w.log = append(w.log, "rename "+name+" to "+other)
		w.must(os.Rename(w.path(name), w.path(other)))
		delete(w.world.sheets, name)
		w.world.sheets[other] = old
	case what == 2 && here:
		w.log = append(w.log, "touch "+name)
		w.put(name, old)
	default:
		s := w.sheet()
		w.log = append(w.log, fmt.Sprintf("write %s %+v", name, s))
		w.put(name, s)
	}
}

// restart starts anew if what the files and the state hold allows it.
func (w *wanderer) restart() {
	w.log = append(w.log, "restart")
	w.must(w.w.SaveState())
	can := w.world.update(true)
	err := w.open()
	if (err == nil) != can {
		w.t.Errorf("a start ends with %v, which should be possible: %v", err, can)
	}
	if err == nil {
		w.wantFaults(w.last.StateFaults)
	}
}

// step takes some edits over, by any of the ways there are.
func (w *wanderer) step() {
	for range w.IntN(3) {
		w.edit()
	}
	w.poll(w.IntN(2)) // amidst
	w.edit()
	if w.IntN(6) == 0 {
		w.log = append(w.log, "reload")
		w.last = w.w.Reload(w.now)
		return
	}
	w.settle()
}

// Whatever is done to the files, in force is what the rules for faults say, and
// a start on the state says the same.
func TestAnyEditsEndAsTheRulesForFaultsSay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		w := &wanderer{
			watched: &watched{t: t, dir: t.TempDir(), now: time.Unix(1000, 0)},
			Rand:    rand.New(rand.NewPCG(seed, 0)),
			world:   world{sheets: map[string]sheet{}},
		}
		w.put("a.yaml", sheet{statements: []statement{{domain: "x", key: "k", quota: 1}}})
		w.must(w.open())
		w.world.update(true)
		for range 30 {
			before, documents := w.last.Status, w.world.good
			w.step()
			w.world.update(false)
			w.check(before, documents)
			if w.IntN(8) == 0 {
				w.restart()
			}
			if t.Failed() {
				t.Fatalf("seed %d:\n%s", seed, strings.Join(w.log, "\n"))
			}
		}
	}
}

// check compares with the world, and with what was before.
func (w *wanderer) check(before *file.Status, documents map[string][]placed) {
	w.t.Helper()
	now := w.last.Status
	if got, want := inForce(now), w.world.String(); got != want {
		w.t.Errorf("in force: %s\nwant:     %s", got, want)
	}
	if steps, same := now.Version-before.Version, now.Snapshot.Hash() == before.Snapshot.Hash(); steps < 0 || steps == 0 && !same {
		w.t.Errorf("version %d after %d, the same rules: %v", now.Version, before.Version, same)
	}
	for domain, old := range documents {
		if slices.Equal(old, w.world.good[domain]) && !sameObjects(before.Snapshot.Policy(domain), now.Snapshot.Policy(domain)) {
			w.t.Errorf("domain %s has not changed, yet it is another object", domain)
		}
	}
}

func sameObjects(p, q *policy.Policy) bool { return p != nil && p == q }
