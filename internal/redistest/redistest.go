// Package redistest gives tests a Redis of their own: a real redis-server on a
// free loopback port that stops with the test.
package redistest

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Server is a redis-server process without persistence.
type Server struct {
	Port   int
	cmd    *exec.Cmd
	under  []string // the command that runs redis-server, if another does
	counts string   // where callgrind puts what it has counted
}

// Start starts a server. Without a redis-server on the PATH it skips the test,
// or fails it if CI is set.
func Start(tb testing.TB) *Server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatal("redis-server is not on the PATH: run tools/install redis")
		}
		tb.Skip("redis-server is not on the PATH: run tools/install redis")
	}
	s := &Server{Port: FreePort(tb)}
	s.Restart(tb)
	tb.Cleanup(s.Kill)
	return s
}

// StartCounting starts a server, many times slower, whose instructions valgrind
// counts.
func StartCounting(tb testing.TB) *Server {
	tb.Helper()
	counts := filepath.Join(tb.TempDir(), "callgrind")
	s := &Server{
		Port:   FreePort(tb),
		counts: counts,
		under:  []string{"valgrind", "--tool=callgrind", "--callgrind-out-file=" + counts},
	}
	s.Restart(tb)
	tb.Cleanup(s.Kill)
	return s
}

// Instructions returns how many instructions a counting server has spent since
// it was asked last.
func (s *Server) Instructions(tb testing.TB) int64 {
	tb.Helper()
	if out, err := exec.Command("callgrind_control", "--dump", strconv.Itoa(s.cmd.Process.Pid)).CombinedOutput(); err != nil {
		tb.Fatalf("callgrind_control: %v\n%s", err, out)
	}
	dumps, err := filepath.Glob(s.counts + ".*")
	if err != nil || len(dumps) == 0 {
		tb.Fatalf("no counts in %s: %v", s.counts, err)
	}
	last := slices.MaxFunc(dumps, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	text, err := os.ReadFile(last)
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\ntotals: ")
	total, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// URL is where the server listens.
func (s *Server) URL() string { return fmt.Sprintf("redis://%s/0", s.Addr()) }

// Addr is the server's host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Restart starts the server again, empty, on the port it had.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	command := append(slices.Clip(s.under), "redis-server", "--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", tb.TempDir(), "--loglevel", "warning")
	s.cmd = exec.Command(command[0], command[1:]...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	for range 500 {
		if c, err := net.Dial("tcp", s.Addr()); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	tb.Fatalf("redis-server does not listen on %s", s.Addr())
}

// Kill ends the server at once.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Freeze stops the server where it is: its connections stay open and silent.
func (s *Server) Freeze() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// FreePort returns a loopback port that nothing listens on.
func FreePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// CPU returns the CPU time that the server has used.
func (s *Server) CPU(tb testing.TB) time.Duration {
	tb.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		tb.Fatal(err)
	}
	// The name in parentheses may hold anything; utime and stime are the 12th
	// and 13th field after it, in hundredths of a second.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
