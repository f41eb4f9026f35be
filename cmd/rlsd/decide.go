package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

type decide struct {
	Descriptors []descriptor `arg:"" name:"descriptor" help:"What the request is: key=value[,key=value...] for each descriptor."`

	Addr   string   `placeholder:"HOST:PORT" help:"Ask the rlsd that answers gRPC here; or unix:PATH."`
	Config []string `placeholder:"PATH" help:"Decide here, by these rule files or directories of them, with buckets that nobody has touched. May be repeated."`

	Domain string `required:"" placeholder:"NAME" help:"The domain whose rules apply."`
	Cost   uint64 `default:"1" help:"How many units to take of each limit; 0 only asks."`

	At     *instant      `placeholder:"TIME" help:"With --config: what time it is, as in 2026-11-30T12:00:00Z. Default: now."`
	Repeat int           `default:"1" help:"With --config: how often to ask, as a table with a line for each limit."`
	Every  time.Duration `default:"0s" help:"With --repeat: how much later each time is than the one before."`

	Timeout time.Duration `placeholder:"1s" help:"With --addr: how long to wait for the answer. Default: 1s."`
	Output  string        `enum:"text,json" default:"text" help:"How to print: text, or json with an object on one line for each decision."`
}

// Help is printed below the flags.
func (decide) Help() string {
	return `A descriptor lists entries from the general to the particular. Only the first = of an entry ends its key; key and key= both have the empty value. A backslash before a comma, a = or a backslash makes it a part of the key or the value.

Examples:

    rlsd decide --addr 127.0.0.1:8081 --domain shop api_key=k1
    rlsd decide --addr 127.0.0.1:8081 --domain shop --cost 0 plan=premium,user=bob path=/pay
    rlsd decide --config rules/ --domain shop 'name=Doe\, Jane'
    rlsd decide --config rules/ --domain shop --repeat 20 --every 50ms api_key=k1
    rlsd decide --config rules/ --domain shop --output json --at 2026-02-28T23:59:59Z api_key=k1

The exit code is 0 if the request was allowed, 3 if it was denied (the last one, with --repeat), 1 if there was no answer, and 2 if the command line was wrong.`
}

// An instant is a time that rlsd can reckon with.
type instant time.Time

// latest is where they end: at 2^53 microseconds.
var latest = time.UnixMicro(1 << 53)

// UnmarshalText reads a time as RFC 3339 has it.
func (t *instant) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil || at.Before(time.Unix(0, 0)) || !at.Before(latest) {
		return fmt.Errorf("%q: want a time from 1970 to 2255, as in 2026-11-30T12:00:00Z", text)
	}
	*t = instant(at)
	return nil
}

// mostRepeats bounds a table, which is kept until it is whole.
const mostRepeats = 100_000

// Validate refuses flags that make no sense.
func (c *decide) Validate() error {
	switch {
	case (c.Addr == "") == (len(c.Config) == 0):
		return errors.New("want one of --addr and --config: a server to ask, or rules to decide by")
	case c.Addr != "":
		return c.validateServer()
	default:
		return c.validateLocal()
	}
}

func (c *decide) validateServer() error {
	_, _, err := net.SplitHostPort(c.Addr)
	switch {
	case err != nil && !strings.HasPrefix(c.Addr, "unix:"):
		return fmt.Errorf("--addr %q: want HOST:PORT or unix:PATH", c.Addr)
	case c.At != nil || c.Repeat != 1 || c.Every != 0:
		return errors.New("--at, --repeat and --every go with --config, not with --addr")
	case c.Timeout < 0:
		return fmt.Errorf("--timeout %v: want more than 0", c.Timeout)
	}
	return nil
}

func (c *decide) validateLocal() error {
	switch {
	case c.Timeout != 0:
		return errors.New("--timeout goes with --addr, not with --config")
	case c.Repeat < 1 || c.Repeat > mostRepeats:
		return fmt.Errorf("--repeat %d: want 1 to %d", c.Repeat, mostRepeats)
	case c.Every < 0:
		return fmt.Errorf("--every %v: want 0 or more", c.Every)
	case c.Every == 0:
		return nil
	case c.Repeat == 1:
		return errors.New("--every goes with --repeat")
	case c.Every > latest.Sub(c.start())/time.Duration(c.Repeat-1):
		return fmt.Errorf("--repeat %d --every %v: would go beyond the year 2255", c.Repeat, c.Every)
	}
	return nil
}

// start is the time of the first decision.
func (c *decide) start() time.Time {
	if c.At != nil {
		return time.Time(*c.At)
	}
	return time.Now()
}
