package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/rlsd/rlsd/internal/limiter"
)

// A switchesPage is what /switches answers, whatever the method.
type switchesPage struct {
	Switches []switchLine `json:"switches"`
}

// A switchTarget is what a switch is set on.
type switchTarget struct {
	Everywhere bool       `json:"everywhere,omitempty"`
	Domain     targetName `json:"domain,omitempty"`
	Limit      targetName `json:"limit,omitempty"`
}

// A targetName is the name of a domain or a limit. One that is there but empty,
// as a script's unset variable makes it, is refused: without it the target would
// be wider than the one that was meant.
type targetName string

var errEmptyName = errors.New("an empty name of a domain or a limit: leave it out or name one")

// UnmarshalText reads it off a command line or a query.
func (n *targetName) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errEmptyName
	}
	*n = targetName(text)
	return nil
}

// UnmarshalJSON refuses null as well, which is a name that was lost.
func (n *targetName) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	return n.UnmarshalText([]byte(text))
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
	return limiter.Target{Domain: string(t.Domain), Limit: string(t.Limit)}, nil
}

func targetLine(t limiter.Target) switchTarget {
	return switchTarget{Everywhere: t == limiter.Target{}, Domain: targetName(t.Domain), Limit: targetName(t.Limit)}
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
		t, err := queriedTarget(r.URL.RawQuery)
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

// queriedTarget reads the query of a DELETE. It refuses what it does not
// understand, for the rest may name a wider target than was meant.
func queriedTarget(query string) (limiter.Target, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return limiter.Target{}, fmt.Errorf("the query: %w", err)
	}
	var t switchTarget
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name][0]
		switch {
		case len(values[name]) > 1:
			err = errors.New("it is there more than once")
		case name == "domain":
			err = t.Domain.UnmarshalText([]byte(value))
		case name == "limit":
			err = t.Limit.UnmarshalText([]byte(value))
		case name != "everywhere":
			err = errors.New("want domain, limit or everywhere")
		case value != "true":
			err = errors.New("want true")
		default:
			t.Everywhere = true
		}
		if err != nil {
			return limiter.Target{}, fmt.Errorf("the query's parameter %q: %w", name, err)
		}
	}
	return t.target()
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
