package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestHelpHasExamplesAndExitsWith0(t *testing.T) {
	for _, args := range [][]string{
		{"--help"},
		{"serve", "--help"},
		{"decide", "--help"},
		{"admin", "--help"},
		{"admin", "switches", "--help"},
		{"admin", "shadow", "--help"},
		{"admin", "off", "--help"},
		{"admin", "clear", "--help"},
		{"admin", "unmatched", "--help"},
		{"explain", "--help"},
		{"validate", "--help"},
		{"version", "--help"},
		{"serve", "--config", "nowhere", "--help"},
	} {
		code, stdout, stderr := rlsd(t, args...)
		if code != exitDone || stderr != "" || !strings.Contains(stdout, "Examples:") {
			t.Errorf("rlsd %s: %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
		}
	}
}

func TestWrongCommandLinesExitWith2AndOneLine(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", `rlsd: expected one of "serve", "decide", "explain", "admin", "validate", ...; see rlsd --help`},
		{"sevre", `rlsd: unexpected argument sevre, did you mean "serve"?; see rlsd --help`},
		{"serve", `rlsd: missing flags: --config=PATH,...; see rlsd serve --help`},
		{"serve --config x --store memory --redis-url redis://a", `rlsd: serve: --store memory does not go with --redis-url: drop one of them; see rlsd serve --help`},
		{"serve --config x --store disk", `rlsd: serve: --store "disk": want memory or redis; see rlsd serve --help`},
		{"serve --config x --store-timeout 0s", `rlsd: serve: --store-timeout 0s: want more than 0; see rlsd serve --help`},
		{"serve --config x --memory-max-buckets 0", `rlsd: serve: --memory-max-buckets 0: want more than 0; see rlsd serve --help`},
		{"serve --config x --drain-delay=-1s", `rlsd: serve: --drain-delay -1s: want 0 or more; see rlsd serve --help`},
		{"serve --config x --shutdown-timeout=-1s", `rlsd: serve: --shutdown-timeout -1s: want 0 or more; see rlsd serve --help`},
		{"serve --config x --log-level loud", `rlsd: --log-level must be one of "debug","info","warn","error" but got "loud"; see rlsd serve --help`},
		{"serve --config x --response-headers x-ratelimits", `rlsd: serve: --response-headers: "x-ratelimits": want ietf, x-ratelimit and reference, or none; see rlsd serve --help`},
		{"serve --config x --response-headers none,ietf", `rlsd: serve: --response-headers: none goes with nothing else; see rlsd serve --help`},
		{"serve --config x --denied-body html", `rlsd: --denied-body must be one of "problem+json","none" but got "html"; see rlsd serve --help`},
		{"serve --config x --envoy-min-version 1.400", `rlsd: serve: --envoy-min-version: "1.400": want an Envoy's version without its patch, from 1.18 on, such as 1.40; see rlsd serve --help`},
		{"serve --config x --no-such", `rlsd: unknown flag --no-such; see rlsd serve --help`},
		{"admin", `rlsd: expected one of "switches", "shadow", "off", "clear", "unmatched"; see rlsd admin --help`},
		{"admin shadow", `rlsd: admin shadow: want --domain, --domain and --limit, or --everywhere; see rlsd admin shadow --help`},
		{"admin shadow --limit l", `rlsd: admin shadow: want --domain, --domain and --limit, or --everywhere; see rlsd admin shadow --help`},
		{"admin shadow --everywhere --domain d", `rlsd: admin shadow: --everywhere does not go with --domain or --limit: drop one of them; see rlsd admin shadow --help`},
		{"admin off --domain d", `rlsd: missing flags: --limit=NAME; see rlsd admin off --help`},
		{"admin clear", `rlsd: admin clear: want --domain, --domain and --limit, or --everywhere; see rlsd admin clear --help`},
		{"admin switches --addr here", `rlsd: admin: --addr "here": want HOST:PORT or unix:PATH; see rlsd admin switches --help`},
		{"validate", `rlsd: expected "<path> ..."; see rlsd validate --help`},
		{"validate --diff a", `rlsd: validate: --diff compares two paths, OLD and NEW, not 1; see rlsd validate --help`},
		{"validate --diff a b c", `rlsd: validate: --diff compares two paths, OLD and NEW, not 3; see rlsd validate --help`},
		{"decide --addr a:1 x", `rlsd: missing flags: --domain=NAME; see rlsd decide --help`},
		{"decide --domain d --addr a:1", `rlsd: expected "<descriptor> ..."; see rlsd decide --help`},
		{"decide --domain d x", `rlsd: decide: want one of --addr and --config: a server to ask, or rules to decide by; see rlsd decide --help`},
		{"decide --domain d --addr a:1 --config x x", `rlsd: decide: want one of --addr and --config: a server to ask, or rules to decide by; see rlsd decide --help`},
		{"decide --domain d --addr a x", `rlsd: decide: --addr "a": want HOST:PORT or unix:PATH; see rlsd decide --help`},
		{"decide --domain d --addr a:1 --repeat 2 x", `rlsd: decide: --at, --repeat and --every go with --config, not with --addr; see rlsd decide --help`},
		{"decide --domain d --addr a:1 --at 2026-11-30T12:00:00Z x", `rlsd: decide: --at, --repeat and --every go with --config, not with --addr; see rlsd decide --help`},
		{"decide --domain d --addr a:1 --timeout=-1s x", `rlsd: decide: --timeout -1s: want more than 0; see rlsd decide --help`},
		{"decide --domain d --config c --timeout 1s x", `rlsd: decide: --timeout goes with --addr, not with --config; see rlsd decide --help`},
		{"decide --domain d --config c --repeat 0 x", `rlsd: decide: --repeat 0: want 1 to 100000; see rlsd decide --help`},
		{"decide --domain d --config c --every 1s x", `rlsd: decide: --every goes with --repeat; see rlsd decide --help`},
		{"decide --domain d --config c --repeat 2 --every=-1s x", `rlsd: decide: --every -1s: want 0 or more; see rlsd decide --help`},
		{"decide --domain d --config c --repeat 3 --every 900000h --at 2100-01-01T00:00:00Z x", `rlsd: decide: --repeat 3 --every 900000h0m0s: would go beyond the year 2255; see rlsd decide --help`},
		{"decide --domain d --config c --at noon x", `rlsd: --at: "noon": want a time from 1970 to 2255, as in 2026-11-30T12:00:00Z; see rlsd decide --help`},
		{"decide --domain d --config c --at 1969-12-31T23:59:59Z x", `rlsd: --at: "1969-12-31T23:59:59Z": want a time from 1970 to 2255, as in 2026-11-30T12:00:00Z; see rlsd decide --help`},
		{"decide --domain d --config c a=b,,c", "rlsd: <descriptor> ...: descriptor `a=b,,c`: an entry without a key; want key=value[,key=value]; see rlsd decide --help"},
		{"decide --domain d --config c --output xml x", `rlsd: --output must be one of "text","json" but got "xml"; see rlsd decide --help`},
		{"explain --domain d", `rlsd: expected "<descriptor> ..."; see rlsd explain --help`},
		{"explain x", `rlsd: missing flags: --domain=NAME; see rlsd explain --help`},
		{"explain --domain d --addr a:1 --config c x", `rlsd: explain: want one of --addr and --config: a server to ask, or rules to explain; see rlsd explain --help`},
		{"explain --domain d --addr a x", `rlsd: explain: --addr "a": want HOST:PORT or unix:PATH; see rlsd explain --help`},
		{"explain --domain d" + strings.Repeat(" x", 21), `rlsd: explain: 21 descriptors: the most is 20; see rlsd explain --help`},
		{"explain --domain d k" + strings.Repeat(",k", 64), "rlsd: explain: descriptor \"" + strings.Repeat("k,", 32) + "\": has 65 entries, the most is 64; see rlsd explain --help"},
		{"version --output xml", `rlsd: --output must be one of "text","json" but got "xml"; see rlsd version --help`},
	} {
		code, stdout, stderr := rlsd(t, strings.Fields(test.args)...)
		if code != exitUsage || stdout != "" || stderr != test.want+"\n" {
			t.Errorf("rlsd %s: %d %q %q, want %q", test.args, code, stdout, stderr, test.want)
		}
	}
}

