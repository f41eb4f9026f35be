package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// asProgram makes the test binary behave as rlsd itself.
const asProgram = "TEST_BINARY_IS_RLSD"

// patience bounds every wait of these tests.
const patience = 10 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "RLSD_") {
			_ = os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// rlsd runs a command line to its end.
func rlsd(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, err strings.Builder
	code = run(ctx, args, &out, &err)
	return code, out.String(), err.String()
}

// write puts a file with the text into a directory of its own.
func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const goodPolicy = `domain: shop
descriptors:
  - key: api_key
    rate_limit: {name: per-key, unit: year, requests_per_unit: 2}
  - key: path
    rate_limit: {unit: month, requests_per_unit: 1000, algorithm: fixed_window}
    shadow_mode: true
`

// badPolicy has a fault in line 4 and another in line 6.
const badPolicy = `domain: shop
descriptors:
  - key: api_key
    rate_limit: {name: per-key, unit: fortnight, requests_per_unit: 2}
  - key: path
    rate_limt: {unit: minute, requests_per_unit: 2}
`

// loopback makes serve listen on free ports and log what can be read back.
func loopback(args ...string) []string {
	return append([]string{
		"serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--drain-delay", "0s", "--log-format", "json",
	}, args...)
}

// A daemon is a serve that runs. Its log has been read up to "serving".
type daemon struct {
	t                 *testing.T
	log               *bufio.Scanner
	serving           map[string]any // that record
	grpc, http, admin string
}

// follow reads the log of a daemon until it serves.
func follow(t *testing.T, log io.Reader) *daemon {
	t.Helper()
	d := &daemon{t: t, log: bufio.NewScanner(log)}
	d.serving = d.await("serving")
	d.grpc, d.http, d.admin = fmt.Sprint(d.serving["grpc"]), fmt.Sprint(d.serving["http"]), fmt.Sprint(d.serving["admin"])
	return d
}

// await reads the log up to the record whose message begins so.
func (d *daemon) await(message string) map[string]any {
	d.t.Helper()
	var seen []string
	for d.log.Scan() {
		var record map[string]any
		seen = append(seen, d.log.Text())
		if json.Unmarshal(d.log.Bytes(), &record) == nil && strings.HasPrefix(fmt.Sprint(record["msg"]), message) {
			return record
		}
	}
	d.t.Fatalf("the log ends without %q:\n%s", message, strings.Join(seen, "\n"))
	return nil
}

// serveHere runs serve in this process until stop is called, which returns the
// exit code.
func serveHere(t *testing.T, args ...string) (d *daemon, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	log, stderr := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, loopback(args...), io.Discard, stderr)
		_ = stderr.Close()
	}()
	t.Cleanup(cancel)
	d = follow(t, log)
	return d, func() int {
		cancel()
		_, _ = io.Copy(io.Discard, log)
		return <-code
	}
}

func (d *daemon) dial() *grpc.ClientConn {
	d.t.Helper()
	conn, err := grpc.NewClient(d.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// get returns what a URL answers.
func (d *daemon) get(url string) (code int, body string) {
	d.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get(url)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return response.StatusCode, string(b)
}
