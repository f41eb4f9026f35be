package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/provider/file"
	"github.com/rlsd/rlsd/internal/server"
	"github.com/rlsd/rlsd/internal/service"
	"github.com/rlsd/rlsd/internal/telemetry"
)

type serve struct {
	Config []string `required:"" placeholder:"PATH" env:"RLSD_CONFIG" help:"Rule files, or directories of them, whose *.yaml and *.yml are read, and again when they change. May be repeated; in the variable, separate with commas."`

	StateDir string `placeholder:"DIR" env:"RLSD_STATE_DIR" help:"Where to keep each domain's last good rules for the next start, in case its files have faults then. A directory for this instance alone."`

	GRPCAddr  string `name:"grpc-addr" default:":8081" env:"RLSD_GRPC_ADDR" help:"Where to answer gRPC: host:port or unix:PATH."`
	HTTPAddr  string `name:"http-addr" default:":8080" env:"RLSD_HTTP_ADDR" help:"Where to answer HTTP: POST /json, and probes: /healthz, /readyz, /healthcheck."`
	AdminAddr string `default:"127.0.0.1:6070" env:"RLSD_ADMIN_ADDR" help:"Where to show /metrics, /policies, /unmatched and /explain and to take /switches. It has no access control."`

	ResponseHeaders []string `default:"ietf" placeholder:"NAME" env:"RLSD_RESPONSE_HEADERS" help:"Which headers tell clients of their limits through Envoy: ietf (RateLimit, RateLimit-Policy), x-ratelimit (Envoy then sends none of its own), reference (RateLimit-Limit, -Remaining, -Reset), or none. Retry-After is sent on every denial that a wait helps against. Default: ietf."`
	DeniedBody      string   `default:"none" enum:"problem+json,none" env:"RLSD_DENIED_BODY" help:"What body Envoy sends on a denial: problem+json (RFC 9457; not with filter_enforced below 100%, as Envoy then adds its content type to that of the upstream), or none."`
	EnvoyMinVersion string   `default:"1.36" placeholder:"X.Y" env:"RLSD_ENVOY_MIN_VERSION" help:"The oldest Envoy in use. Before 1.40 its headers tell no window that is not a single unit. Default: 1.36."`

	Store            string        `placeholder:"memory|redis" env:"RLSD_STORE" help:"Where the counters live: in this process, or in Redis and shared by all instances. Default: memory, or redis if --redis-url is given."`
	RedisURL         string        `name:"redis-url" placeholder:"URL" env:"RLSD_REDIS_URL" help:"Which Redis, as in redis://user:password@host:6379/0. Default: ${redis_url}."`
	StoreTimeout     time.Duration `default:"10ms" env:"RLSD_STORE_TIMEOUT" help:"How long one call of Redis may take. Envoy waits 20ms in all by default."`
	MemoryMaxBuckets int           `default:"1000000" env:"RLSD_MEMORY_MAX_BUCKETS" help:"How many buckets to keep in this process at most; beyond, a request that needs a new one is UNAVAILABLE."`

	DrainDelay      time.Duration `default:"5s" env:"RLSD_DRAIN_DELAY" help:"How long to go on answering after SIGTERM, while health checks already say no."`
	ShutdownTimeout time.Duration `default:"10s" env:"RLSD_SHUTDOWN_TIMEOUT" help:"How long calls under way may then take before they are cut off."`

	LogLevel  string `enum:"debug,info,warn,error" default:"info" env:"RLSD_LOG_LEVEL" help:"What to log: debug, info, warn or error."`
	LogFormat string `enum:"text,json" default:"text" env:"RLSD_LOG_FORMAT" help:"How to log to stderr: text or json."`
}

// Help is printed below the flags.
func (serve) Help() string {
	return `Rules are read at the start, where a fault in any stops it, and then again within a second of each change of their files, where a domain with a fault keeps its last good rules and all others change. SIGHUP reads them at once.

SIGINT and SIGTERM stop it: it tells health checks that it is about to go, answers for the drain delay, lets calls under way finish, and exits with 0. A second signal stops it at once, with 1.

Examples:

    rlsd serve --config rules/
    rlsd serve --config rules/ --redis-url redis://redis:6379/0
    rlsd serve --config rules/ --state-dir /var/lib/rlsd
    rlsd serve --config rules/ --grpc-addr unix:/run/rlsd.sock --log-format json
    RLSD_CONFIG=rules/ RLSD_LOG_LEVEL=debug rlsd serve`
}

// Validate refuses flags that make no sense.
func (c *serve) Validate() error {
	switch {
	case c.GRPCAddr == "" || c.HTTPAddr == "" || c.AdminAddr == "":
		return errors.New("an address is empty: want host:port, where :8081 is port 8081 of all interfaces")
	case c.Store != "" && c.Store != memoryStore && c.Store != redisStore:
		return fmt.Errorf("--store %q: want memory or redis", c.Store)
	case c.Store == memoryStore && c.RedisURL != "":
		return errors.New("--store memory does not go with --redis-url: drop one of them")
	case c.StoreTimeout <= 0:
		return fmt.Errorf("--store-timeout %v: want more than 0", c.StoreTimeout)
	case c.MemoryMaxBuckets <= 0:
		return fmt.Errorf("--memory-max-buckets %d: want more than 0", c.MemoryMaxBuckets)
	case c.DrainDelay < 0:
		return fmt.Errorf("--drain-delay %v: want 0 or more", c.DrainDelay)
	case c.ShutdownTimeout < 0:
		return fmt.Errorf("--shutdown-timeout %v: want 0 or more", c.ShutdownTimeout)
	}
	_, err := c.rlsOptions()
	return err
}

