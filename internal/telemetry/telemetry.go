// Package telemetry is what the daemon tells about itself: metrics for
// Prometheus and logs. Label values come from the configuration alone, so that
// no client can add a time series.
package telemetry

import (
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rlsd/rlsd/internal/limiter"
	"github.com/rlsd/rlsd/internal/policy"
)

// Options say what there is to tell.
type Options struct {
	Version string       // of this program
	Buckets func() int   // how many buckets the store holds; nil if it cannot tell
	Logger  *slog.Logger // nil logs nothing
}

// Telemetry counts what happens. Its methods are safe for concurrent use.
type Telemetry struct {
	registry  *prometheus.Registry
	decisions *prometheus.CounterVec
	bound     atomic.Pointer[bound] // what decisions are counted by
	following sync.Mutex            // one Follow at a time
	values    values

	logger  *slog.Logger
	quiet   atomic.Int64 // nanoseconds since the epoch until which failures are not logged
	skipped atomic.Int64 // failures that were not

	policy        *prometheus.GaugeVec
	limits        prometheus.Gauge
	unknownDomain prometheus.Counter
	unmatched     prometheus.Counter
	panics        prometheus.Counter
	misses        misses
	configuration configuration
}

var _ limiter.Observer = (*Telemetry)(nil)

// New returns a Telemetry with a registry of its own that follows no limits
// yet.
func New(o Options) *Telemetry {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Telemetry{
		registry: prometheus.NewRegistry(),
		logger:   o.Logger,
		decisions: counters("rlsd_decisions_total",
			`Decisions by limit and outcome. The limit "other" stands for those that are not in the configuration.`,
			"domain", "limit", "outcome"),
		policy: gauges("rlsd_policy_info", "1 for the hash of the configuration in force.", "hash"),
		limits: gauge("rlsd_limits", "Limits in the configuration in force."),
		unknownDomain: counter("rlsd_unknown_domain_requests_total",
			"Requests for a domain that is not in the configuration, which are allowed."),
		unmatched: counter("rlsd_unmatched_descriptors_total",
			"Descriptors that no rule of their domain matched, which are allowed."),
		panics: counter("rlsd_panics_total", "Calls that panicked and were answered with INTERNAL."),
	}
	build := gauges("rlsd_build_info", "1 for the version of rlsd and of the Go that built it.", "version", "go")
	build.WithLabelValues(o.Version, runtime.Version()).Set(1)

	t.values.decisions = counters("rlsd_decisions_by_value_total",
		`Decisions of limits with value_to_metric or detailed_metric, by value: the first 100 of a limit, then "other".`,
		"domain", "limit", "value", "outcome")
	t.bound.Store(new(bound))
	t.registry.MustRegister(t.values.decisions,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, t.decisions, t.policy, t.limits, t.unknownDomain, t.unmatched, t.panics,
	)
	t.configuration = newConfiguration(t.registry)
	if o.Buckets != nil {
		t.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rlsd_buckets",
			Help: "Buckets that the embedded store holds.",
		}, func() float64 { return float64(o.Buckets()) }))
	}
	return t
}

// Registerer is where other packages put their metrics.
func (t *Telemetry) Registerer() prometheus.Registerer { return t.registry }

// Handler serves all metrics to Prometheus.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{Registry: t.registry})
}

// Decided counts a decision of the limit.
func (t *Telemetry) Decided(l *policy.Limit, o limiter.Outcome) {
	b := t.bound.Load()
	if c, ok := b.byLimit[l]; ok {
		c[o].Inc()
		return
	}
	domain, name := b.labels(l)
	t.decisions.WithLabelValues(domain, name, outcomes[o]).Inc()
}

// DecidedValue counts a decision by what was asked for.
func (t *Telemetry) DecidedValue(l *policy.Limit, value string, o limiter.Outcome) {
	if domain, name := t.bound.Load().labels(l); name != other {
		t.values.tally(domain, name, value)[o].Inc()
	}
}

// Failing logs why a request could not be decided, at most once a second.
func (t *Telemetry) Failing(err error) {
	now := time.Now().UnixNano()
	until := t.quiet.Load()
	if now < until || !t.quiet.CompareAndSwap(until, now+time.Second.Nanoseconds()) {
		t.skipped.Add(1)
		return
	}
	t.logger.Warn("requests cannot be decided", "error", err, "more", t.skipped.Swap(0))
}

// UnknownDomain counts a request for a domain without rules.
func (t *Telemetry) UnknownDomain(domain string, d policy.Descriptor) {
	t.unknownDomain.Inc()
	t.misses.see(time.Now(), domain, d, true)
}

// Unmatched counts a descriptor that no rule of a known domain matched.
func (t *Telemetry) Unmatched(domain string, d policy.Descriptor) {
	t.unmatched.Inc()
	t.misses.see(time.Now(), domain, d, false)
}

// Misses returns what was asked of late that no rule is for.
func (t *Telemetry) Misses() Misses { return t.misses.report() }

// CountSwitches exposes how many switches are set.
func (t *Telemetry) CountSwitches(n func() int) {
	t.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rlsd_switches",
		Help: "Switches that operators have set in this process, which take force from limits.",
	}, func() float64 { return float64(n()) }))
}

// Panicked counts a call that panicked.
func (t *Telemetry) Panicked() { t.panics.Inc() }

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}
