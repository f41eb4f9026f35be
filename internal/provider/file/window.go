package file

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rlsd/rlsd/internal/algo"
)

const day = 24 * time.Hour

// units are the windows that have a name.
var units = []struct {
	name     string
	length   time.Duration
	calendar algo.Calendar
}{
	{"second", time.Second, algo.NoCalendar},
	{"minute", time.Minute, algo.NoCalendar},
	{"hour", time.Hour, algo.NoCalendar},
	{"day", day, algo.NoCalendar},
	{"week", 7 * day, algo.NoCalendar},
	{"month", 30 * day, algo.Monthly},
	{"year", 365 * day, algo.Yearly},
}

// window returns a window in microseconds and, for one that follows the
// calendar, which.
func (d *decoder) window(v *value) (int64, algo.Calendar) {
	text, ok := d.text(v)
	if !ok {
		return 0, algo.NoCalendar
	}
	for _, unit := range units {
		if strings.EqualFold(unit.name, text) {
			return unit.length.Microseconds(), unit.calendar
		}
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
		return length.Microseconds(), algo.NoCalendar
	}
	return 0, algo.NoCalendar
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
