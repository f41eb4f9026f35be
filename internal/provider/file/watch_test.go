package file_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
)

// A watched is a Watcher of a directory and the time it is told.
type watched struct {
	t     *testing.T
	dir   string
	w     *file.Watcher
	last  *file.Report // the last that was not nil
	now   time.Time
	edits int
}

// watch watches the directory itself, or paths in it. Files is what it holds at
// the start.
func watch(t *testing.T, files map[string]string, paths ...string) *watched {
	t.Helper()
	w := &watched{t: t, dir: t.TempDir(), now: time.Unix(1000, 0)}
	for name, text := range files {
		w.write(name, text)
	}
	if err := w.open(paths...); err != nil {
		t.Fatal(err)
	}
	return w
}

// open starts anew, with the state directory below that of the rules.
func (w *watched) open(paths ...string) error {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	full := make([]string, len(paths))
	for i, path := range paths {
		full[i] = filepath.Join(w.dir, path)
	}
	watcher, report, err := file.Open(file.Options{Paths: full, StateDir: filepath.Join(w.dir, "state")}, w.now)
	if err == nil {
		w.w, w.last = watcher, report
	}
	return err
}

// write writes a file in place, each time of another size: two of the same may
// have the same time.
func (w *watched) write(name, text string) {
	w.t.Helper()
	w.edits++
	write(w.t, w.dir, name, text+"\n#"+strings.Repeat("x", w.edits))
}

func (w *watched) path(name string) string { return filepath.Join(w.dir, name) }

func (w *watched) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// poll looks n times.
func (w *watched) poll(n int) (reports int) {
	for range n {
		w.now = w.now.Add(file.PollInterval)
		if r := w.w.Poll(w.now); r != nil {
			w.last = r
			reports++
		}
	}
	return reports
}

// settle looks for as long as a change may take: less than a second.
func (w *watched) settle() {
	w.t.Helper()
	w.poll(int(time.Second / file.PollInterval))
}

// want checks what is in force, such as "edge b 1, shop a 2 (stale)", and the
// faults with DIR for the directory.
func (w *watched) want(rules string, faults ...string) {
	w.t.Helper()
	s := w.last.Status
	var got []string
	for _, domain := range s.Snapshot.Domains() {
		var line strings.Builder
		line.WriteString(domain)
		for _, l := range s.Snapshot.Limits() {
			if l.Domain == domain {
				fmt.Fprintf(&line, " %s %d", l.Name, l.Quota)
			}
		}
		if slices.ContainsFunc(s.Stale, func(s file.Stale) bool { return s.Domain == domain }) {
			line.WriteString(" (stale)")
		}
		got = append(got, line.String())
	}
	if got := strings.Join(got, ", "); got != rules {
		w.t.Errorf("in force: %s, want %s", got, rules)
	}
	w.wantFaults(s.Faults, faults...)
}

func (w *watched) wantFaults(faults policy.Faults, want ...string) {
	w.t.Helper()
	got := ""
	if len(faults) > 0 {
		got = strings.ReplaceAll(faults.Error(), w.dir, "DIR")
	}
	if want := strings.Join(want, "\n"); got != want {
		w.t.Errorf("faults:\n%s\nwant:\n%s", got, want)
	}
}

// quota returns a rule file with one limit.
func quota(domain, key string, n int) string {
	return fmt.Sprintf("domain: %s\ndescriptors:\n- {key: %s, rate_limit: {unit: hour, requests_per_unit: %d}}\n", domain, key, n)
}

// broken is no YAML, and tells no domain.
const broken = "domain: [\n"

// configMap puts the files where a kubelet would, in a directory of their own
// that ..data leads to.
func (w *watched) configMap(version string, files map[string]string) {
	w.t.Helper()
	for name, text := range files {
		w.write(".."+version+"/"+name, text)
		if _, err := os.Lstat(w.path(name)); err != nil {
			link(w.t, "..data/"+name, w.path(name))
		}
	}
	link(w.t, ".."+version, w.path("..data_tmp"))
	w.must(os.Rename(w.path("..data_tmp"), w.path("..data")))
}

