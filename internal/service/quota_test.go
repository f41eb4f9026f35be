package service_test

import (
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
)

// TestQuotaAndMetadata plays two buckets, 1 a minute and 2 an hour, until both are
// empty: it is known which one was taken from, and a retry waits for the first
// to have room again.
func TestQuotaAndMetadata(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	for _, want := range []struct {
		code       rls.RateLimitResponse_Code
		a, b       rls.RateLimitResponse_Code
		retryAfter string
		metadata   map[string]any
	}{
		{
			rls.RateLimitResponse_OK, rls.RateLimitResponse_OK, rls.RateLimitResponse_OK, "",
			map[string]any{"bucket": "a", "tree": map[string]any{"n": 1.5}, "more": []any{true, nil}},
		},
		{
			rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT, rls.RateLimitResponse_OK, "",
			map[string]any{"bucket": "b", "more": []any{true, nil}},
		},
		{rls.RateLimitResponse_OVER_LIMIT, rls.RateLimitResponse_OVER_LIMIT, rls.RateLimitResponse_OVER_LIMIT, "42", nil},
	} {
		resp := should(t, conn, ask("bucket", "a"), ask("bucket", "b"))
		statuses := resp.GetStatuses()
		if resp.GetOverallCode() != want.code || statuses[0].GetCode() != want.a || statuses[1].GetCode() != want.b {
			t.Errorf("got %v", resp)
		}
		retryAfter := ""
		for _, h := range resp.GetResponseHeadersToAdd() {
			if h.GetKey() == "retry-after" {
				retryAfter = h.GetValue()
			}
		}
		if retryAfter != want.retryAfter {
			t.Errorf("retry after %q, want %q", retryAfter, want.retryAfter)
		}
		var got map[string]any
		if m := resp.GetDynamicMetadata().GetFields()["metadata"]; m != nil {
			got = m.GetStructValue().AsMap()
		}
		if diff := cmp.Diff(want.metadata, got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestAStrictLimitDeniesWhateverQuotasAreLeft holds that a quota that is over
// beside one that is not neither denies nor makes anybody wait.
func TestAStrictLimitDeniesWhateverQuotasAreLeft(t *testing.T) {
	t.Parallel()
	conn := inMemory(t)
	should(t, conn, ask("bucket", "a"), ask("user", "bob"), ask("user", "bob"), ask("user", "bob"))
	resp := should(t, conn, ask("bucket", "a"), ask("bucket", "b"), ask("user", "bob"))
	ours := resp.GetDynamicMetadata().GetFields()["rlsd"].GetStructValue().GetFields()
	if by := ours["denied_by"].GetStringValue(); by != "per-user" {
		t.Errorf("denied by %s", by)
	}
	if n := len(ours["limits"].GetListValue().GetValues()); n != 2 {
		t.Errorf("%d limits are over, want 2", n)
	}
	if domain := should(t, conn, ask("free", "")).GetDynamicMetadata().GetFields()["domain"]; domain != nil {
		t.Errorf("the domain of no metadata: %v", domain)
	}
}
