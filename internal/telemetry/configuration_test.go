package telemetry

import (
	"testing"
	"time"
)

func TestTheConfigurationIsExposed(t *testing.T) {
	tel := New(Options{})
	if got, want := expose(t, tel, "rlsd_config_reloads_total"), `rlsd_config_reloads_total{result="failure"} 0
rlsd_config_reloads_total{result="success"} 0
`; got != want {
		t.Errorf("before any reload:\n%s", got)
	}
	tel.Configured(Configuration{Version: 1, Changed: time.Unix(1000, 0), Files: 2, Right: true})
	if got, want := expose(t, tel, "rlsd_config_last"), `rlsd_config_last_error_timestamp_seconds 0
rlsd_config_last_reload_successful 1
rlsd_config_last_reload_timestamp_seconds 1000
`; got != want {
		t.Errorf("at first:\n%s", got)
	}
	tel.Configured(Configuration{Version: 7, Changed: time.Unix(1000, 0), Files: 2, StaleDomains: 3, LastFailed: time.UnixMilli(2_000_500)})
	tel.Reloaded(false)
	tel.Reloaded(true)
	tel.Reloaded(true)
	if got, want := expose(t, tel, "rlsd_config"), `rlsd_config_files 2
rlsd_config_last_error_timestamp_seconds 2000.5
rlsd_config_last_reload_successful 0
rlsd_config_last_reload_timestamp_seconds 1000
rlsd_config_reloads_total{result="failure"} 1
rlsd_config_reloads_total{result="success"} 2
rlsd_config_stale_domains 3
rlsd_config_version 7
`; got != want {
		t.Errorf("at last:\n%s", got)
	}
}