func TestChangesTakeEffect(t *testing.T) {
	t.Parallel()
	start := map[string]string{"shop.yaml": quota("shop", "a", 1), "edge.yaml": quota("edge", "b", 1)}
	for name, test := range map[string]struct {
		files  map[string]string
		paths  []string
		change func(w *watched)
		want   string
	}{
		"a changed file":         {change: func(w *watched) { w.write("shop.yaml", quota("shop", "a", 2)) }, want: "edge b 1, shop a 2"},
		"a new file":             {change: func(w *watched) { w.write("new.yml", quota("new", "c", 1)) }, want: "edge b 1, new c 1, shop a 1"},
		"a new file of a domain": {change: func(w *watched) { w.write("more.yaml", quota("shop", "c", 3)) }, want: "edge b 1, shop c 3 a 1"},
		"a deleted file":         {change: func(w *watched) { w.must(os.Remove(w.path("shop.yaml"))) }, want: "edge b 1"},
		"a file renamed away":    {change: func(w *watched) { w.must(os.Rename(w.path("shop.yaml"), w.path("shop.bak"))) }, want: "edge b 1"},
		"a file renamed":         {change: func(w *watched) { w.must(os.Rename(w.path("shop.yaml"), w.path("x.yaml"))) }, want: "edge b 1, shop a 1"},
		"a file of several":      {paths: []string{"shop.yaml", "edge.yaml"}, change: func(w *watched) { w.write("edge.yaml", quota("edge", "b", 7)) }, want: "edge b 7, shop a 1"},
		"a file replaced": {change: func(w *watched) {
			w.write("t", quota("shop", "a", 4))
			w.must(os.Rename(w.path("t"), w.path("shop.yaml")))
		}, want: "edge b 1, shop a 4"},
		"a domain moved": {change: func(w *watched) {
			w.write("shop.yaml", quota("edge", "a", 1))
			w.write("edge.yaml", quota("shop", "b", 1))
		}, want: "edge a 1, shop b 1"},
		"a folder in its place": {paths: []string{"d"}, files: map[string]string{"d/a.yaml": quota("shop", "a", 1), "e/a.yaml": quota("shop", "a", 5)}, change: func(w *watched) {
			w.must(os.Rename(w.path("d"), w.path("f")))
			w.must(os.Rename(w.path("e"), w.path("d")))
		}, want: "shop a 5"},
		"a link that leads on":     {paths: []string{"now"}, files: map[string]string{"1/a.yaml": quota("shop", "a", 1), "2/a.yaml": quota("shop", "a", 2), "now": ""}, change: func(w *watched) { w.must(os.Remove(w.path("now"))); link(w.t, "2", w.path("now")) }, want: "shop a 2"},
		"a rule that is taken out": {change: func(w *watched) { w.write("shop.yaml", "domain: shop\n") }, want: "edge b 1, shop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &watched{t: t, dir: t.TempDir(), now: time.Unix(1000, 0)}
			files := test.files
			if files == nil {
				files = start
			}
			for name, text := range files {
				if name == "now" {
					link(t, "1", w.path(name))
					continue
				}
				w.write(name, text)
			}
			w.must(w.open(test.paths...))
			test.change(w)
			w.settle()
			w.want(test.want)
			if w.last.Status.Version != 2 && name != "a file renamed" || !w.last.Status.Changed.After(time.Unix(1000, 0)) && name != "a file renamed" {
				t.Errorf("version %d of %v", w.last.Status.Version, w.last.Status.Changed)
			}
			if n := w.poll(20); n > 0 {
				t.Errorf("%d more reports of nothing", n)
			}
		})
	}
}

