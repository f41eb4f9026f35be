package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// headersOf asks about one use of an API key and returns the names of what
// Envoy is to add.
func (d *daemon) headersOf(key string) (names, body string) {
	d.t.Helper()
	answer, err := rls.NewRateLimitServiceClient(d.dial()).ShouldRateLimit(d.t.Context(), &rls.RateLimitRequest{
		Domain:      "shop",
		Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "api_key", Value: key}}}},
		HitsAddend:  2,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	var all []string
	for _, h := range answer.GetResponseHeadersToAdd() {
		all = append(all, h.GetKey())
	}
	return strings.Join(all, " "), string(answer.GetRawBody())
}

func TestServeTellsClientsWhatTheFlagsSay(t *testing.T) {
	for _, test := range []struct{ args, allowed, denied string }{
		{"", "ratelimit-policy ratelimit", "retry-after ratelimit-policy ratelimit"},
		{"--response-headers none", "", "retry-after"},
		{
			"--response-headers reference,x-ratelimit --denied-body problem+json",
			"x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset ratelimit-limit ratelimit-remaining ratelimit-reset",
			"retry-after x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset ratelimit-limit ratelimit-remaining ratelimit-reset content-type",
		},
	} {
		d, stop := serveHere(t, append([]string{"--config", write(t, goodPolicy)}, strings.Fields(test.args)...)...)
		for _, want := range []string{test.allowed, test.denied} {
			got, body := d.headersOf("k1")
			if got != want {
				t.Errorf("%s: got %s, want %s", test.args, got, want)
			}
			if has := body != ""; has != strings.HasSuffix(want, "content-type") {
				t.Errorf("%s: body %s", test.args, body)
			}
		}
		stop()
	}
}

func TestServeAnswersJSON(t *testing.T) {
	d, stop := serveHere(t, "--config", write(t, goodPolicy))
	defer stop()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for _, want := range []int{200, 200, 429} {
		response, err := client.Post("http://"+d.http+"/json", "application/json", strings.NewReader(
			`{"domain":"shop","descriptors":[{"entries":[{"key":"api_key","value":"k1"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != want || response.Header.Get("RateLimit") == "" || (response.Header.Get("Retry-After") != "") != (want == 429) {
			t.Errorf("%s %v %s, want %d", response.Status, response.Header, body, want)
		}
	}
	if code, body := d.get("http://" + d.http + "/json"); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d %s", code, body)
	}
	if code, _ := d.get("http://" + d.http + "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
}
