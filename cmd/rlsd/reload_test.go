package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/telemetry"
)

// rewrite puts another text into a file.
func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// asks asks n times about an API key and returns the answers.
func (d *daemon) asks(key string, n int) string {
	d.t.Helper()
	var codes []string
	for range n {
		codes = append(codes, d.ask(key).String())
	}
	return strings.Join(codes, " ")
}

// policies returns what /policies shows.
func (d *daemon) policies() policiesPage {
	d.t.Helper()
	var page policiesPage
	_, body := d.get("http://" + d.admin + "/policies")
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		d.t.Fatalf("%v: %s", err, body)
	}
	return page
}

func (d *daemon) wantMetrics(want ...string) {
	d.t.Helper()
	_, metrics := d.get("http://" + d.admin + "/metrics")
	for _, line := range want {
		if !strings.Contains(metrics, "\n"+line) {
			d.t.Errorf("/metrics lacks %s", line)
		}
	}
}

const hourly = `domain: shop
descriptors:
  - key: api_key
    rate_limit: {name: per-key, unit: year, requests_per_unit: %d}
`

func TestAChangedFileTakesEffectAndKeepsTheCounts(t *testing.T) {
	path := write(t, fmt.Sprintf(hourly, 2))
	d, stop := serveHere(t, "--config", filepath.Dir(path))
	if got := d.asks("k1", 3); got != "OK OK OVER_LIMIT" {
		t.Fatalf("before: %s", got)
	}
	d.wantMetrics("rlsd_config_version 1\n", "rlsd_config_last_reload_successful 1\n", `rlsd_config_reloads_total{result="success"} 0`, "rlsd_config_files 1\n")

	rewrite(t, path, fmt.Sprintf(hourly, 3)+"# longer\n")
	r := d.await("rules reloaded")
	if r["cause"] != "files changed" || fmt.Sprint(r["changed"]) != "[shop]" || r["level"] != "INFO" {
		t.Errorf("the log says %v", r)
	}
	if got := d.asks("k1", 2); got != "OK OVER_LIMIT" {
		t.Errorf("after: %s", got)
	}
	page := d.policies()
	if page.Version != 2 || page.Hash != r["hash"] || page.Hash == d.serving["hash"] || page.Changed.IsZero() ||
		len(page.Files) != 1 || page.Files[0] != path || len(page.Stale) > 0 || page.LastError != nil || page.Limits[0].Quota != 3 {
		t.Errorf("/policies shows %+v", page)
	}
	d.wantMetrics("rlsd_config_version 2\n", `rlsd_config_reloads_total{result="success"} 1`,
		fmt.Sprintf(`rlsd_policy_info{hash="%s"} 1`, page.Hash), "rlsd_config_last_reload_timestamp_seconds 1.")
	if code := stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

func TestAFaultKeepsTheDomainAsItWas(t *testing.T) {
	path := write(t, fmt.Sprintf(hourly, 2))
	other := filepath.Join(filepath.Dir(path), "other.yaml")
	d, stop := serveHere(t, "--config", filepath.Dir(path))
	defer stop()
	rewrite(t, path, badPolicy)
	if r := d.await("rules reloaded"); r["level"] != "WARN" || r["stale"] != 1.0 || r["faults"] != 2.0 {
		t.Errorf("the log says %v", r)
	}
	for _, line := range []string{":4:", ":6:"} {
		if r := d.await("the rules have a fault"); r["level"] != "ERROR" || !strings.Contains(fmt.Sprint(r["fault"]), path+line) {
			t.Errorf("the log says %v", r)
		}
	}
	if r := d.await("a domain stands on its last good rules"); r["domain"] != "shop" {
		t.Errorf("the log says %v", r)
	}
	if got := d.asks("k1", 3); got != "OK OK OVER_LIMIT" {
		t.Errorf("got %s", got)
	}
	page := d.policies()
	if page.Version != 1 || page.Hash != d.serving["hash"] || len(page.Stale) != 1 || page.Stale[0].Domain != "shop" ||
		page.LastError == nil || page.LastError.Mended || len(page.LastError.Faults) != 2 || page.LastError.Time.IsZero() {
		t.Errorf("/policies shows %+v", page)
	}
	d.wantMetrics("rlsd_config_stale_domains 1\n", "rlsd_config_last_reload_successful 0\n",
		`rlsd_config_reloads_total{result="failure"} 1`, "rlsd_config_last_error_timestamp_seconds 1.")

	rewrite(t, other, "domain: edge\n")
	if r := d.await("rules reloaded"); fmt.Sprint(r["added"]) != "[edge]" || r["faults"] != 2.0 {
		t.Errorf("the log says %v", r)
	}
	rewrite(t, path, fmt.Sprintf(hourly, 2))
	if r := d.await(""); r["msg"] != "rules reloaded" || r["faults"] != 0.0 {
		t.Errorf("the log says %v: every fault once, none again", r)
	}
	d.await("a domain no longer stands on its last good rules")
	if page := d.policies(); page.LastError == nil || !page.LastError.Mended || len(page.Stale) > 0 {
		t.Errorf("/policies shows %+v", page)
	}
}

func TestSIGHUPReloadsAndEndsNothing(t *testing.T) {
	path := write(t, fmt.Sprintf(hourly, 2))
	d, cmd := child(t, "--config", path)
	for quota := 3; quota < 6; quota++ {
		rewrite(t, path, fmt.Sprintf(hourly, quota))
		d.send(cmd, syscall.SIGHUP)
		for d.await("rules reloaded")["cause"] != "SIGHUP" {
		}
		if got := d.policies().Limits[0].Quota; got != int64(quota) {
			t.Errorf("quota %d, want %d", got, quota)
		}
	}
	d.send(cmd, syscall.SIGTERM)
	d.await("stopped")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAFaultyStartFallsBackToTheStateDirectory(t *testing.T) {
	path := write(t, fmt.Sprintf(hourly, 2))
	args := []string{"--config", path, "--state-dir", filepath.Join(t.TempDir(), "new", "state")}
	_, stop := serveHere(t, args...)
	stop()
	rewrite(t, path, badPolicy)
	if code, _, stderr := rlsd(t, loopback("--config", path)...); code != exitFault || strings.Count(stderr, "\n") != 2 {
		t.Errorf("without a state: %d %s", code, stderr)
	}

	ended, end := context.WithCancel(t.Context())
	end()
	var log strings.Builder
	if code := run(ended, loopback(args...), io.Discard, &log); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{`"level":"ERROR","msg":"the rules have a fault","fault":"` + path + ":4:", path + ":6:", `"level":"WARN","msg":"a domain stands on its last good rules`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log of the start lacks %s:\n%s", want, log.String())
		}
	}

	d, stop := serveHere(t, args...)
	if got := d.asks("k1", 3); got != "OK OK OVER_LIMIT" {
		t.Errorf("got %s", got)
	}
	if page := d.policies(); len(page.Stale) != 1 || page.LastError == nil || len(page.LastError.Faults) != 2 {
		t.Errorf("/policies shows %+v", page)
	}
	d.wantMetrics("rlsd_config_stale_domains 1\n", "rlsd_config_last_reload_successful 0\n")
	if code := stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
}

func TestAStateThatCannotBeSavedIsLoggedOnceAndTriedAgain(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	now := time.Unix(1000, 0)
	watcher, report, err := file.Open(file.Options{Paths: []string{write(t, goodPolicy)}, StateDir: state}, now)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	c := newConfiguration(t.Context(), watcher, report, telemetry.New(telemetry.Options{}), logger)
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		now = now.Add(stateRetry)
		c.save(t.Context(), now)
	}
	if got := strings.Count(log.String(), "cannot be kept"); got != 1 {
		t.Errorf("logged %d times:\n%s", got, log.String())
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	c.save(t.Context(), now)
	if files, _ := os.ReadDir(state); len(files) != 0 {
		t.Error("it tries again at once")
	}
	c.save(t.Context(), now.Add(stateRetry))
	if files, _ := os.ReadDir(state); len(files) != 1 {
		t.Error("it does not try again")
	}
}
