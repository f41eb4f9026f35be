package e2e

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestReflection asks as someone would who has no proto files.
func TestReflection(t *testing.T) {
	t.Parallel()
	path := tool(t, "grpcurl")
	d := startRlsd(t, "rlsd", "--store", "memory")
	grpcurl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), path, append([]string{"-plaintext", d.grpc}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("grpcurl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	services := strings.Fields(grpcurl("list"))
	for _, want := range []string{
		"envoy.service.ratelimit.v3.RateLimitService",
		"rlsd.v1.DecisionService",
		"grpc.health.v1.Health",
	} {
		if !slices.Contains(services, want) {
			t.Errorf("list lacks %s: %q", want, services)
		}
	}
	described := grpcurl("describe", "rlsd.v1.DecideRequest")
	for _, want := range []string{
		"// DecideRequest describes one request of a caller.",
		"// The domain whose rules apply,",
		"optional uint64 cost = 3;",
	} {
		if !strings.Contains(described, want) {
			t.Errorf("describe lacks %q:\n%s", want, described)
		}
	}
}
