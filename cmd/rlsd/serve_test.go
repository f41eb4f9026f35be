package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// ask asks about one use of an API key.
func (d *daemon) ask(key string) rls.RateLimitResponse_Code {
	d.t.Helper()
	answer, err := rls.NewRateLimitServiceClient(d.dial()).ShouldRateLimit(d.t.Context(), &rls.RateLimitRequest{
		Domain: "shop",
		Descriptors: []*common.RateLimitDescriptor{
			{Entries: []*common.RateLimitDescriptor_Entry{{Key: "api_key", Value: key}}},
		},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return answer.GetOverallCode()
}

func TestServeDecides(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	if got := fmt.Sprintf("%v %v %v", d.serving["store"], d.serving["domains"], d.serving["limits"]); got != "memory 1 2" {
		t.Errorf("the log says %v", d.serving)
	}
	var got []string
	for range 3 {
		got = append(got, d.ask("k1").String())
	}
	if want := "OK OK OVER_LIMIT"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if code, body := d.get("http://" + d.http + "/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
	_, metrics := d.get("http://" + d.admin + "/metrics")
	for _, want := range []string{
		`rlsd_decisions_total{domain="shop",limit="per-key",outcome="allowed"} 2`,
		`rlsd_decisions_total{domain="shop",limit="per-key",outcome="denied"} 1`,
		`rlsd_limits 2`, `rlsd_buckets 1`, `rlsd_panics_total 0`, `rlsd_build_info{go="go1.`,
		`grpc_server_handled_total{grpc_code="OK",grpc_method="ShouldRateLimit",grpc_service="envoy.service.ratelimit.v3.RateLimitService",grpc_type="unary"} 3`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

func TestServeShowsItsPolicies(t *testing.T) {
	path := write(t, goodPolicy)
	d, stop := serveHere(t, "--config", path)
	defer stop()
	_, body := d.get("http://" + d.admin + "/policies")
	var got policiesPage
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if got.Hash != d.serving["hash"] || len(got.Limits) != 2 {
		t.Fatalf("got %s", body)
	}
	if want := (limitLine{Domain: "shop", Limit: "per-key", Algorithm: "fixed_window", Quota: 2, Window: "year", Overdraft: "auto", Percent: 100, InForce: "enforced", File: path, Line: 4}); got.Limits[0] != want {
		t.Errorf("got %+v, want %+v", got.Limits[0], want)
	}
	if l := got.Limits[1]; l.Window != "month" || !l.Shadow || l.Percent != 0 || l.InForce != "shadow" {
		t.Errorf("got %+v", l)
	}
}

func TestServeStartsWithoutItsRedis(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, goodPolicy), "--redis-url", "redis://user:secret@127.0.0.1:1/0")
	if got := fmt.Sprint(d.serving["store"]); got != "redis://user:xxxxx@127.0.0.1:1/0" {
		t.Errorf("the log names the store %s", got)
	}
	if r := d.await("the store does not answer"); r["level"] != "WARN" || strings.Contains(fmt.Sprint(r), "secret") {
		t.Errorf("the log says %v", r)
	}
	if code, body := d.get("http://" + d.http + "/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code := stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

func TestAStartThatCannotWorkSaysWhyInOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	config, addr := write(t, goodPolicy), taken.Addr().String()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"taken port": {
			loopback("--config", config, "--grpc-addr", addr),
			"rlsd: listen grpc " + addr + ": address already in use: another process holds the port; choose another with --grpc-addr\n",
		},
		"taken admin port": {
			loopback("--config", config, "--admin-addr", addr),
			"rlsd: listen admin " + addr + ": address already in use: another process holds the port; choose another with --admin-addr\n",
		},
		"missing configuration": {loopback("--config", "nowhere.yaml"), "nowhere.yaml"},
		"bad URL of Redis":      {loopback("--config", config, "--redis-url", "http://secret@a"), "redis URL: "},
	} {
		code, stdout, stderr := rlsd(t, test.args...)
		if code != exitFault || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "secret") {
			t.Errorf("%s: %d %q %q, want %q", name, code, stdout, stderr, test.want)
		}
	}
}

func TestGOGCOverrulesTheCollectorsTarget(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "50") // which only a program that starts would heed
	relaxGC()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("with GOGC: set to %d", got)
	}
	if err := os.Unsetenv("GOGC"); err != nil {
		t.Fatal(err)
	}
	relaxGC()
	if got := debug.SetGCPercent(100); got != 400 {
		t.Errorf("without GOGC: %d, want 400", got)
	}
}

// Envoy cannot read a compressed response, and grpc answers a compressed
// request with one if it can.
func TestNothingThatCompressesIsLinkedIn(t *testing.T) {
	for _, name := range []string{"gzip", "zstd", "snappy", "deflate"} {
		if encoding.GetCompressor(name) != nil {
			t.Errorf("%s is registered with grpc", name)
		}
	}
}

// child runs serve in a process of its own and follows its log.
func child(t *testing.T, args ...string) (*daemon, *exec.Cmd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], loopback(args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return follow(t, log), cmd
}

// send sends the signal to the daemon.
func (d *daemon) send(cmd *exec.Cmd, s os.Signal) {
	d.t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

func TestASignalEndsItWith0ThoughAWatchIsOpen(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		d, cmd := child(t, "--config", write(t, goodPolicy), "--shutdown-timeout", "1h")
		watch, err := healthpb.NewHealthClient(d.dial()).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := watch.Recv(); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Fatalf("the watch begins with %v, %v", r, err)
		}
		d.send(cmd, s)
		d.await("stopped")
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

func TestASecondSignalEndsItAtOnceWith1(t *testing.T) {
	d, cmd := child(t, "--config", write(t, goodPolicy), "--drain-delay", "1h")
	d.send(cmd, syscall.SIGTERM)
	d.await("draining")
	d.send(cmd, syscall.SIGTERM)
	var last string
	for d.log.Scan() {
		last = d.log.Text()
	}
	if want := "rlsd: stopped at once: calls under way were cut off"; last != want {
		t.Errorf("it says %q, want %q", last, want)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFault {
		t.Errorf("exit code %d, want %d", code, exitFault)
	}
}
