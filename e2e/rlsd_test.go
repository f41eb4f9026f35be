package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	rlsdv1 "github.com/rlsd/rlsd/gen/rlsd/v1"
)

// httpClient is for probes and pages.
var httpClient = &http.Client{Timeout: patience}

// get returns the page at a URL.
func get(url string) (string, error) {
	response, err := httpClient.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return string(body), err
}

// A daemon is an rlsd that serves testdata/rules.yaml.
type daemon struct {
	*process
	grpc, http, admin string // addresses
}

// startRlsd starts an rlsd on free ports and waits until it is ready.
func startRlsd(t *testing.T, name string, args ...string) *daemon {
	t.Helper()
	path, err := rlsdBinary()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(args, "--config") {
		args = append([]string{"--config", "testdata/rules.yaml"}, args...)
	}
	d := &daemon{process: start(t, name, path, append([]string{
		"serve",
		"--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0",
		"--log-format", "json", "--drain-delay", "0s",
		"--store-timeout", "4s", // less than Envoy's; as to that, see there
	}, args...)...)}
	d.awaitReady(t, d.findAddresses)
	d.awaitReady(t, func() error {
		_, err := get("http://" + d.http + "/readyz")
		return err
	})
	return d
}

// findAddresses reads in the log where it listens.
func (d *daemon) findAddresses() error {
	file, err := os.Open(d.log)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var record struct{ Msg, GRPC, HTTP, Admin string }
		if json.Unmarshal(lines.Bytes(), &record) == nil && record.Msg == "serving" {
			d.grpc, d.http, d.admin = record.GRPC, record.HTTP, record.Admin
			return nil
		}
	}
	return errors.New("it does not say where it serves")
}

func (d *daemon) port(t *testing.T) int {
	t.Helper()
	_, text, err := net.SplitHostPort(d.grpc)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// peek asks, without taking anything, what the only limit of a descriptor has
// left. The descriptor is written as key=value pairs.
func (d *daemon) peek(t *testing.T, domain string, pairs ...string) *rlsdv1.LimitResult {
	t.Helper()
	conn, err := grpc.NewClient(d.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	descriptor := new(rlsdv1.Descriptor)
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		descriptor.Entries = append(descriptor.Entries, &rlsdv1.Entry{Key: key, Value: value})
	}
	response, err := rlsdv1.NewDecisionServiceClient(conn).Decide(t.Context(), &rlsdv1.DecideRequest{
		Domain: domain, Descriptors: []*rlsdv1.Descriptor{descriptor}, Cost: new(uint64),
	}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	limits := response.GetResults()[0].GetLimits()
	if len(limits) != 1 {
		t.Fatalf("%s %v has %d limits, want 1", domain, pairs, len(limits))
	}
	return limits[0]
}

// decisions returns how often the daemon decided by a limit of domain edge,
// whatever came of it.
func (d *daemon) decisions(t *testing.T, limit string) int {
	t.Helper()
	page, err := get("http://" + d.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, fmt.Sprintf("rlsd_decisions_total{domain=%q,limit=%q,", "edge", limit)) {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:len(line)-1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += int(n)
	}
	return sum
}
