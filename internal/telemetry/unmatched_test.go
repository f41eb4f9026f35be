package telemetry

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlsd/rlsd/internal/policy"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func entries(pairs ...string) (d policy.Descriptor) {
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, policy.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func TestMissesAreListedByWhenTheyWereLastSeen(t *testing.T) {
	var m misses
	m.see(noon, "shop", entries("user", "bob"), false)
	m.see(noon.Add(time.Second), "shp", entries("user", "bob"), true)
	m.see(noon.Add(2*time.Second), "shop", nil, false)
	m.see(noon.Add(3*time.Second), "shop", entries("user", "bob"), false)
	want := Misses{SamplesPerSecond: 100, Recent: []Miss{
		{Domain: "shop", Entries: entries("user", "bob"), Count: 2, First: noon, Last: noon.Add(3 * time.Second)},
		{Domain: "shop", Entries: entries(), Count: 1, First: noon.Add(2 * time.Second), Last: noon.Add(2 * time.Second)},
		{Domain: "shp", UnknownDomain: true, Entries: entries("user", "bob"), Count: 1, First: noon.Add(time.Second), Last: noon.Add(time.Second)},
	}}
	for i := range want.Recent {
		want.Recent[i].Entries = append([]policy.Entry{}, want.Recent[i].Entries...)
	}
	for range 2 { // to report changes nothing
		if diff := cmp.Diff(want, m.report()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestMissesAreCutAndEscaped(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, test := range []struct{ value, want string }{
		{"plain", "plain"},
		{"", ""},
		{`a"b`, `a"b`},
		{`a\nb`, `a\\nb`},
		{"a\nb\x00\x1b[2J", `a\nb\x00\x1b[2J`},
		{"caf\u00e9", "caf\u00e9"},
		{"\xff\xfe", `\xff\xfe`},
		{"\u202eevil", `\u202eevil`},
		{strings.Repeat("x", 32), strings.Repeat("x", 32)},
		{strings.Repeat("x", 33), strings.Repeat("x", 32) + "…"},
		{strings.Repeat("x", 31) + "é", strings.Repeat("x", 31) + "…"},
		{strings.Repeat("\xbf", 40), strings.Repeat(`\xbf`, 28) + "…"},
		{long, strings.Repeat("x", 32) + "…"},
	} {
		var m misses
		m.see(noon, long, entries(long, test.value), true)
		got := m.report().Recent[0]
		short := strings.Repeat("x", 64) + "…"
		if got.Domain != short || got.Entries[0].Key != short || got.Entries[0].Value != test.want {
			t.Errorf("%q: got %+v, want %s", test.value, got, test.want)
		}
	}
	var m misses
	for i := range 64 {
		m.see(noon, "shop", append(entries(strings.Split(strings.Repeat("k v ", 20), " ")[:40]...), policy.Entry{Key: strconv.Itoa(i)}), false)
	}
	if got := m.report().Recent; len(got) != 1 || len(got[0].Entries) != 16 || got[0].MoreEntries != 5 || got[0].Count != 64 {
		t.Errorf("21 entries: %+v", got)
	}
}

// TestMissesAreTheClientsNoLonger holds that what is kept is a copy, and that
// texts which run into each other are told apart.
func TestMissesAreTheClientsNoLonger(t *testing.T) {
	var m misses
	d := entries("user", "bob")
	m.see(noon, "shop", d, false)
	d[0].Value = "eve"
	m.see(noon, "shop", entries("us", "erbob"), false)
	m.see(noon, "shopuser", entries("", "bob"), false)
	m.see(noon, "shop", entries("user", "bob"), true)
	got := m.report().Recent
	if len(got) != 4 {
		t.Fatalf("%d kept: %+v", len(got), got)
	}
	for _, miss := range got {
		if miss.Entries[0].Value == "eve" {
			t.Error("it changed with the request")
		}
	}
}

func TestMissesAreBoundedInNumberAndRate(t *testing.T) {
	var m misses
	for i := range 10_000 {
		m.see(noon.Add(time.Duration(i)*time.Millisecond), "shop", entries("user", strconv.Itoa(i)), false)
	}
	got := m.report()
	if len(got.Recent) != 128 || got.Skipped != 9000 {
		t.Errorf("%d kept, %d skipped, want 128 and 9000", len(got.Recent), got.Skipped)
	}
	// Of each of the ten seconds the first 100; of these the last 128.
	if first, last := got.Recent[0].Entries[0].Value, got.Recent[127].Entries[0].Value; first != "9099" || last != "8072" {
		t.Errorf("kept %s back to %s", first, last)
	}
	for range 10 {
		m.see(noon.Add(time.Hour), "shop", entries("user", "9000"), false)
	}
	if got := m.report(); got.Recent[0].Count != 11 || got.Recent[0].First != noon.Add(9*time.Second) || len(got.Recent) != 128 {
		t.Errorf("seen again: %+v", got.Recent[0])
	}
}

func TestNobodyWaitsToBeCountedAsAMiss(t *testing.T) {
	tel := New(Options{})
	tel.misses.mu.Lock() // as a report would
	tel.Unmatched("shop", entries("user", "bob"))
	tel.UnknownDomain("shop", entries("user", "bob"))
	tel.misses.mu.Unlock()
	if got := tel.Misses(); got.Skipped != 2 || len(got.Recent) != 0 {
		t.Errorf("got %+v", got)
	}
	var seeing sync.WaitGroup
	for i := range 4 {
		seeing.Go(func() {
			for j := range 1000 {
				tel.Unmatched("shop", entries("user", fmt.Sprint(i, j)))
				tel.Misses()
			}
		})
	}
	seeing.Wait()
}

func TestMissesThatAreSkippedDoNotAllocate(t *testing.T) {
	d := entries("user", "bob", "path", strings.Repeat("x", 1000))
	var m misses
	for range samplesPerSecond {
		m.see(noon, "shop", d, false)
	}
	if n := testing.AllocsPerRun(100, func() { m.see(noon, "shop", d, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSwitchesAreCounted(t *testing.T) {
	tel, n := New(Options{}), 0
	tel.CountSwitches(func() int { return n })
	for n = range 3 {
		if got, want := expose(t, tel, "rlsd_switches"), fmt.Sprintf("rlsd_switches %d\n", n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