func TestEverySwapOfAConfigMapIsSeen(t *testing.T) {
	t.Parallel()
	w := &watched{t: t, dir: t.TempDir(), now: time.Unix(1000, 0)}
	w.configMap("2026_0", map[string]string{"a.yaml": quota("shop", "a", 0), "b.yaml": quota("edge", "b", 0)})
	w.must(w.open())
	for i := 1; i <= 20; i++ {
		version := fmt.Sprint("2026_", i)
		w.configMap(version, map[string]string{"a.yaml": quota("shop", "a", i), "b.yaml": quota("edge", "b", i)})
		w.must(os.RemoveAll(w.path(fmt.Sprint("..2026_", i-1))))
		w.settle()
		w.want(fmt.Sprintf("edge b %d, shop a %d", i, i))
		if w.last.Status.Version != i+1 {
			t.Fatalf("version %d after %d swaps", w.last.Status.Version, i)
		}
	}
}

func TestWhatIsNoRuleFileIsOfNoConcern(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1)})
	for _, name := range []string{"README.md", ".hidden.yaml", ".a.yaml.swp", "a.yaml~", "4913", "..data_tmp/a.yaml", "..2026_01/a.yaml", "sub/a.yaml", "dir.yaml/a.yaml"} {
		w.write(name, broken)
	}
	if n := w.poll(20); n > 0 {
		t.Errorf("%d reports", n)
	}
	w.want("shop a 1")
}

func TestATouchedFileIsNoChange(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1)})
	w.poll(5)
	w.must(os.Chtimes(w.path("a.yaml"), time.Unix(1, 0), time.Unix(1, 0)))
	if n := w.poll(20); n > 0 {
		t.Errorf("%d reports", n)
	}
}

func TestAFileThatIsBeingWrittenIsNotTakenForAShorterOne(t *testing.T) {
	t.Parallel()
	rules := quota("shop", "a", 1) + "- {key: b, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
	w := watch(t, map[string]string{"a.yaml": rules, "b.yaml": quota("edge", "b", 1)})
	w.poll(5)
	w.must(os.WriteFile(w.path("a.yaml"), nil, 0o600))
	for i := range len(rules) {
		if n := w.poll(2); n > 0 {
			t.Fatalf("what is written up to byte %d of %d was taken", i, len(rules))
		}
		w.must(os.WriteFile(w.path("a.yaml"), []byte(rules[:i+1]), 0o600))
	}
	w.must(os.WriteFile(w.path("a.yaml"), []byte(rules+"- {key: c, rate_limit: {unit: hour, requests_per_unit: 3}}\n"), 0o600))
	w.settle()
	w.want("edge b 1, shop a 1 b 2 c 3")
}

func TestAFileThatNeverRestsDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1), "b.yaml": quota("edge", "b", 1)})
	w.poll(5)
	w.write("b.yaml", quota("edge", "b", 2))
	for i := range int(time.Second / file.PollInterval) {
		w.write("a.yaml", quota("shop", "a", 100+i))
		w.poll(1)
	}
	w.want("edge b 2, shop a 1")
	w.write("a.yaml", quota("shop", "a", 9))
	w.settle()
	w.want("edge b 2, shop a 9")
}

// Two files that change one after the other are taken together, however often
// all were taken at once before.
func TestReloadsDoNotWearOutThePatience(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1), "b.yaml": quota("edge", "b", 1)})
	change := func(n int) {
		w.write("a.yaml", quota("shop", "a", n))
		w.write("b.yaml", quota("edge", "b", n))
	}
	for range 5 {
		change(2)
		w.poll(1)
		w.last = w.w.Reload(w.now)
	}
	change(3)
	w.poll(2)
	w.write("b.yaml", quota("edge", "b", 4))
	if n := w.poll(1); n > 0 {
		t.Error("one was taken without the other")
	}
	w.settle()
	w.want("edge b 4, shop a 3")
}

