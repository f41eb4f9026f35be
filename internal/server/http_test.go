package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestProbesFollowThePhase(t *testing.T) {
	for _, test := range []struct {
		phase phase
		path  string
		code  int
		body  string
	}{
		{starting, "/healthz", 200, "alive\n"},
		{starting, "/readyz", 503, "starting: not serving yet\n"},
		{starting, "/healthcheck", 500, "starting: not serving yet\n"},
		{ready, "/healthz", 200, "alive\n"},
		{ready, "/readyz", 200, "ready\n"},
		{ready, "/healthcheck", 200, "OK"},
		{draining, "/healthz", 200, "alive\n"},
		{draining, "/readyz", 503, "draining: still answering, about to stop\n"},
		{draining, "/healthcheck", 500, "draining: still answering, about to stop\n"},
		{ready, "/", 404, "404 page not found\n"},
	} {
		w := httptest.NewRecorder()
		probeHandler(func() phase { return test.phase }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, test.path, nil))
		if w.Code != test.code || w.Body.String() != test.body {
			t.Errorf("%s while %v: %d %q, want %d %q", test.path, test.phase, w.Code, w.Body, test.code, test.body)
		}
	}
}

func TestOnlyReadingIsAllowed(t *testing.T) {
	admin := adminHandler([]Page{{Path: "/metrics", Handler: http.NotFoundHandler()}})
	probes := probeHandler(func() phase { return ready })
	for path, handler := range map[string]http.Handler{"/readyz": probes, "/healthz": probes, "/healthcheck": probes, "/metrics": admin, "/": admin} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("x")))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d, Allow: %s", path, w.Code, w.Header().Get("Allow"))
		}
	}
}

func TestTheIndexListsThePages(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, "numbers") })
	h := start(t, &testService{}, func(o *Options) {
		o.Pages = []Page{{Path: "/metrics", About: "for Prometheus", Handler: page}, {Path: "/policies", About: "the limits in force", Handler: page}}
	})
	admin := "http://" + h.Addrs().Admin
	want := "/metrics   for Prometheus\n/policies  the limits in force\n"
	if code, body := h.request(http.MethodGet, admin+"/"); code != http.StatusOK || body != want {
		t.Errorf("%d %q, want %q", code, body, want)
	}
	if code, body := h.request(http.MethodGet, admin+"/metrics"); code != http.StatusOK || body != "numbers" {
		t.Errorf("%d %q", code, body)
	}
	if code, _ := h.request(http.MethodGet, admin+"/nothing"); code != http.StatusNotFound {
		t.Errorf("an unknown path: %d", code)
	}
	if code, body := h.request(http.MethodHead, "http://"+h.Addrs().HTTP+"/readyz"); code != http.StatusOK || body != "" {
		t.Errorf("HEAD: %d %q", code, body)
	}
}
