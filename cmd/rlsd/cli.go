package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/rlsd/rlsd/internal/policy"
)

// Exit codes.
const (
	exitDone   = 0
	exitFault  = 1 // it could not be done, or it went wrong
	exitUsage  = 2 // the command line is not one
	exitDiffer = 2 // the answer of validate --diff
	exitDenied = 3 // the answer of decide
)

type commands struct {
	Serve    serve         `cmd:"" help:"Answer rate-limit requests until told to stop."`
	Decide   decide        `cmd:"" help:"Ask whether a request would be allowed, a server or rule files."`
	Explain  explain       `cmd:"" help:"Say why a request is allowed or denied: which rule it meets, and how its limits stand."`
	Admin    admin         `cmd:"" help:"Put limits into shadow or off while a server runs, and see what no rule is for."`
	Validate validate      `cmd:"" help:"Check rule files without serving them."`
	Version  versionReport `cmd:"" help:"Print the version."`
}

// Help is printed below the list of commands.
func (commands) Help() string {
	return `Examples:

    rlsd validate rules/
    rlsd serve --config rules/
    rlsd serve --config rules/ --redis-url redis://redis:6379/0
    rlsd decide --addr 127.0.0.1:8081 --domain shop api_key=k1
    rlsd explain --config rules/ --domain shop plan=premium,user=bob

The exit code is 0 if all went well, 1 if not, and 2 if the command line was wrong. Of decide it is 3 on a denial, of validate --diff 2 if anything differs.`
}

// streams are where a command writes to.
type streams struct{ out, err io.Writer }

// run is the program: it does what args say and returns the exit code. The end
// of ctx stops it as a signal would.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	helped := false
	parser, err := kong.New(new(commands),
		kong.Name("rlsd"),
		kong.Description("A rate-limit decision service for Envoy and for services."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(streams{stdout, stderr}),
		kong.Vars{"redis_url": defaultRedisURL, "admin_addr": adminAddr},
	)
	if err != nil {
		return report(stderr, err)
	}
	for i, arg := range args {
		if !utf8.ValidString(arg) { // the parser would change it
			complain(stderr, fmt.Errorf("argument %d, %q, is not UTF-8", i+1, arg))
			return exitUsage
		}
	}
	command, err := parser.Parse(args)
	if helped {
		return exitDone
	}
	if err != nil {
		complain(stderr, fmt.Errorf("%w; see %s", err, helpFor(err)))
		return exitUsage
	}
	return report(stderr, command.Run())
}

// helpFor names the help that fits a wrong command line.
func helpFor(err error) string {
	name := "rlsd"
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok && wrong.Context != nil && wrong.Context.Selected() != nil {
		name = wrong.Context.Selected().FullPath()
	}
	return name + " --help"
}

// A told error is one that the caller knows already.
type told struct{ error }

// report says what went wrong and returns the exit code. Faults of the
// configuration are listed as compilers do, so that editors find them.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errDenied) {
		return exitDenied
	}
	if errors.Is(err, errDiffers) {
		return exitDiffer
	}
	if _, ok := errors.AsType[told](err); ok {
		return exitFault
	}
	if faults, ok := errors.AsType[policy.Faults](err); ok {
		_, _ = fmt.Fprintln(stderr, faults)
		return exitFault
	}
	complain(stderr, err)
	return exitFault
}

func complain(stderr io.Writer, err error) { _, _ = fmt.Fprintf(stderr, "rlsd: %v\n", err) }
