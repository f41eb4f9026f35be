package main

import (
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
	"time"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/store/memory"
)

type explain struct {
	Descriptors []descriptor `arg:"" name:"descriptor" help:"What the request is: key=value[,key=value...] for each descriptor, as for decide."`

	Addr   string   `placeholder:"HOST:PORT" help:"Ask the rlsd whose admin port this is; or unix:PATH. Default: ${admin_addr}."`
	Config []string `placeholder:"PATH" help:"Explain these rule files or directories of them instead, with buckets that nobody has touched. May be repeated."`

	Domain string `required:"" placeholder:"NAME" help:"The domain whose rules apply."`
	Cost   uint64 `default:"1" help:"How many units the request would take of each limit; 0 would only ask."`
	Output string `enum:"text,json" default:"text" help:"How to print: text, or json with one object."`
}

const adminAddr = "127.0.0.1:6070"

// Help is printed below the flags.
func (explain) Help() string {
	return `It tells which rule the entries of each descriptor lead to and what was passed over on the way, the key of the bucket, how each limit stands, and what would be answered. Nothing is taken, and nothing is counted in the metrics.

Examples:

    rlsd explain --domain shop plan=premium,user=bob
    rlsd explain --addr 10.0.0.7:6070 --domain shop --cost 20 api_key=k1 path=/pay
    rlsd explain --config rules/ --domain shop 'name=Doe\, Jane'
    rlsd explain --config rules/ --domain shop --output json api_key=k1

The exit code is 0 if it could be explained, whatever the answer would be, 1 if not, and 2 if the command line was wrong.`
}

// Bounds of one question.
const (
	maxExplained        = 20
	maxExplainedEntries = 64
)

// Validate refuses flags that make no sense.
func (c *explain) Validate() error {
	if c.Addr != "" && len(c.Config) > 0 {
		return errors.New("want one of --addr and --config: a server to ask, or rules to explain")
	}
	if c.Addr == "" {
		c.Addr = adminAddr
	}
	if _, _, err := net.SplitHostPort(c.Addr); err != nil && !strings.HasPrefix(c.Addr, "unix:") {
		return fmt.Errorf("--addr %q: want HOST:PORT or unix:PATH", c.Addr)
	}
	return checkDescriptors(c.Descriptors)
}

func checkDescriptors(descriptors []descriptor) error {
	if len(descriptors) > maxExplained {
		return fmt.Errorf("%d descriptors: the most is %d", len(descriptors), maxExplained)
	}
	for _, d := range descriptors {
		if len(d.entries) > maxExplainedEntries {
			return fmt.Errorf("descriptor %.64q: has %d entries, the most is %d", d.text, len(d.entries), maxExplainedEntries)
		}
	}
	return nil
}

// Run explains and prints.
func (c *explain) Run(ctx context.Context, to streams) error {
	page, err := c.page(ctx)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writeJSON(to.out, page)
	}
	_, err = io.WriteString(to.out, page.text(len(c.Config) > 0))
	return err
}

func (c *explain) page(ctx context.Context) (*explainPage, error) {
	if len(c.Config) == 0 {
		return c.askServer(ctx)
	}
	snapshot, err := file.Load(c.Config...)
	if err != nil {
		return nil, err
	}
	current := func() *policy.Snapshot { return snapshot }
	l := limiter.New(memory.New(memory.Options{}), memoryStore, current, unobserved{})
	return explainBy(ctx, l, time.Now(), c.Domain, c.Cost, c.Descriptors), nil
}

const (
	explainTimeout = 5 * time.Second
	maxExplainPage = 16 << 20 // bytes
)

func (c *explain) askServer(ctx context.Context) (*explainPage, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	query := url.Values{"domain": {c.Domain}, "cost": {strconv.FormatUint(c.Cost, 10)}}
	for _, d := range c.Descriptors {
		query.Add("descriptor", d.text)
	}
	server := admin{Addr: c.Addr}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.host()+"/explain?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("--addr %q: want HOST:PORT or unix:PATH", c.Addr)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: server.dial}}
	response, err := client.Do(request)
	if err != nil {
		return nil, c.noAnswer(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxExplainPage))
	if err != nil {
		return nil, c.noAnswer(err)
	}
	page := new(explainPage)
	switch {
	case response.StatusCode == http.StatusBadRequest:
		return nil, fmt.Errorf("ask %s: %s", c.Addr, visible(strings.TrimSpace(string(body))))
	case response.StatusCode == http.StatusRequestHeaderFieldsTooLarge:
		return nil, fmt.Errorf("ask %s: the descriptors are too long for one question: ask about fewer at once", c.Addr)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask %s: %s; is that the admin port of an rlsd that can explain? check --addr", c.Addr, visible(response.Status))
	case json.Unmarshal(body, page) != nil:
		return nil, fmt.Errorf("ask %s: the answer is not one of rlsd: check --addr", c.Addr)
	}
	return page, nil
}

// noAnswer says why there was none, and what to do.
func (c *explain) noAnswer(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the whole URL
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("ask %s: no answer within %v; check that --addr is the admin port of rlsd", c.Addr, explainTimeout)
	}
	return fmt.Errorf("ask %s: %w; check that rlsd is up and --addr is its admin port, or explain its rule files with --config", c.Addr, err)
}

// explainHandler explains what the query asks for.
func explainHandler(l *limiter.Limiter, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		domain, cost, descriptors, err := readQuestion(r.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = writeJSON(w, explainBy(r.Context(), l, now(), domain, cost, descriptors)) // the client is gone
	})
}

func readQuestion(query string) (domain string, cost uint64, descriptors []descriptor, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", 0, nil, fmt.Errorf("query: %w; want ?domain=NAME&descriptor=key=value", err)
	}
	cost = 1
	if text := values.Get("cost"); text != "" {
		if cost, err = strconv.ParseUint(text, 10, 64); err != nil {
			return "", 0, nil, fmt.Errorf("cost %.64q: want a whole number, 0 or more", text)
		}
	}
	for _, text := range values["descriptor"] {
		var d descriptor
		if err := d.UnmarshalText([]byte(text)); err != nil {
			return "", 0, nil, err
		}
		descriptors = append(descriptors, d)
	}
	if domain = values.Get("domain"); domain == "" || len(descriptors) == 0 {
		return "", 0, nil, errors.New("want ?domain=NAME&descriptor=key=value,key=value with one descriptor or more")
	}
	return domain, cost, descriptors, checkDescriptors(descriptors)
}
