// Package mutants asks of the tests of the algorithms whether they would
// notice: it plants one fault at a time in the Go and Lua sources, as
// testdata/mutants.txt says, and wants a test to fail each time.
package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	algoPackage  = "algo"
	redisPackage = "store/redis"
)

// The tests that a mutant has to pass to survive, in the order in which they are
// run: the swift ones first.
var (
	algoStages  = []stage{{"-test.run=^Test"}}
	twinsStages = []stage{{"-test.run=^TestTwins"}}
	redisStages = []stage{
		{"-test.run=^Test(Twins|Acceptance|Expiry|Foreign|P)", "-test.skip=^TestAcceptance$/^algorithms$"},
		{"-test.run=^Test(Acceptance$/^algorithms$|Log)"},
	}
)

type stage []string

// TestMutants plants mutants of the table, two at a time. It takes minutes and a
// redis-server, and runs only if RLSD_MUTANTS is set: to 1 for every mutant, to 7
// for every seventh, or to all for those too that are said to be equivalent,
// which must then survive.
func TestMutants(t *testing.T) {
	mode := os.Getenv("RLSD_MUTANTS")
	if mode == "" {
		t.Skip("RLSD_MUTANTS is not set: run make mutants")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is not on the PATH: run tools/install redis")
		}
		t.Skip("redis-server is not on the PATH: run tools/install redis")
	}
	l := newLab(t)
	mutants := readTable(t)
	if mode != "all" {
		mutants = every(t, mode, mutants)
	}
	var killed, equivalent int
	var survivors []string
	l.each(mutants, func(m mutant) {
		killer, err := l.kill(m)
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case err != nil:
			t.Errorf("line %d, %v: %v", m.line, m, err)
		case m.equivalent != "" && killer != "":
			t.Errorf("line %d, %v: is said to be equivalent, but %s kills it", m.line, m, killer)
		case m.equivalent != "":
			equivalent++
			l.say("equivalent  %v (%s)", m, m.equivalent)
		case killer == "":
			survivors = append(survivors, fmt.Sprintf("line %d, %v", m.line, m))
			l.say("SURVIVED    %v", m)
		default:
			killed++
			l.say("killed      %v  by %s", m, killer)
		}
	})
	for _, s := range survivors {
		t.Errorf("no test notices %s", s)
	}
	l.say("%d mutants killed, %d survived, %d equivalent: %.1f %%", killed, len(survivors), equivalent,
		100*float64(killed)/float64(max(1, killed+len(survivors))))
}

// A lab plants mutants.
type lab struct {
	t      *testing.T
	dir    string
	hooked string // the tests of package redis, which take Lua sources from a directory

	mu sync.Mutex
}

// newLab returns a lab after it has seen that without a mutant no test fails.
func newLab(t *testing.T) *lab {
	l := &lab{t: t, dir: t.TempDir()}
	l.hooked = filepath.Join(l.dir, "hooked.test")
	healthy := filepath.Join(l.dir, "healthy.test")
	for _, err := range []error{
		l.build(l.hooked, redisPackage, map[string]string{
			"algo/hook.go":        filepath.Join("testdata", "hook_algo.go"),
			"store/redis/hook.go": filepath.Join("testdata", "hook_redis.go"),
		}),
		l.build(healthy, algoPackage, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []struct {
		test, pkg string
		stages    []stage
	}{{l.hooked, redisPackage, redisStages}, {healthy, algoPackage, algoStages}} {
		if killer, err := l.run(s.test, s.pkg, "", s.stages); err != nil || killer != "" {
			t.Fatalf("without any mutant %s fails %v", killer, err)
		}
	}
	return l
}

// every returns every n-th of the mutants that are not equivalent.
func every(t *testing.T, n string, mutants []mutant) []mutant {
	step, err := strconv.Atoi(n)
	if err != nil || step < 1 {
		t.Fatalf("RLSD_MUTANTS=%s: want a number or all", n)
	}
	var out []mutant
	for _, m := range mutants {
		if m.equivalent != "" {
			continue
		}
		if step--; step == 0 {
			step, _ = strconv.Atoi(n)
			out = append(out, m)
		}
	}
	return out
}

func (l *lab) say(format string, args ...any) { fmt.Fprintf(l.t.Output(), format+"\n", args...) }

// each calls do for all mutants, for two at a time.
func (l *lab) each(mutants []mutant, do func(mutant)) {
	queue := make(chan mutant)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for m := range queue {
				do(m)
			}
		})
	}
	for _, m := range mutants {
		queue <- m
	}
	close(queue)
	workers.Wait()
}