func TestFaultsKeepWhatWasLastGood(t *testing.T) {
	t.Parallel()
	start := map[string]string{"shop.yaml": quota("shop", "a", 1), "edge.yaml": quota("edge", "b", 1), "both.yaml": quota("shop", "c", 1) + "---\n" + quota("blog", "d", 1)}
	unknown := func(domain string) string { return "domain: " + domain + "\nfoo: 1\n" }
	for name, test := range map[string]struct {
		change func(w *watched)
		want   string
		faults []string
	}{
		"a fault": {
			func(w *watched) { w.write("shop.yaml", unknown("shop")); w.write("edge.yaml", quota("edge", "b", 2)) },
			"blog d 1, edge b 2, shop c 1 a 1 (stale)",
			[]string{`DIR/shop.yaml:2:1: foo: unknown key "foo", known here: domain, descriptors`},
		},
		"what cannot be parsed taints the domains it had": {
			func(w *watched) { w.write("both.yaml", broken); w.write("edge.yaml", quota("edge", "b", 2)) },
			"blog d 1 (stale), edge b 2, shop c 1 a 1 (stale)",
			[]string{`DIR/both.yaml:1:9: sequence end token ']' not found`},
		},
		"what else changes of a tainted domain waits": {
			func(w *watched) { w.write("both.yaml", broken); w.write("shop.yaml", quota("shop", "a", 2)) },
			"blog d 1 (stale), edge b 1, shop c 1 a 1 (stale)",
			[]string{`DIR/both.yaml:1:9: sequence end token ']' not found`},
		},
		"a fault taints the domain that the file speaks of now": {
			func(w *watched) { w.write("new.yaml", unknown("edge")); w.write("edge.yaml", quota("edge", "b", 2)) },
			"blog d 1, edge b 1 (stale), shop c 1 a 1",
			[]string{`DIR/new.yaml:2:1: foo: unknown key "foo", known here: domain, descriptors`},
		},
		"and the one it spoke of": {
			func(w *watched) { w.write("edge.yaml", unknown("new")) },
			"blog d 1, edge b 1 (stale), shop c 1 a 1",
			[]string{`DIR/edge.yaml:2:1: foo: unknown key "foo", known here: domain, descriptors`},
		},
		"a part that moves to a file that cannot be parsed": {
			func(w *watched) {
				w.write("both.yaml", quota("blog", "d", 1))
				w.write("new.yaml", "# moved\ndomain: 'shop' # here\ndescriptors: [\n")
			},
			"blog d 1, edge b 1, shop c 1 a 1 (stale)",
			[]string{`DIR/new.yaml:3:14: sequence end token ']' not found`},
		},
		"a file that is renamed and cannot be parsed": {
			func(w *watched) {
				w.must(os.Remove(w.path("edge.yaml")))
				w.write("renamed.yaml", "{domain: edge, descriptors: [")
			},
			"blog d 1, edge b 1 (stale), shop c 1 a 1",
			[]string{`DIR/renamed.yaml:1:29: sequence end token ']' not found`},
		},
		"a new file of which there is no telling what it is": {
			func(w *watched) {
				w.must(os.Remove(w.path("edge.yaml")))
				w.write("shop.yaml", quota("shop", "a", 2))
				w.write("renamed.yaml", broken)
			},
			"blog d 1, edge b 1 (stale), shop c 1 a 1 (stale)",
			[]string{`DIR/renamed.yaml:1:9: sequence end token ']' not found`},
		},
		"a new domain with a fault is not there": {
			func(w *watched) { w.write("new.yaml", unknown("new")); w.write("edge.yaml", quota("edge", "b", 2)) },
			"blog d 1, edge b 2, shop c 1 a 1",
			[]string{`DIR/new.yaml:2:1: foo: unknown key "foo", known here: domain, descriptors`},
		},
		"a conflict taints its domain": {
			func(w *watched) { w.write("both.yaml", quota("shop", "a", 2)+"---\n"+quota("blog", "d", 2)) },
			"blog d 2, edge b 1, shop c 1 a 1 (stale)",
			[]string{`DIR/shop.yaml:3:3: descriptors[0]: conflicts with the descriptor at DIR/both.yaml:3:3, which has the same key and value: keep the limit of one of them`},
		},
		"an emptied file": {
			func(w *watched) { w.must(os.Truncate(w.path("edge.yaml"), 0)) },
			"blog d 1, edge b 1 (stale), shop c 1 a 1",
			[]string{"DIR/edge.yaml: no document in this file: give it a domain or take it away"},
		},
		"a link to nothing": {
			func(w *watched) { w.must(os.Remove(w.path("edge.yaml"))); link(w.t, "gone", w.path("edge.yaml")) },
			"blog d 1, edge b 1 (stale), shop c 1 a 1",
			[]string{"DIR/edge.yaml: no such file or directory"},
		},
		"a folder left empty": {
			func(w *watched) {
				for _, name := range []string{"shop", "edge", "both"} {
					w.must(os.Remove(w.path(name + ".yaml")))
				}
			},
			"blog d 1 (stale), edge b 1 (stale), shop c 1 a 1 (stale)",
			[]string{"DIR: no rule files (*.yaml or *.yml) in this directory"},
		},
		"a folder gone": {
			func(w *watched) { w.must(os.RemoveAll(w.dir)) },
			"blog d 1 (stale), edge b 1 (stale), shop c 1 a 1 (stale)",
			[]string{"DIR: no such file or directory"},
		},
		"a file in place of the folder": {
			func(w *watched) { w.must(os.RemoveAll(w.dir)); w.must(os.WriteFile(w.dir, []byte(broken), 0o600)) },
			"blog d 1 (stale), edge b 1 (stale), shop c 1 a 1 (stale)",
			[]string{"DIR:1:9: sequence end token ']' not found"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, start)
			test.change(w)
			w.settle()
			w.want(test.want, test.faults...)
			w.wantFaults(w.last.NewFaults, test.faults...)
			if n := w.poll(20); n > 0 {
				t.Errorf("%d more reports of the same faults", n)
			}
			w.must(os.RemoveAll(w.dir))
			for name, text := range start {
				w.write(name, text)
			}
			w.settle()
			w.want("blog d 1, edge b 1, shop c 1 a 1")
			if s := w.last.Status; len(s.LastFaults) == 0 || s.LastFailed.IsZero() {
				t.Error("the last faults are forgotten")
			}
		})
	}
}

