package file_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/provider/file"
)

// restart begins anew on the same directories, after what was good was saved.
func (w *watched) restart() error {
	w.t.Helper()
	w.must(w.w.SaveState())
	return w.open()
}

// states returns the files in the state directory.
func (w *watched) states() []string {
	w.t.Helper()
	names, err := filepath.Glob(w.path("state/*"))
	w.must(err)
	return names
}

func TestAStartWithFaultsFallsBackToTheState(t *testing.T) {
	t.Parallel()
	start := map[string]string{"a.yaml": "# one\n\n" + quota("shop", "a", 1) + "---\n" + quota("blog", "d", 1), "b.yaml": quota("shop", "b", 1), "c.yaml": quota("edge", "c", 1)}
	for name, test := range map[string]struct {
		change func(w *watched)
		want   string
		faults []string
	}{
		"nothing wrong": {func(*watched) {}, "blog d 1, edge c 1, shop a 1 b 1", nil},
		"a file that cannot be parsed": {
			func(w *watched) { w.write("b.yaml", broken); w.write("c.yaml", quota("edge", "c", 2)) },
			"blog d 1, edge c 2, shop a 1 b 1 (stale)",
			[]string{"DIR/b.yaml:1:9: sequence end token ']' not found"},
		},
		"a fault in a domain that is known": {
			func(w *watched) { w.write("new.yaml", "domain: edge\nfoo: 1\n") },
			"blog d 1, edge c 1 (stale), shop a 1 b 1",
			[]string{`DIR/new.yaml:2:1: foo: unknown key "foo", known here: domain, descriptors`},
		},
		"a conflict": {
			func(w *watched) { w.write("b.yaml", quota("shop", "a", 2)) },
			"blog d 1, edge c 1, shop a 1 b 1 (stale)",
			[]string{`DIR/b.yaml:3:3: descriptors[0]: conflicts with the descriptor at DIR/a.yaml:5:3, which has the same key and value: keep the limit of one of them`},
		},
		"an empty folder": {
			func(w *watched) {
				for name := range start {
					w.must(os.Remove(w.path(name)))
				}
			},
			"blog d 1 (stale), edge c 1 (stale), shop a 1 b 1 (stale)",
			[]string{"DIR: no rule files (*.yaml or *.yml) in this directory"},
		},
		"a domain that is gone": {func(w *watched) { w.must(os.Remove(w.path("c.yaml"))) }, "blog d 1, shop a 1 b 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, start)
			hash := w.last.Status.Snapshot.Policy("shop").Hash()
			w.must(w.w.SaveState())
			test.change(w)
			for range 2 { // a start on the state leaves the state as good as it was
				w.must(w.restart())
				w.want(test.want, test.faults...)
				w.wantFaults(w.last.StateFaults)
			}
			if got := w.last.Status.Snapshot.Policy("shop"); got.Hash() != hash || got.Rules()[0].Source.Line != 5 {
				t.Errorf("the rules are others, or elsewhere: line %d", got.Rules()[0].Source.Line)
			}
			if got, want := len(w.states()), strings.Count(test.want, ",")+1; got != want {
				t.Errorf("%d states for %d domains", got, want)
			}
		})
	}
}

func TestAStartStopsIfAnyFaultHasNoStateToFallBackTo(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1)})
	w.must(w.w.SaveState())
	w.write("a.yaml", broken)
	w.write("b.yaml", "domain: edge\nfoo: 1\n")
	err := w.open()
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Fatalf("a new domain with a fault: %v", err)
	}
	w.write("b.yaml", broken)
	if err := w.open(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Fatalf("a new file that tells no domain: %v", err)
	}
	w.must(os.Remove(w.path("b.yaml")))
	w.must(w.open())
	w.want("shop a 1 (stale)", "DIR/a.yaml:1:9: sequence end token ']' not found")
}

