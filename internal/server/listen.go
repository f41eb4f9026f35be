package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

const unixPrefix = "unix:"

// A ListenError says which listener could not be opened and why.
type ListenError struct {
	Name string // grpc, http or admin
	Addr string
	Err  error
}

// Error says it in one line.
func (e *ListenError) Error() string {
	return fmt.Sprintf("listen %s %s: %v%s", e.Name, e.Addr, e.Err, e.hint())
}

// Unwrap returns the reason.
func (e *ListenError) Unwrap() error { return e.Err }

func (e *ListenError) hint() string {
	isUnix := strings.HasPrefix(e.Addr, unixPrefix)
	switch {
	case errors.Is(e.Err, syscall.EADDRINUSE) && isUnix && !isSocket(strings.TrimPrefix(e.Addr, unixPrefix)):
		return ": there is a file that is no socket"
	case errors.Is(e.Err, syscall.EADDRINUSE) && isUnix:
		return ": another process listens there"
	case errors.Is(e.Err, syscall.EADDRINUSE):
		return ": another process holds the port"
	case errors.Is(e.Err, syscall.EADDRNOTAVAIL):
		return ": this host has no such address"
	case errors.Is(e.Err, syscall.EACCES) && !isUnix:
		return ": the port is reserved for privileged processes"
	}
	return ""
}

type listeners struct{ grpc, http, admin net.Listener }

// listenAll opens all listeners or none.
func listenAll(ctx context.Context, addrs Addrs) (ls listeners, err error) {
	for _, want := range []struct {
		name, addr string
		into       *net.Listener
	}{
		{"grpc", addrs.GRPC, &ls.grpc},
		{"http", addrs.HTTP, &ls.http},
		{"admin", addrs.Admin, &ls.admin},
	} {
		if *want.into, err = listen(ctx, want.addr); err != nil {
			ls.close()
			return listeners{}, &ListenError{want.name, want.addr, reason(err)}
		}
	}
	return ls, nil
}

// close closes those that are open.
func (ls listeners) close() {
	for _, l := range []net.Listener{ls.grpc, ls.http, ls.admin} {
		if l != nil {
			_ = l.Close()
		}
	}
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	path, isUnix := strings.CutPrefix(addr, unixPrefix)
	if !isUnix {
		return config.Listen(ctx, "tcp", addr)
	}
	l, err := config.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && isStale(ctx, path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		return config.Listen(ctx, "unix", path)
	}
	return l, err
}

// isStale reports whether path is a socket that a process left behind when it
// died: nobody answers there.
func isStale(ctx context.Context, path string) bool {
	if !isSocket(path) {
		return false
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// reason strips from a listen error what a [ListenError] says itself.
func reason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		return call.Err
	}
	if addr, ok := errors.AsType[*net.AddrError](err); ok {
		return errors.New(addr.Err)
	}
	return err
}