func TestANamedFileThatIsGoneKeepsItsRules(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1), "b.yaml": quota("edge", "b", 1)}, "a.yaml", "b.yaml")
	w.must(os.Remove(w.path("a.yaml")))
	w.settle()
	w.want("edge b 1, shop a 1 (stale)", "DIR/a.yaml: no such file or directory")
}

// A link to itself is what not even root can read.
func TestWhatCannotBeReadKeepsItsRules(t *testing.T) {
	t.Parallel()
	const why = "too many levels of symbolic links"
	w := watch(t, map[string]string{"d/a.yaml": quota("shop", "a", 1), "d/b.yaml": quota("edge", "b", 1)}, "d")
	w.must(os.Remove(w.path("d/a.yaml")))
	link(t, "a.yaml", w.path("d/a.yaml"))
	w.write("d/b.yaml", quota("edge", "b", 2))
	w.settle()
	w.want("edge b 2, shop a 1 (stale)", "DIR/d/a.yaml: "+why)
	w.must(os.RemoveAll(w.path("d")))
	link(t, "d", w.path("d"))
	w.settle()
	w.want("edge b 2 (stale), shop a 1 (stale)", "DIR/d: "+why)
}

func TestEveryFaultIsReportedOnce(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1), "b.yaml": quota("edge", "b", 1)})
	w.write("a.yaml", broken)
	w.settle()
	w.write("b.yaml", quota("edge", "b", 2))
	w.settle()
	w.want("edge b 2, shop a 1 (stale)", "DIR/a.yaml:1:9: sequence end token ']' not found")
	w.wantFaults(w.last.NewFaults)
	if got := fmt.Sprint(w.last.Changed, w.last.NewlyStale); got != "[edge] []" {
		t.Errorf("the report says %s", got)
	}
	since := w.last.Status.Stale[0].Since
	if failed := w.last.Status.LastFailed; !since.Equal(failed) || !since.Before(w.now) {
		t.Errorf("stale since %v, failed at %v", since, failed)
	}
}

