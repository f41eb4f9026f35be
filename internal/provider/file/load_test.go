package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rlsd/rlsd/internal/provider/file"
)

// rule returns a rule file with one limit.
func rule(domain, key string) string {
	return "domain: " + domain + "\ndescriptors:\n- {key: " + key + ", rate_limit: {unit: second, requests_per_unit: 1}}\n"
}

func TestLoad(t *testing.T) {
	t.Parallel()
	configMap := func(t *testing.T, dir string) {
		t.Helper()
		write(t, dir, "..2026_01_01/rules.yaml", rule("shop", "a"))
		link(t, "..2026_01_01", filepath.Join(dir, "..data"))
		link(t, "..data/rules.yaml", filepath.Join(dir, "rules.yaml"))
	}
	tests := []struct {
		name    string
		files   map[string]string
		prepare func(t *testing.T, dir string)
		load    []string // within the directory
		want    string   // limits, or faults with DIR for the directory
	}{
		{
			name:  "a directory, not what is below it",
			files: map[string]string{"a.yaml": rule("shop", "a"), "b.yml": rule("shop", "b"), "sub/c.yaml": rule("shop", "c")},
			load:  []string{"."},
			want:  "shop a, shop b",
		},
		{
			name: "only rule files of a directory",
			files: map[string]string{
				"a.yaml": rule("shop", "a"), "README.txt": "}{", ".hidden.yaml": "}{", "..data/x.yaml": "}{", "b.yaml.bak": "}{",
				"sub.yaml/c.yaml": "}{", "yaml": "}{",
			},
			load: []string{"."},
			want: "shop a",
		},
		{name: "a mounted ConfigMap", prepare: configMap, load: []string{"."}, want: "shop a"},
		{
			name:  "a named file, whatever its name",
			files: map[string]string{".rules": rule("shop", "a")},
			load:  []string{".rules"},
			want:  "shop a",
		},
		{
			name:  "several paths, one of them twice",
			files: map[string]string{"one/a.yaml": rule("shop", "a"), "two/a.yaml": rule("edge", "b")},
			load:  []string{"one", "two/a.yaml", "one/../one/a.yaml"},
			want:  "edge b, shop a",
		},
		{
			name:  "a domain over several files",
			files: map[string]string{"a.yaml": rule("shop", "a"), "b.yaml": rule("shop", "b")},
			load:  []string{"b.yaml", "a.yaml"},
			want:  "shop a, shop b",
		},
		{
			name:  "all faults of all files",
			files: map[string]string{"a.yaml": "domain: x\nfoo: 1\n", "b.yaml": "domain: [\n", "c.yaml": rule("x", "'*'"), "d.yaml": ""},
			load:  []string{"c.yaml", ".", "nowhere"},
			want: `DIR/a.yaml:2:1: foo: unknown key "foo", known here: domain, descriptors
DIR/b.yaml:1:9: sequence end token ']' not found
DIR/c.yaml:3:9: descriptors[0].key: a * in a key has no meaning: wildcards belong in value
DIR/d.yaml: no document in this file: give it a domain or take it away
DIR/nowhere: no such file or directory`,
		},
		{
			name:  "a conflict between files",
			files: map[string]string{"a.yaml": rule("x", "k"), "b.yaml": rule("x", "k")},
			load:  []string{"."},
			want: "DIR/b.yaml:3:3: descriptors[0]: conflicts with the descriptor at DIR/a.yaml:3:3, " +
				"which has the same key and value: keep the limit of one of them",
		},
		{
			name:  "a directory without rule files",
			files: map[string]string{"empty/README.md": ""},
			load:  []string{"empty"},
			want:  "DIR/empty: no rule files (*.yaml or *.yml) in this directory",
		},
		{
			name:    "a link to nothing",
			prepare: func(t *testing.T, dir string) { t.Helper(); link(t, "gone", filepath.Join(dir, "a.yaml")) },
			load:    []string{"."},
			want:    "DIR/a.yaml: no such file or directory",
		},
		{
			name: "a pipe in a directory",
			prepare: func(t *testing.T, dir string) {
				t.Helper()
				if err := syscall.Mkfifo(filepath.Join(dir, "a.yaml"), 0o600); err != nil {
					t.Skip(err)
				}
			},
			load: []string{"."},
			want: "DIR/a.yaml: not a regular file",
		},
		{
			name:  "a file that is too large",
			files: map[string]string{"a.yaml": rule("x", "k") + strings.Repeat("#", 16<<20)},
			load:  []string{"."},
			want:  "DIR/a.yaml: larger than 16 MiB",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range test.files {
				write(t, dir, name, text)
			}
			if test.prepare != nil {
				test.prepare(t, dir)
			}
			var paths []string
			for _, name := range test.load {
				paths = append(paths, dir+"/"+name)
			}
			got := outcome(file.Load(paths...))
			got = strings.ReplaceAll(strings.ReplaceAll(got, dir+"/./", dir+"/"), dir, "DIR")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadNamesFilesAsGiven(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "rules/a.yaml", "domain: [\n")
	t.Chdir(dir)
	for path, want := range map[string]string{
		"rules":          "rules/a.yaml:1:9: ",
		"rules/a.yaml":   "rules/a.yaml:1:9: ",
		"./rules/a.yaml": "./rules/a.yaml:1:9: ",
	} {
		if got := outcome(file.Load(path)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestLoadNothing(t *testing.T) {
	t.Parallel()
	if snapshot, err := file.Load(); err == nil {
		t.Errorf("got %v", snapshot)
	}
}

func TestExamplesAreRight(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"../../../examples": "edge shop", "../../../examples/bench": "bench"} {
		snapshot, err := file.Load(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := strings.Join(snapshot.Domains(), " "); got != want {
			t.Errorf("%s has the domains %s, want %s", path, got, want)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}