func TestStatesThatAreOfNoUseAreNamedAndIgnored(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(w *watched, name string, data []byte)
		want  string
	}{
		"a flipped bit": {
			func(w *watched, name string, data []byte) {
				w.must(os.WriteFile(name, bytes.Replace(data, []byte("requests_per_unit: 1"), []byte("requests_per_unit: 9"), 1), 0o600))
			},
			"corrupt, its checksum is another: ignored",
		},
		"a torn file":   {func(w *watched, name string, data []byte) { w.must(os.WriteFile(name, data[:len(data)/2], 0o600)) }, "no state of rlsd: ignored"},
		"an empty file": {func(w *watched, name string, _ []byte) { w.must(os.WriteFile(name, nil, 0o600)) }, "no state of rlsd: ignored"},
		"other JSON":    {func(w *watched, name string, _ []byte) { w.must(os.WriteFile(name, []byte(`{"format": 7}`), 0o600)) }, "state of format 7, this rlsd reads 1: ignored"},
		"no JSON":       {func(w *watched, name string, _ []byte) { w.must(os.WriteFile(name, []byte("\x00\xff"), 0o600)) }, "no state of rlsd: ignored"},
		"too large":     {func(w *watched, name string, _ []byte) { w.must(os.Truncate(name, 65<<20)) }, "larger than 64 MiB: ignored"},
		"renamed": {
			func(w *watched, name string, _ []byte) { w.must(os.Rename(name, w.path("state/other.json"))) },
			`holds domain "shop", whose state is called`,
		},
		"a link": {
			func(w *watched, name string, _ []byte) { w.must(os.Remove(name)); link(w.t, "nowhere", name) }, "no state of rlsd: ignored",
		},
		"a directory in its place": {
			func(w *watched, name string, _ []byte) { w.must(os.Remove(name)); w.must(os.Mkdir(name, 0o700)) }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1)})
			w.must(w.w.SaveState())
			state := w.states()[0]
			data, err := os.ReadFile(state)
			w.must(err)
			test.spoil(w, state, data)
			w.must(w.open())
			w.want("shop a 1")
			if got := w.last.StateFaults; test.want == "" != (len(got) == 0) || len(got) > 0 && !strings.Contains(got[0].Message, test.want) {
				t.Errorf("it says %v, want %s", got, test.want)
			}
			w.write("a.yaml", broken)
			if err := w.open(); err == nil {
				t.Error("it starts with a state that is of no use")
			}
		})
	}
}

func TestForeignFilesInTheStateDirectoryStay(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1), "state/notes.txt": "x", "state/.hidden": "x", "state/lost+found/x": "x"})
	if got := w.last.StateFaults; len(got) != 1 || got[0].Source.File != w.path("state/notes.txt") {
		t.Errorf("it names %v", got)
	}
	w.must(w.w.SaveState())
	for _, name := range []string{"state/notes.txt", "state/.hidden", "state/lost+found/x"} {
		if _, err := os.Stat(w.path(name)); err != nil {
			t.Error(err)
		}
	}
}

func TestTheStateFollowsWhatIsGood(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1), "b.yaml": quota("'../a b:é'", "b", 1)})
	w.must(w.w.SaveState())
	if got := w.states(); len(got) != 2 {
		t.Fatalf("states: %v", got)
	}
	w.write("a.yaml", quota("shop", "a", 2))
	w.must(os.Remove(w.path("b.yaml")))
	w.settle()
	w.must(w.w.SaveState())
	w.write("a.yaml", broken)
	w.settle()
	w.must(w.restart())
	w.want("shop a 2 (stale)", "DIR/a.yaml:1:9: sequence end token ']' not found")
	if got := w.states(); len(got) != 1 {
		t.Errorf("states: %v", got)
	}
	if info, err := os.Stat(w.states()[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the state has mode %v, %v", info.Mode(), err)
	}
}

func TestAStateThatCannotBeWrittenIsAnErrorUntilItCan(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1)})
	w.must(os.Remove(w.path("state")))
	if err := w.w.SaveState(); err == nil || !strings.Contains(err.Error(), `domain "shop": `) {
		t.Errorf("got %v", err)
	}
	w.must(os.Mkdir(w.path("state"), 0o700))
	w.must(w.w.SaveState())
	if len(w.states()) != 1 {
		t.Error("it was not written")
	}
	w.must(os.Remove(w.states()[0]))
	w.must(w.w.SaveState())
	if len(w.states()) != 0 {
		t.Error("it writes what has not changed")
	}
}

func TestAStateDirectoryThatCannotBeHadIsNamed(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1)})
	_, report, err := file.Open(file.Options{Paths: []string{w.path("a.yaml")}, StateDir: w.path("a.yaml/x")}, time.Unix(0, 0))
	w.must(err)
	if len(report.StateFaults) != 1 || !strings.Contains(report.StateFaults.Error(), "the last good rules cannot be kept here") {
		t.Errorf("it says %v", report.StateFaults)
	}
}

// Documents that share a chunk of a file, and files with names of any bytes,
// come back as they were.
func TestTheStateHoldsWhateverRulesMayBe(t *testing.T) {
	t.Parallel()
	const text = "domain: shop\ndescriptors:\n- {key: a, rate_limit: &l {unit: hour, requests_per_unit: 5}}\n- {key: b, rate_limit: *l}\n...\n# <&>\u2028\n"
	w := watch(t, map[string]string{"\xff<a>.yaml": text + "---\n" + quota("shop", "<&>", 1)})
	hash := w.last.Status.Snapshot.Hash()
	w.must(w.w.SaveState())
	w.must(os.Remove(w.path("\xff<a>.yaml")))
	w.must(w.open())
	if s := w.last.Status; s.Snapshot.Hash() != hash || len(s.Stale) != 1 {
		t.Errorf("the rules are others: %v", w.last.StateFaults)
	}
}
