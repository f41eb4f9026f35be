// Package e2e holds the end-to-end tests: a real Envoy asks real rlsd
// processes, with a real Redis behind them where there are several.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait for something that is expected to happen soon.
const patience = 20 * time.Second

// scratch is where what all tests share is kept.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "rlsd-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	scratch = dir
	return m.Run()
}

// root returns the directory of the module.
var root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod here or above")
		}
		dir = parent
	}
})

// rlsdBinary builds rlsd on the first call and returns its path.
var rlsdBinary = sync.OnceValues(func() (string, error) {
	dir, err := root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "rlsd")
	build := exec.Command("go", "build", "-o", path, "./cmd/rlsd")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/rlsd: %w\n%s", err, out)
	}
	return path, nil
})

// tool returns the path of a program that tools/install gets. Without it the
// test is skipped, or fails if CI is set.
func tool(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	if path, err := exec.LookPath(filepath.Join(dir, ".bin", name)); err == nil {
		return path
	}
	missing := fmt.Sprintf("%s is neither on the PATH nor in .bin: run tools/install %s", name, name)
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// eventually waits until the condition holds, that is, returns nil.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still not after %v: %v", patience, err)
		}
	}
}
