package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"github.com/rlsd/rlsd/internal/limiter"
)

// A switchesPage is what /switches answers, whatever the method.
type switchesPage struct {
	Switches []switchLine `json:"switches"`
}

// A switchTarget is what a switch is set on.
type switchTarget struct {
	Everywhere bool   `json:"everywhere,omitempty"`
	Domain     string `json:"domain,omitempty"`
	Limit      string `json:"limit,omitempty"`
}

type switchLine struct {
	Mode string `json:"mode"` // shadow or off
	switchTarget

	Since time.Time  `json:"since"`
	Until *time.Time `json:"until,omitempty"`
	By    string     `json:"by"`
	Idle  bool       `json:"idle,omitempty"` // the rules have no such domain or limit any more
}

// A switchRequest is what PUT /switches takes.
type switchRequest struct {
	Mode string `json:"mode"`
	switchTarget

	For string `json:"for,omitempty"` // a duration; until it is cleared if empty
}

// A refusal is what the admin port answers to what it does not do.
type refusal struct {
	Error string `json:"error"`
}

// target refuses what may be a target half written: a PUT that lost its domain
// must not put everything into shadow.
func (t switchTarget) target() (limiter.Target, error) {
	switch {
	case t.Everywhere && (t.Domain != "" || t.Limit != ""):
		return limiter.Target{}, errors.New("everywhere does not go with a domain or a limit: drop one of them")
	case !t.Everywhere && t.Domain == "":
		return limiter.Target{}, errors.New("want a domain, a domain and a limit, or everywhere")
	}
	return limiter.Target{Domain: t.Domain, Limit: t.Limit}, nil
}

func targetLine(t limiter.Target) switchTarget {
	return switchTarget{Everywhere: t == limiter.Target{}, Domain: t.Domain, Limit: t.Limit}
}

func switchLines(switches *limiter.Switches) []switchLine {
	lines := []switchLine{}
	for _, s := range switches.List() {
		line := switchLine{Mode: s.Mode.String(), switchTarget: targetLine(s.Target), Since: s.Since, By: s.By, Idle: switches.Idle(s.Target)}
		if !s.Until.IsZero() {
			line.Until = &s.Until
		}
		lines = append(lines, line)
	}
	return lines
}

// switchesHandler lists the switches on GET, sets one on PUT and clears one on
// DELETE.
func switchesHandler(switches *limiter.Switches, logger *slog.Logger) http.Handler {
	list := func(w http.ResponseWriter) {
		respondJSON(w, http.StatusOK, switchesPage{switchLines(switches)})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /switches", func(w http.ResponseWriter, _ *http.Request) { list(w) })
	mux.HandleFunc("PUT /switches", func(w http.ResponseWriter, r *http.Request) {
		s, err := readSwitch(w, r)
		if err == nil {
			err = switches.Set(s)
		}
		if err != nil {
			respondJSON(w, http.StatusBadRequest, refusal{err.Error()})
			return
		}
		logSwitch(r.Context(), logger, "switch set", s, r.RemoteAddr)
		list(w)
	})
	mux.HandleFunc("DELETE /switches", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		t, err := switchTarget{q.Get("everywhere") == "true", q.Get("domain"), q.Get("limit")}.target()
		if err != nil {
			respondJSON(w, http.StatusBadRequest, refusal{err.Error()})
			return
		}
		s, ok := switches.Clear(t)
		if !ok {
			respondJSON(w, http.StatusNotFound, refusal{fmt.Sprintf("no switch is set on %v", t)})
			return
		}
		logSwitch(r.Context(), logger, "switch cleared", s, r.RemoteAddr)
		list(w)
	})
	return refuseBrowsers(mux)
}

// refuseBrowsers keeps pages that an operator has open from changing anything,
// also those that made the port's name their own: browsers say where such a
// request comes from, and nobody else does.
func refuseBrowsers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead &&
			(r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "") {
			respondJSON(w, http.StatusForbidden, refusal{"a browser cannot change switches: use rlsd admin or curl"})
			return
		}
		h.ServeHTTP(w, r)
	})
}

// maxSwitch is the longest body of PUT /switches, in bytes.
const maxSwitch = 4096

func readSwitch(w http.ResponseWriter, r *http.Request) (limiter.Switch, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return limiter.Switch{}, errors.New("want the header Content-Type: application/json")
	}
	var req switchRequest
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSwitch))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&req); err != nil {
		return limiter.Switch{}, fmt.Errorf("the body: %w; want it like %s", err, `{"mode": "shadow", "domain": "shop", "for": "30m"}`)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return limiter.Switch{}, errors.New("the body: more than one JSON object")
	}
	target, err := req.target()
	if err != nil {
		return limiter.Switch{}, err
	}
	s := limiter.Switch{Target: target, Since: time.Now().UTC(), By: r.RemoteAddr}
	switch req.Mode {
	case limiter.Shadowed.String():
		s.Mode = limiter.Shadowed
	case limiter.Off.String():
		s.Mode = limiter.Off
	default:
		return limiter.Switch{}, fmt.Errorf("mode %q: want shadow or off", req.Mode)
	}
	if req.For != "" {
		d, err := time.ParseDuration(req.For)
		if err != nil || d < time.Second {
			return limiter.Switch{}, fmt.Errorf("for %q: want a duration such as 30m or 12h, at least 1s", req.For)
		}
		s.Until = s.Since.Add(d)
	}
	return s, nil
}

// watchSwitches ends switches whose time is up, within a second.
func watchSwitches(ctx context.Context, switches *limiter.Switches, logger *slog.Logger) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, s := range switches.Expire(now) {
				logSwitch(ctx, logger, "switch expired", s, s.By)
			}
		}
	}
}

// logSwitch logs a change at a level that is seldom left out of logs.
func logSwitch(ctx context.Context, logger *slog.Logger, what string, s limiter.Switch, by string) {
	attrs := []slog.Attr{slog.String("mode", s.Mode.String()), slog.String("on", s.Target.String()), slog.String("by", by)}
	if !s.Until.IsZero() {
		attrs = append(attrs, slog.Time("until", s.Until))
	}
	logger.LogAttrs(ctx, slog.LevelWarn, what, attrs...)
}

func respondJSON(w http.ResponseWriter, code int, page any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(page) // the client is gone
}
