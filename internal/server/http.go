package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// newHTTP makes an HTTP server that no slow or chatty client can tie up.
func newHTTP(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
}

func serveHTTP(name string, s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", name, err)
	}
	return nil
}

// probeHandler answers probes: /healthz whether the process lives, /readyz
// whether it wants traffic, and /healthcheck the latter in the words of
// Envoy's reference service.
func probeHandler(current func() phase) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, "alive\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		code, p := http.StatusOK, current()
		if p != ready {
			code = http.StatusServiceUnavailable
		}
		respond(w, code, p.String()+"\n")
	})
	mux.HandleFunc("GET /healthcheck", func(w http.ResponseWriter, _ *http.Request) {
		if p := current(); p != ready {
			respond(w, http.StatusInternalServerError, p.String()+"\n")
			return
		}
		respond(w, http.StatusOK, "OK")
	})
	return mux
}

// routes adds the routes to those of the probes.
func (s *Server) routes(mux *http.ServeMux) http.Handler {
	for _, r := range s.options.Routes {
		mux.Handle(r.Pattern, s.route(r.Handler))
	}
	return mux
}

// route keeps a panic of the handler to the one request, and asks clients to
// connect elsewhere while the server drains.
func (s *Server) route(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				_ = s.options.recovered(r.Context(), p)
				respond(w, http.StatusInternalServerError, "internal error\n")
			}
		}()
		if s.currentPhase() == draining {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// adminHandler serves the pages, and at / what there is to see.
func adminHandler(pages []Page) http.Handler {
	mux := http.NewServeMux()
	var index strings.Builder
	for _, p := range pages {
		pattern := "GET " + p.Path
		if p.AnyMethod {
			pattern = p.Path
		}
		mux.Handle(pattern, p.Handler)
		fmt.Fprintf(&index, "%-10s %s\n", p.Path, p.About)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, index.String())
	})
	return mux
}

func respond(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}
