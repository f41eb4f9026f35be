package algo_test

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tables, whatever the machine has

	"github.com/rlsd/rlsd/internal/algo"
	"github.com/rlsd/rlsd/internal/algo/algotest"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestCalendarWindows is a table of right answers (P-G5): leap years, daylight
// saving to and fro, days without a midnight and with two.
func TestCalendarWindows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		calendar        algo.Calendar
		zone            string
		at, start, want string // of which want is the end
	}{
		{algo.Monthly, "UTC", "2026-01-31T23:59:59Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		{algo.Monthly, "UTC", "2026-02-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{algo.Monthly, "UTC", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{algo.Monthly, "UTC", "2026-12-31T23:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{algo.Monthly, "Europe/Berlin", "2026-02-28T22:59:59Z", "2026-01-31T23:00:00Z", "2026-02-28T23:00:00Z"},
		{algo.Monthly, "Europe/Berlin", "2026-02-28T23:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"}, // 743 h
		{algo.Monthly, "Asia/Kathmandu", "2026-05-31T18:14:59Z", "2026-04-30T18:15:00Z", "2026-05-31T18:15:00Z"},
		{algo.Yearly, "UTC", "2028-12-31T23:59:59Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"}, // 366 days
		{algo.Yearly, "America/New_York", "2026-01-01T04:59:59Z", "2025-01-01T05:00:00Z", "2026-01-01T05:00:00Z"},
		{algo.Daily, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},     // 23 h
		{algo.Daily, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},     // 25 h
		{algo.Daily, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}, // no midnight
		{algo.Daily, "America/Sao_Paulo", "2018-11-04T02:30:00Z", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"},
		{algo.Daily, "America/Havana", "2026-11-01T04:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"}, // two midnights
		{algo.Daily, "America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{algo.Daily, "Asia/Amman", "2021-10-28T21:30:00Z", "2021-10-28T21:00:00Z", "2021-10-29T22:00:00Z"}, // two midnights, of which time.Date gives the second
		{algo.Daily, "Asia/Amman", "2021-10-28T22:30:00Z", "2021-10-28T21:00:00Z", "2021-10-29T22:00:00Z"},
		{algo.Daily, "America/St_Johns", "2010-11-07T02:35:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"}, // back from 0:01
		{algo.Daily, "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},     // no 30th at all
		{algo.Weekly, "UTC", "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"},             // a Monday
		{algo.Weekly, "UTC", "2026-11-29T23:59:59Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{algo.Weekly, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"}, // 169 h
	} {
		l := &algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: algotest.Day, Calendar: c.calendar, Zone: zone(t, c.zone)}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		start, end := l.WindowAt(at.UnixMicro())
		told := func(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) }
		if told(start) != c.start || told(end) != c.want {
			t.Errorf("%s at %s: %s to %s, want %s to %s", c.zone, c.at, told(start), told(end), c.start, c.want)
		}
	}
}

// TestCalendarWindowsTile holds that windows hold their moments and follow one
// upon the other without a gap, in zones with every kind of change.
func TestCalendarWindowsTile(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(12, 13))
	for _, name := range []string{
		"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana", "Asia/Kathmandu",
		"Asia/Beirut", "Africa/Cairo", "Pacific/Apia", "Australia/Lord_Howe", "Africa/Casablanca", "America/St_Johns",
	} {
		z := zone(t, name)
		for _, calendar := range []algo.Calendar{algo.Daily, algo.Weekly, algo.Monthly, algo.Yearly} {
			l := &algo.Limit{Algorithm: algo.FixedWindow, Quota: 1, Window: algotest.Day, Calendar: calendar, Zone: z}
			for range 300 {
				at := r.Int64N(60*algotest.Year) + 15*algotest.Year
				start, end := l.WindowAt(at)
				if at < start || at >= end {
					t.Fatalf("%s %d: %d is not in %d to %d", name, calendar, at, start, end)
				}
				if next, _ := l.WindowAt(end); next != end {
					t.Fatalf("%s %d: the window after %d begins at %d", name, calendar, end, next)
				}
				if again, _ := l.WindowAt(start); again != start {
					t.Fatalf("%s %d: the window of %d begins at %d", name, calendar, start, again)
				}
			}
		}
	}
}

func TestIDTellsZonesApart(t *testing.T) {
	t.Parallel()
	ids := map[uint64]string{}
	for _, l := range []algo.Limit{
		{Window: algotest.Day},
		{Window: algotest.Day, Calendar: algo.Daily},
		{Window: algotest.Day, Calendar: algo.Daily, Zone: zone(t, "Europe/Berlin")},
		{Window: algotest.Day, Calendar: algo.Daily, Zone: zone(t, "Europe/Paris")},
		{Window: algotest.Month, Calendar: algo.Monthly, Zone: zone(t, "Europe/Paris")},
		{Window: algotest.Month, Calendar: algo.Monthly},
		{Window: algotest.Month},
	} {
		l.Algorithm = algo.FixedWindow
		if other, taken := ids[l.ID()]; taken {
			t.Errorf("%+v has the ID of %s", l, other)
		}
		ids[l.ID()] = "another"
	}
	utc := algo.Limit{Algorithm: algo.FixedWindow, Window: algotest.Month, Calendar: algo.Monthly, Zone: time.UTC}
	if _, same := ids[utc.ID()]; !same {
		t.Error("UTC by name is another zone than UTC by default")
	}
}
