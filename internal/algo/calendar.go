package algo

import "time"

// A Calendar names windows that are not all of one length. They begin at
// midnight in the limit's zone; a day that has no midnight, because clocks are
// put forward then, begins at its first moment.
type Calendar uint8

// The zero Calendar stands for windows of one length, aligned to the epoch.
const (
	NoCalendar Calendar = iota
	Daily
	Weekly // from Monday on
	Monthly
	Yearly
)

// WindowAt returns the beginning and the end of the fixed window that holds
// now.
func (l *Limit) WindowAt(now int64) (start, end int64) {
	if l.Calendar == NoCalendar {
		start = now - now%l.Window
		return start, start + l.Window
	}
	zone := l.Zone
	if zone == nil {
		zone = time.UTC
	}
	t := time.UnixMicro(now).In(zone)
	start, end = l.windowOfDay(t, zone)
	if now >= end { // clocks went back into the day before, which is over
		start, end = l.windowOfDay(time.UnixMicro(end).Add(12*time.Hour).In(zone), zone)
	}
	return start, end
}

// windowOfDay returns the window that holds the day of t.
func (l *Limit) windowOfDay(t time.Time, zone *time.Location) (start, end int64) {
	year, month, day := t.Date()
	switch l.Calendar {
	case Daily:
		return dayBegins(zone, year, month, day), dayBegins(zone, year, month, day+1)
	case Weekly:
		day -= (int(t.Weekday()) + 6) % 7
		return dayBegins(zone, year, month, day), dayBegins(zone, year, month, day+7)
	case Monthly:
		return dayBegins(zone, year, month, 1), dayBegins(zone, year, month+1, 1)
	default:
		return dayBegins(zone, year, time.January, 1), dayBegins(zone, year+1, time.January, 1)
	}
}

// dayBegins returns the first moment of a day, which time.Date alone does not
// promise: where midnight is left out it may give the hour before, and where it
// comes twice either.
func dayBegins(zone *time.Location, year int, month time.Month, day int) int64 {
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	noon := time.Date(year, month, day, 12, 0, 0, 0, zone)
	if t.Day() != noon.Day() { // no midnight: the day begins where clocks change
		_, change := t.ZoneBounds()
		return change.UnixMicro()
	}
	if change, _ := t.ZoneBounds(); !change.IsZero() {
		// Midnight as the zone's offset was before the last change.
		_, before := change.Add(-time.Second).Zone()
		_, after := t.Zone()
		if earlier := t.Add(time.Duration(after-before) * time.Second); earlier.Before(change) && earlier.Before(t) {
			return earlier.UnixMicro()
		}
	}
	return t.UnixMicro()
}
