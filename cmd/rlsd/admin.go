package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

type admin struct {
	Addr   string `default:"127.0.0.1:6070" placeholder:"HOST:PORT" help:"The admin port of the rlsd to tell; or unix:PATH."`
	Output string `enum:"text,json" default:"text" help:"How to print: text or json."`

	Switches  adminList      `cmd:"" help:"List what is switched."`
	Shadow    adminShadow    `cmd:"" help:"Put a limit, a domain or everything into shadow: reported, never enforced."`
	Off       adminOff       `cmd:"" help:"Put a limit off: neither asked nor counted."`
	Clear     adminClear     `cmd:"" help:"Clear a switch, so that the rules are in force again."`
	Unmatched adminUnmatched `cmd:"" help:"List what was asked of late that no rule is for."`
}

// Help is printed below the list of commands.
func (admin) Help() string {
	return `Switches take effect at once, with the store down too. They live in the one process that is told: they outlast a reload of its rules, not its end, and no other instance knows of them. Of several on one limit, off goes before shadow.

Examples:

    rlsd admin switches
    rlsd admin shadow --everywhere --for 30m
    rlsd admin off --domain shop --limit per-key
    rlsd admin clear --domain shop --limit per-key
    rlsd admin unmatched --addr 10.0.0.7:6070 --output json

The exit code is 0 if it was done, 1 if not, and 2 if the command line was wrong.`
}

// Validate refuses an address that is none.
func (a *admin) Validate() error {
	if _, _, err := net.SplitHostPort(a.Addr); err != nil && !strings.HasPrefix(a.Addr, "unix:") {
		return fmt.Errorf("--addr %q: want HOST:PORT or unix:PATH", a.Addr)
	}
	return nil
}

type adminList struct{}

// Help is printed below the flags.
func (adminList) Help() string {
	return `A switch whose domain or limit has gone from the rules is idle: it has an effect again once that is back.

Examples:

    rlsd admin switches
    rlsd admin switches --output json | jq '.switches[].domain'`
}

// Run lists the switches.
func (adminList) Run(ctx context.Context, a *admin, to streams) error {
	return a.change(ctx, to, http.MethodGet, "", nil)
}

// A targetFlags names what to switch.
type targetFlags struct {
	Everywhere bool       `help:"Everything there is."`
	Domain     targetName `placeholder:"NAME" help:"One domain, or with --limit one limit of it."`
	Limit      targetName `placeholder:"NAME" help:"One limit, by its name in /policies."`
}

// Validate refuses a target that is none.
func (f targetFlags) Validate() error {
	switch {
	case f.Everywhere && (f.Domain != "" || f.Limit != ""):
		return errors.New("--everywhere does not go with --domain or --limit: drop one of them")
	case !f.Everywhere && f.Domain == "":
		return errors.New("want --domain, --domain and --limit, or --everywhere")
	}
	return nil
}

type adminShadow struct {
	targetFlags

	For time.Duration `placeholder:"30m" help:"Clear it after this time. Default: it stays until it is cleared."`
}

// Help is printed below the flags.
func (adminShadow) Help() string {
	return `Examples:

    rlsd admin shadow --everywhere --for 30m
    rlsd admin shadow --domain shop
    rlsd admin shadow --domain shop --limit plan=premium/user --for 12h`
}

// Run sets the switch.
func (c *adminShadow) Run(ctx context.Context, a *admin, to streams) error {
	return a.set(ctx, to, "shadow", switchTarget(c.targetFlags), c.For)
}

type adminOff struct {
	Domain targetName    `required:"" placeholder:"NAME" help:"The domain of the limit."`
	Limit  targetName    `required:"" placeholder:"NAME" help:"The limit, by its name in /policies."`
	For    time.Duration `placeholder:"30m" help:"Clear it after this time. Default: it stays until it is cleared."`
}

// Help is printed below the flags.
func (adminOff) Help() string {
	return `Examples:

    rlsd admin off --domain shop --limit per-key
    rlsd admin off --domain shop --limit per-key --for 1h`
}

// Run sets the switch.
func (c *adminOff) Run(ctx context.Context, a *admin, to streams) error {
	return a.set(ctx, to, "off", switchTarget{Domain: c.Domain, Limit: c.Limit}, c.For)
}

type adminClear struct{ targetFlags }

// Help is printed below the flags.
func (adminClear) Help() string {
	return `It clears the one switch that was set with the same flags: --everywhere leaves those of domains and limits as they are.

Examples:

    rlsd admin clear --everywhere
    rlsd admin clear --domain shop
    rlsd admin clear --domain shop --limit per-key`
}

// Run clears the switch.
func (c *adminClear) Run(ctx context.Context, a *admin, to streams) error {
	q := url.Values{}
	if c.Everywhere {
		q.Set("everywhere", "true")
	}
	if c.Domain != "" {
		q.Set("domain", string(c.Domain))
	}
	if c.Limit != "" {
		q.Set("limit", string(c.Limit))
	}
	return a.change(ctx, to, http.MethodDelete, "?"+q.Encode(), nil)
}

type adminUnmatched struct{}

// Help is printed below the flags.
func (adminUnmatched) Help() string {
	return `Of each second only the first requests are looked at, and the counts are of these; the last 128 distinct descriptors are kept. Values are cut to 32 bytes and then end in an ellipsis. Descriptors are printed as a shell hands them to rlsd decide and rlsd explain.

Examples:

    rlsd admin unmatched
    rlsd admin unmatched --output json | jq '.unmatched[] | select(.unknown_domain).domain'`
}

