package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Configuration is what there is to tell of the rules in force.
type Configuration struct {
	Version      int       // counts their changes
	Changed      time.Time // when they last did
	Files        int
	StaleDomains int  // those that stand on their last good rules
	Right        bool // whether the last look at them found no fault
	LastFailed   time.Time
}

// configuration holds the metrics of the rules and of how they change.
type configuration struct {
	right, changed, failed  prometheus.Gauge
	version, files, domains prometheus.Gauge
	reloads                 *prometheus.CounterVec
}

func newConfiguration(to prometheus.Registerer) configuration {
	c := configuration{
		right: gauge("rlsd_config_last_reload_successful", "Whether the rule files had no fault when they were last read."),
		changed: gauge("rlsd_config_last_reload_timestamp_seconds",
			"When the rules in force last changed."),
		failed:  gauge("rlsd_config_last_error_timestamp_seconds", "When the rule files last had a new fault; 0 if never."),
		version: gauge("rlsd_config_version", "How often the rules in force changed, from 1 at the start."),
		files:   gauge("rlsd_config_files", "Files that the rules in force are from."),
		domains: gauge("rlsd_config_stale_domains", "Domains that stand on their last good rules, since those in the files have faults."),
		reloads: counters("rlsd_config_reloads_total", "Changes of the rule files, and SIGHUPs, by whether all was right.", "result"),
	}
	for _, result := range reloadResults {
		c.reloads.WithLabelValues(result)
	}
	to.MustRegister(c.right, c.changed, c.failed, c.version, c.files, c.domains, c.reloads)
	return c
}

var reloadResults = map[bool]string{true: "success", false: "failure"}

// Configured tells of the rules in force.
func (t *Telemetry) Configured(now Configuration) {
	c := &t.configuration
	c.right.Set(0)
	if now.Right {
		c.right.Set(1)
	}
	c.changed.Set(seconds(now.Changed))
	c.failed.Set(seconds(now.LastFailed))
	c.version.Set(float64(now.Version))
	c.files.Set(float64(now.Files))
	c.domains.Set(float64(now.StaleDomains))
}

// Reloaded counts a reload, and whether nothing was wrong with it.
func (t *Telemetry) Reloaded(right bool) {
	t.configuration.reloads.WithLabelValues(reloadResults[right]).Inc()
}

// seconds is a time as Prometheus has it, 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