// kill plants a mutant and returns the first test that fails, if one does.
func (l *lab) kill(m mutant) (killer string, err error) {
	text, err := m.text()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(l.dir, fmt.Sprint("line", m.line))
	planted := filepath.Join(dir, filepath.Base(m.file))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(planted, []byte(text), 0o644); err != nil {
		return "", err
	}
	if filepath.Ext(m.file) == ".lua" {
		return l.run(l.hooked, redisPackage, dir, redisStages)
	}
	over := map[string]string{m.file: planted}
	if strings.HasPrefix(m.file, redisPackage) {
		return l.buildAndRun(dir, redisPackage, over, redisStages)
	}
	if killer, err = l.buildAndRun(dir, algoPackage, over, algoStages); killer != "" || err != nil {
		return killer, err
	}
	// It decides as it should. Does it remember what its twin does?
	return l.buildAndRun(dir, redisPackage, over, twinsStages)
}

func (l *lab) buildAndRun(dir, pkg string, over map[string]string, stages []stage) (killer string, err error) {
	test := filepath.Join(dir, "mutant.test")
	if err := l.build(test, pkg, over); err != nil {
		return "", err
	}
	return l.run(test, pkg, "", stages)
}

// build compiles the tests of a package with other files in place of some, all
// named from internal/ on.
func (l *lab) build(test, pkg string, over map[string]string) error {
	replace := map[string]string{}
	for file, by := range over {
		file, by := absolute(filepath.Join("..", "..", file)), absolute(by)
		replace[file] = by
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(test+".json", overlay, 0o644); err != nil {
		return err
	}
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", test+".json", "-o", test, "./"+pkg)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	return nil
}

func absolute(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return path
}

// run runs the tests stage by stage and returns the first that fails.
func (l *lab) run(test, pkg, mutant string, stages []stage) (killer string, err error) {
	for _, s := range stages {
		cmd := exec.Command(test, slices.Concat(s, stage{"-test.failfast", "-test.timeout=60s"})...)
		cmd.Dir = filepath.Join("..", "..", pkg)
		cmd.Env = append(os.Environ(), "RLSD_MUTANT="+mutant, "RLSD_STEPS=", "GOMAXPROCS=1")
		out, err := cmd.CombinedOutput()
		switch {
		case bytesSay(out, "no tests to run"):
			return "", fmt.Errorf("no tests to run by %v", s)
		case bytesSay(out, "Error compiling script") || bytesSay(out, "nonexistent global variable"):
			return "", fmt.Errorf("is no Lua:\n%s", out) // and so no mutant
		}
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			return firstFailure(string(out)), nil
		} else if err != nil {
			return "", err
		}
	}
	return "", nil
}

func bytesSay(out []byte, what string) bool { return strings.Contains(string(out), what) }

var failure = regexp.MustCompile(`(?m)^( *)--- FAIL: (\S+)`)

// firstFailure returns the name of the first test that failed, a subtest rather
// than what it is part of.
func firstFailure(out string) string {
	name, depth := "a crash", -1
	for _, f := range failure.FindAllStringSubmatch(out, -1) {
		if len(f[1]) <= depth {
			break
		}
		name, depth = f[2], len(f[1])
	}
	switch {
	case strings.Contains(out, "panic: test timed out"):
		return name + ", which does not end"
	case strings.Contains(out, "panic: "):
		return name + ", which panics"
	}
	return name
}