func TestEveryFlagOfServeHasItsTwinInTheEnvironment(t *testing.T) {
	_, help, _ := rlsd(t, "serve", "--help")
	help = strings.Join(strings.Fields(help), " ")
	for field := range reflect.TypeFor[serve]().Fields() {
		twin := field.Tag.Get("env")
		flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(twin, "RLSD_"), "_", "-"))
		if !strings.HasPrefix(twin, "RLSD_") || !strings.Contains(help, flag+"=") || !strings.Contains(help, "$"+twin) {
			t.Errorf("%s: help shows no %s with its twin %q", field.Name, flag, twin)
		}
	}
}

func TestConfigMayBeRepeated(t *testing.T) {
	code, _, stderr := rlsd(t, "serve", "--config", "nowhere/a", "--config", "nowhere/b")
	if code != exitFault || !strings.Contains(stderr, "nowhere/a") || !strings.Contains(stderr, "nowhere/b") {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestTheEnvironmentStandsInForFlags(t *testing.T) {
	t.Setenv("RLSD_CONFIG", "nowhere/a,nowhere/b")
	code, _, stderr := rlsd(t, "serve")
	if code != exitFault || !strings.Contains(stderr, "nowhere/a") || !strings.Contains(stderr, "nowhere/b") {
		t.Errorf("RLSD_CONFIG: %d %s", code, stderr)
	}
	code, _, stderr = rlsd(t, "serve", "--config", "elsewhere")
	if code != exitFault || !strings.Contains(stderr, "elsewhere") || strings.Contains(stderr, "nowhere") {
		t.Errorf("a flag does not overrule it: %d %s", code, stderr)
	}
	t.Setenv("RLSD_REDIS_URL", "redis://a")
	if code, _, stderr := rlsd(t, "serve", "--store", "memory"); code != exitUsage {
		t.Errorf("RLSD_REDIS_URL and --store memory: %d %s", code, stderr)
	}
	t.Setenv("RLSD_DRAIN_DELAY", "soon")
	code, _, stderr = rlsd(t, "serve")
	if code != exitUsage || !strings.Contains(stderr, "RLSD_DRAIN_DELAY") {
		t.Errorf("RLSD_DRAIN_DELAY=soon: %d %s", code, stderr)
	}
}

func TestOtherCommandsIgnoreTheVariablesOfServe(t *testing.T) {
	for field := range reflect.TypeFor[serve]().Fields() {
		t.Setenv(field.Tag.Get("env"), "nonsense")
	}
	if code, _, stderr := rlsd(t, "version"); code != exitDone || stderr != "" {
		t.Errorf("version: %d %s", code, stderr)
	}
	if code, _, stderr := rlsd(t, "validate", write(t, goodPolicy)); code != exitDone || stderr != "" {
		t.Errorf("validate: %d %s", code, stderr)
	}
}

func TestVersion(t *testing.T) {
	if code, stdout, _ := rlsd(t, "version"); code != exitDone || !strings.HasPrefix(stdout, "rlsd dev (go1.") {
		t.Errorf("%d %q", code, stdout)
	}
	if code, stdout, _ := rlsd(t, "version", "--output", "json"); code != exitDone || !strings.Contains(stdout, `"version":"dev"`) {
		t.Errorf("%d %q", code, stdout)
	}
}
