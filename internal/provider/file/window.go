package file

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/rlsd/rlsd/internal/algo"
)

const day = 24 * time.Hour

// units are the windows that have a name.
var units = []struct {
	name     string
	length   time.Duration
	calendar algo.Calendar // of which they are a unit
	always   bool          // also without a time zone, in UTC
}{
	{"second", time.Second, algo.NoCalendar, false},
	{"minute", time.Minute, algo.NoCalendar, false},
	{"hour", time.Hour, algo.NoCalendar, false},
	{"day", day, algo.Daily, false},
	{"week", 7 * day, algo.Weekly, false},
	{"month", 30 * day, algo.Monthly, true},
	{"year", 365 * day, algo.Yearly, true},
}

// window returns a window in microseconds and, for one that follows the
// calendar, which, and in what zone.
func (d *decoder) window(v, zone *value, a algo.Algorithm) (int64, algo.Calendar, *time.Location) {
	text, ok := d.text(v)
	if !ok {
		return 0, algo.NoCalendar, nil
	}
	for _, unit := range units {
		if strings.EqualFold(unit.name, text) {
			calendar, location := d.calendar(unit.calendar, unit.always, zone, a)
			return unit.length.Microseconds(), calendar, location
		}
	}
	if zone != nil {
		d.fault(zone, "time_zone goes with unit day, week, month or year, not with a duration: leave it out")
	}
	length, err := parseDuration(text)
	switch {
	case err != nil:
		d.fault(v, "%v", err)
	case length < algo.MinWindow*time.Microsecond:
		d.fault(v, "%s is shorter than %v, the shortest window", text, algo.MinWindow*time.Microsecond)
	case length > algo.MaxWindow*time.Microsecond:
		d.fault(v, "%s is longer than %d days, the longest window", text, algo.MaxWindow*time.Microsecond/day)
	case length%time.Microsecond != 0:
		d.fault(v, "%s is not a whole number of microseconds", text)
	default:
		return length.Microseconds(), algo.NoCalendar, nil
	}
	return 0, algo.NoCalendar, nil
}

// calendar returns the calendar of a unit that a limit goes by, and its zone:
// only a fixed window has one.
func (d *decoder) calendar(unit algo.Calendar, always bool, zone *value, a algo.Algorithm) (algo.Calendar, *time.Location) {
	name, ok := d.text(zone)
	switch {
	case !ok && always && a == algo.FixedWindow:
		return unit, nil
	case !ok:
	case a != algo.FixedWindow && a != 0:
		d.fault(zone, "%s goes by the length of its window, not by a calendar: leave time_zone out or choose %s", a, algo.FixedWindow)
	case unit == algo.NoCalendar:
		d.fault(zone, "time_zone goes with unit day, week, month or year: leave it out")
	default:
		location, err := time.LoadLocation(name)
		if err != nil || name == "" || name == "Local" {
			d.fault(zone, "unknown time zone %s: use a name of the IANA database such as UTC or Europe/Berlin", quote(name))
		}
		return unit, location
	}
	return algo.NoCalendar, nil
}

// parseDuration is [time.ParseDuration] with a number of days, such as 7d,
// besides.
func parseDuration(text string) (time.Duration, error) {
	if digits, ok := strings.CutSuffix(text, "d"); ok {
		if days, err := strconv.ParseUint(digits, 10, 16); err == nil {
			return time.Duration(days) * day, nil
		}
	}
	if length, err := time.ParseDuration(text); err == nil {
		return length, nil
	}
	var names []string
	for _, unit := range units {
		names = append(names, unit.name)
	}
	if near := nearest(text, names); near != "" && !strings.ContainsAny(text, "0123456789") {
		return 0, fmt.Errorf("unknown unit %s, did you mean %q?", quote(text), near)
	}
	return 0, fmt.Errorf("unknown unit %s, use %s or a duration such as 30s, 5m, 36h or 7d",
		quote(text), strings.Join(names, ", "))
}
