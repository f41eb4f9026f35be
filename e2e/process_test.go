package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A process is a program that runs until the test ends, and what it has said.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string        // the file that its output goes to
	done chan struct{} // closed when it has ended
	err  error         // how it ended; for after done
}

// start starts a program. When the test ends it is told to stop, which it has
// to do with exit code 0; if the test failed, its log is shown.
func start(t *testing.T, name, path string, args ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(t.TempDir(), name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.terminate()
		if err := p.wait(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, tail(p.log))
		}
	})
	return p
}

// terminate sends SIGTERM.
func (p *process) terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// wait waits for the end, which it brings about by force if it does not come,
// and tells of any but a good one.
func (p *process) wait() error {
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s had to be killed", p.name)
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return nil
}

// died tells if the process has ended.
func (p *process) died() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail returns the end of a log.
func tail(path string) string {
	const most = 16 << 10
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}

// awaitReady waits until the probe succeeds; if the process dies first, it
// never will.
func (p *process) awaitReady(t *testing.T, probe func() error) {
	t.Helper()
	eventually(t, func() error {
		if p.died() {
			t.Fatalf("%s ended before it was ready: %v", p.name, p.err)
		}
		return probe()
	})
}