// Run lists what no rule is for.
func (adminUnmatched) Run(ctx context.Context, a *admin, to streams) error {
	var page unmatchedPage
	if err := a.ask(ctx, http.MethodGet, "/unmatched", nil, &page); err != nil {
		return err
	}
	if a.Output == "json" {
		return writeJSON(to.out, page)
	}
	return page.print(to.out)
}

func (a *admin) set(ctx context.Context, to streams, mode string, t switchTarget, d time.Duration) error {
	req := switchRequest{Mode: mode, switchTarget: t}
	if d != 0 {
		req.For = d.String()
	}
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	return a.change(ctx, to, http.MethodPut, "", body)
}

// change does something to /switches and prints what is then switched.
func (a *admin) change(ctx context.Context, to streams, method, query string, body []byte) error {
	var page switchesPage
	if err := a.ask(ctx, method, "/switches"+query, body, &page); err != nil {
		return err
	}
	if a.Output == "json" {
		return writeJSON(to.out, page)
	}
	return page.print(to.out)
}

func writeJSON(w io.Writer, page any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(page)
}

// adminTimeout bounds a call of the admin port, which waits for nothing.
const adminTimeout = 5 * time.Second

// ask calls the admin port and decodes its answer.
func (a *admin) ask(ctx context.Context, method, path string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+a.host()+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask %s: %w", a.Addr, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: a.dial}}
	response, err := client.Do(req)
	if err != nil {
		return a.explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	var refused refusal
	target := answer
	if response.StatusCode != http.StatusOK {
		target = &refused
	}
	if err := json.NewDecoder(response.Body).Decode(target); err != nil || response.StatusCode != http.StatusOK && refused.Error == "" {
		return fmt.Errorf("ask %s: %s answers %s without what rlsd would say; is that the admin port of rlsd? check --addr", a.Addr, path, visible(response.Status))
	}
	if refused.Error != "" {
		return errors.New(visible(refused.Error))
	}
	return nil
}

func (a *admin) host() string {
	if strings.HasPrefix(a.Addr, "unix:") {
		return "localhost"
	}
	return a.Addr
}

func (a *admin) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(a.Addr, "unix:"); ok {
		network, address = "unix", path
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// explain says why there was no answer, and what to do.
func (a *admin) explain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("ask %s: nothing listens there; is rlsd running? --addr names its admin port (--admin-addr of rlsd serve)", a.Addr)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("ask %s: no answer within %v; check --addr", a.Addr, adminTimeout)
	}
	return fmt.Errorf("ask %s: %w; check --addr", a.Addr, err)
}

func (p switchesPage) print(w io.Writer) error {
	if len(p.Switches) == 0 {
		_, err := fmt.Fprintln(w, "nothing is switched: the rules are in force")
		return err
	}
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row("MODE", "DOMAIN", "LIMIT", "SINCE", "UNTIL", "BY", "STATE")
	for _, s := range p.Switches {
		until, state := "cleared", "in force"
		if s.Until != nil {
			until = s.Until.Format(time.RFC3339)
		}
		if s.Idle {
			state = "idle: not in the rules"
		}
		t.row(s.Mode, orAny(string(s.Domain)), orAny(string(s.Limit)), s.Since.Format(time.RFC3339), until, s.By, state)
	}
	return t.flush()
}

func orAny(name string) string {
	if name == "" {
		return "any"
	}
	return name
}

func (p unmatchedPage) print(w io.Writer) error {
	if len(p.Unmatched) == 0 {
		_, err := fmt.Fprintln(w, "nothing of late: every descriptor led to a rule")
		return err
	}
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row("DOMAIN", "DESCRIPTOR", "WHY", "COUNT", "FIRST", "LAST")
	for _, u := range p.Unmatched {
		why := "no rule"
		if u.UnknownDomain {
			why = "no such domain"
		}
		t.row(shellQuoted(u.domain()), u.descriptor(), why, strconv.FormatInt(u.Count, 10), u.First.Format(time.RFC3339), u.Last.Format(time.RFC3339))
	}
	if p.Skipped > 0 {
		t.row(fmt.Sprintf("%d more were not looked at: of each second only %d are.", p.Skipped, p.SamplesPerSecond))
	}
	return t.flush()
}

// descriptor is the descriptor as rlsd decide would take it in a shell. One that
// holds what does not print has escapes that decide refuses.
func (u *unmatchedLine) descriptor() string {
	if len(u.Entries) == 0 && u.MoreEntries == 0 {
		return "(no entries)"
	}
	parts := make([]string, 0, len(u.Entries))
	for _, e := range u.Entries {
		parts = append(parts, asWord.Replace(e.Key)+"="+asWord.Replace(e.Value))
	}
	text := shellQuoted(strings.Join(parts, ","))
	if u.MoreEntries > 0 {
		text += fmt.Sprintf(" (and %d more)", u.MoreEntries)
	}
	return text
}

// domain is the name as --domain would take it, unless it has what does not print.
func (u *unmatchedLine) domain() string {
	if strings.Contains(strings.ReplaceAll(u.Domain, `\\`, ""), `\`) {
		return u.Domain
	}
	return strings.ReplaceAll(u.Domain, `\\`, `\`)
}

// asWord escapes what would end a key or a value. The page doubles backslashes
// already.
var asWord = strings.NewReplacer(",", `\,`, "=", `\=`)

// shellQuoted returns the text as one word of a shell, in quotes if need be, so
// that it shows where it ends as well.
func shellQuoted(text string) string {
	plain := func(r rune) bool {
		return r >= utf8.RuneSelf || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("=,._/:@%+-", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