func TestReportsSayWhatChanged(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("one", "a", 1), "b.yaml": quota("two", "a", 1), "c.yaml": quota("three", "a", 1)})
	if got := fmt.Sprint(w.last.Added, w.last.Changed, w.last.Removed); got != "[one three two] [] []" {
		t.Errorf("at the start: %s", got)
	}
	w.write("a.yaml", quota("four", "a", 1))
	w.write("b.yaml", "# moved\n"+quota("two", "a", 1))
	w.write("c.yaml", quota("three", "a", 2))
	w.settle()
	if got := fmt.Sprint(w.last.Added, w.last.Changed, w.last.Removed); got != "[four] [three] [one]" {
		t.Errorf("after it: %s", got)
	}
	names := []string{w.path("a.yaml"), w.path("b.yaml"), w.path("c.yaml")}
	if got := w.last.Status.Files; !slices.Equal(got, names) {
		t.Errorf("files: %v", got)
	}
	w.write("b.yaml", "# moved\n\n"+quota("two", "a", 1))
	w.settle()
	if s := w.last.Status; s.Version != 2 || s.Snapshot.Limits()[2].Source.Line != 5 {
		t.Errorf("version %d, lines %v", s.Version, s.Snapshot.Limits()[2].Source)
	}
}

func TestReloadIsAtOnce(t *testing.T) {
	t.Parallel()
	w := watch(t, map[string]string{"a.yaml": quota("shop", "a", 1)})
	w.write("a.yaml", quota("shop", "a", 2))
	w.last = w.w.Reload(w.now)
	w.want("shop a 2")
	if r := w.w.Reload(w.now); r == nil || r.Status.Version != 2 || len(r.Changed) > 0 {
		t.Errorf("of nothing new it says %+v", r)
	}
	if n := w.poll(20); n > 0 {
		t.Errorf("%d more reports", n)
	}
}

// A pipe, such as a shell makes of <(...), can be read once.
func TestWhatIsNoRegularFileIsReadOnce(t *testing.T) {
	t.Parallel()
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := pipe.WriteString(quota("shop", "a", 1)); err != nil {
		t.Fatal(err)
	}
	_ = pipe.Close()
	w := &watched{t: t, dir: "/", now: time.Unix(1000, 0)}
	name := fmt.Sprint("/proc/self/fd/", r.Fd())
	if _, err := os.Stat(name); err != nil {
		t.Skip(err)
	}
	if w.w, w.last, err = file.Open(file.Options{Paths: []string{name}}, w.now); err != nil {
		t.Fatal(err)
	}
	w.last = cmp.Or(w.w.Poll(w.now), w.w.Reload(w.now))
	w.want("shop a 1")
}

func TestOpenIsAsStrictAsLoad(t *testing.T) {
	t.Parallel()
	w := &watched{t: t, dir: t.TempDir()}
	w.write("a.yaml", quota("shop", "a", 1))
	w.write("b.yaml", "domain: edge\nfoo: 1\n")
	w.write("c.yaml", broken)
	w.write("d.yaml", quota("shop", "a", 2))
	err := w.open(".", "nowhere")
	_, loadErr := file.Load(w.dir, w.path("nowhere"))
	if err == nil || loadErr == nil || err.Error() != loadErr.Error() || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("Open says\n%v\nLoad says\n%v", err, loadErr)
	}
	if _, err := os.Stat(w.path("state")); err != nil {
		t.Error(err)
	}
	if _, ok := errors.AsType[policy.Faults](err); !ok {
		t.Errorf("the error is %T", err)
	}
	if _, _, err := file.Open(file.Options{}, w.now); err == nil {
		t.Error("no paths are no error")
	}
}
