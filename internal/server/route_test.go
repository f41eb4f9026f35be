package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRoutes(t *testing.T) {
	h := start(t, &testService{}, func(o *Options) {
		o.Routes = []Route{
			{"POST /json", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				respond(w, http.StatusOK, "got "+string(body))
			})},
			{"POST /panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				panic("on purpose")
			})},
		}
	})
	base := "http://" + h.Addrs().HTTP
	if code, body := h.request(http.MethodPost, base+"/json"); code != http.StatusOK || body != "got " {
		t.Errorf("%d %q", code, body)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		if code, _ := h.request(method, base+"/json"); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, code)
		}
	}
	if code, _ := h.request(http.MethodPost, base+"/json/more"); code != http.StatusNotFound {
		t.Errorf("below it: %d", code)
	}
	if code, body := h.request(http.MethodPost, base+"/panic"); code != http.StatusInternalServerError || body != "internal error\n" {
		t.Errorf("a panic: %d %q", code, body)
	}
	if h.panics.Load() != 1 || !strings.Contains(h.logs.String(), "a call panicked") {
		t.Errorf("%d panics in the log:\n%s", h.panics.Load(), h.logs.String())
	}
}

func TestHeadersAreBounded(t *testing.T) {
	h := start(t, &testService{}, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.Addrs().HTTP+"/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("64 KB of headers: %s", response.Status)
	}
	time.Sleep(600 * time.Millisecond) // net/http lingers half a second after this answer, which is no leak
	if s := h.probes; s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 {
		t.Error("something may take for ever")
	}
}

// A route goes on while its server drains, tells its clients to connect
// elsewhere, and what is under way ends by itself.
func TestRoutesDrain(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := start(t, &testService{}, func(o *Options) {
		o.DrainDelay = 300 * time.Millisecond
		o.Routes = []Route{
			{"POST /slow", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(entered)
				<-leave
				respond(w, http.StatusOK, "done")
			})},
			{"POST /json", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, "") })},
		}
	})
	base := "http://" + h.Addrs().HTTP
	slow := make(chan string, 1)
	go func() {
		request, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/slow", http.NoBody)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			slow <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		slow <- string(body)
	}()
	<-entered
	h.drain()
	h.eventually("draining", func() bool { code, _ := h.get("/readyz"); return code == http.StatusServiceUnavailable })
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK || !response.Close {
		t.Errorf("while draining: %s, closes %t", response.Status, response.Close)
	}
	h.eventually("closed to new ones", func() bool {
		c, err := net.Dial("tcp", h.Addrs().HTTP)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	if !h.running() {
		t.Error("it did not wait for the request under way")
	}
	close(leave)
	if got := <-slow; got != "done" {
		t.Errorf("the request under way: %s", got)
	}
	if err := h.ended(); err != nil {
		t.Error(err)
	}
}