// Run wires the daemon together and serves until a signal or the end of ctx.
func (c *serve) Run(ctx context.Context, to streams) error {
	relaxGC()
	drain, stop, release := signals(ctx)
	defer release()
	hangups, unhook := hangups()
	defer unhook()

	logger, err := telemetry.NewLogger(to.err, c.LogLevel, c.LogFormat)
	if err != nil {
		return err
	}
	watcher, rules, err := file.Open(file.Options{Paths: c.Config, StateDir: c.StateDir}, time.Now())
	if err != nil {
		return err
	}
	backend, err := c.openStore()
	if err != nil {
		return err
	}
	defer backend.close(logger)

	observer := telemetry.New(telemetry.Options{Version: version, Buckets: backend.buckets, Logger: logger})
	config := newConfiguration(ctx, watcher, rules, observer, logger)
	snapshot := config.snapshot()
	decider := limiter.New(backend.store, backend.kind, config.snapshot, observer)

	observer.CountSwitches(func() int { return len(decider.Switches().List()) })

	answers, err := c.rlsOptions()
	if err != nil {
		return err
	}
	envoys := service.NewRLS(decider, time.Now, answers)
	daemon, err := server.New(ctx, c.options(logger, observer, decider, envoys, policiesHandler(config.current.Load, decider.Switches())))
	if err != nil {
		return suggestFlag(err)
	}
	addrs := daemon.Addrs()
	logger.InfoContext(ctx, "serving", "version", version,
		"grpc", addrs.GRPC, "http", addrs.HTTP, "admin", addrs.Admin, "store", backend.name,
		"domains", len(snapshot.Domains()), "limits", len(snapshot.Limits()), "hash", snapshot.Hash())

	var background sync.WaitGroup
	defer background.Wait()
	probing, endProbing := context.WithCancel(ctx)
	defer endProbing()
	background.Go(func() { watchStore(probing, backend.readier, logger) })
	background.Go(func() { watchSwitches(probing, decider.Switches(), logger) })
	ticker := time.NewTicker(file.PollInterval)
	defer ticker.Stop()
	background.Go(func() { config.watch(probing, ticker.C, hangups) })

	if err := daemon.Run(drain, stop); err != nil {
		return err
	}
	logger.InfoContext(ctx, "stopped")
	return nil
}

// options says what the server serves.
func (c *serve) options(logger *slog.Logger, observer *telemetry.Telemetry, decider *limiter.Limiter, envoys *service.RLS, policies http.Handler) server.Options {
	return server.Options{
		Addrs: server.Addrs{GRPC: c.GRPCAddr, HTTP: c.HTTPAddr, Admin: c.AdminAddr},
		Register: []func(grpc.ServiceRegistrar){
			envoys.Register,
			service.NewDecide(decider, time.Now).Register,
		},
		Codec:       service.Codec(),
		HealthNames: service.HealthNames(),
		Descriptors: service.DescriptorSet(),
		Unlogged:    service.DecidingMethods(),
		Routes:      []server.Route{{Pattern: "POST /json", Handler: envoys}},
		Pages: []server.Page{
			{Path: "/metrics", About: "metrics for Prometheus", Handler: observer.Handler()},
			{Path: "/policies", About: "the limits in force, as JSON", Handler: policies},
			{Path: "/switches", About: "what is switched into shadow or off; PUT and DELETE change it", Handler: switchesHandler(decider.Switches(), logger), AnyMethod: true},
			{Path: "/unmatched", About: "what was asked of late that no rule is for", Handler: unmatchedHandler(observer.Misses)},
			{Path: "/explain", About: "why a request is allowed or denied: ?domain=NAME&descriptor=key=value,key=value&cost=1", Handler: explainHandler(decider, time.Now)},
		},
		DrainDelay:      c.DrainDelay,
		ShutdownTimeout: c.ShutdownTimeout,
		Logger:          logger,
		Metrics:         observer.Registerer(),
		Panicked:        observer.Panicked,
	}
}

// suggestFlag adds to the error of a listener how to do without its address.
func suggestFlag(err error) error {
	if refused, ok := errors.AsType[*server.ListenError](err); ok {
		return fmt.Errorf("%w; choose another with --%s-addr", err, refused.Name)
	}
	return err
}

// relaxGC lets the heap grow to five times what is live before it is collected,
// instead of twice. What is live is small unless very many buckets are kept in
// this process, and calls leave behind much more than that: this saves a fifth
// of the CPU time of a decision. GOGC overrules it, and GOMEMLIMIT, which
// should be set where memory is limited, makes the collector work harder in
// time.
func relaxGC() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(400)
	}
}
