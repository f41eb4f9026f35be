package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rlsd/rlsd/client"
)

// errDenied says that the last request was denied, which has been printed.
var errDenied = errors.New("denied")

// Run decides and prints the answers.
func (c *decide) Run(ctx context.Context, to streams) error {
	out := c.printer(to.out)
	if c.Addr != "" {
		verdict, err := c.askServer(ctx)
		if err != nil {
			return c.explain(err)
		}
		c.mention(to, verdict)
		return conclude(verdict, errors.Join(out.print(time.Time{}, verdict), out.flush()))
	}
	now := c.start()
	conn, err := openLocal(c.Config, func() time.Time { return now })
	if err != nil {
		return err
	}
	var verdict *client.Verdict
	for i := range c.Repeat {
		if verdict, err = client.New(conn).Decide(ctx, c.request()); err != nil {
			return errors.New(status.Convert(err).Message())
		}
		if i == 0 {
			c.mention(to, verdict)
		}
		if err := out.print(now, verdict); err != nil {
			return err
		}
		now = now.Add(c.Every)
	}
	return conclude(verdict, out.flush())
}

func conclude(last *client.Verdict, err error) error {
	if err == nil && !last.Allowed {
		return errDenied
	}
	return err
}

func (c *decide) request() client.Request {
	r := client.Request{Domain: c.Domain, Cost: &c.Cost}
	for _, d := range c.Descriptors {
		r.Descriptors = append(r.Descriptors, client.Descriptor{Entries: d.entries})
	}
	return r
}

func (c *decide) askServer(ctx context.Context) (*client.Verdict, error) {
	conn, err := grpc.NewClient(c.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	return client.New(conn).Decide(ctx, c.request())
}

// patience is how long to wait for a server.
func (c *decide) patience() time.Duration {
	if c.Timeout == 0 {
		return time.Second
	}
	return c.Timeout
}

// explain says why a server gave no answer, and what to do.
func (c *decide) explain(err error) error {
	s := status.Convert(err)
	why := s.Message()
	// gRPC quotes what went wrong below it, in several layers.
	if _, inner, ok := strings.Cut(why, `desc = "`); ok {
		why = strings.TrimPrefix(strings.TrimSuffix(inner, `"`), "transport: Error while dialing: ")
	}
	hint := ""
	switch s.Code() {
	case codes.DeadlineExceeded:
		why = "no answer within " + c.patience().String()
		hint = "; check --addr, or give it longer with --timeout"
	case codes.Unavailable:
		hint = "; check --addr, and that rlsd and its store are up"
	case codes.Unimplemented:
		hint = "; is that the gRPC port of rlsd? check --addr"
	default:
	}
	return fmt.Errorf("ask %s: %s%s", c.Addr, why, hint)
}

// mention says which descriptors nothing is known of: that is an answer, but
// seldom what was meant.
func (c *decide) mention(to streams, v *client.Verdict) {
	for i, r := range v.Results {
		if r.Rule == "" {
			complain(to.err, fmt.Errorf("no rule of the domain %q matches %#q, so nothing limits it: check --domain and the descriptor",
				c.Domain, c.Descriptors[i].text))
		}
	}
}
