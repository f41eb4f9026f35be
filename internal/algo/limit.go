package algo

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// A Limit grants Quota units of cost per Window.
type Limit struct {
	Algorithm Algorithm
	Quota     int64    // units granted per window; 0 denies everything
	Window    int64    // microseconds; of a Calendar window its nominal length
	Burst     int64    // most units admitted at once; bucket algorithms only
	Overdraft int64    // most units owed beyond capacity, by slack or a Charge
	Calendar  Calendar // fixed_window only: windows that follow the calendar
}

// A Calendar names windows that are not all of one length. They begin at
// midnight UTC.
type Calendar uint8

// The zero Calendar stands for windows of one length, aligned to the epoch.
const (
	NoCalendar Calendar = iota
	Monthly
	Yearly
)

// Bounds within which every algorithm is exact.
const (
	MaxQuota  = 1 << 40                  // also of Burst
	MinWindow = 1_000                    // 1 ms
	MaxWindow = 400 * 24 * 3_600_000_000 // 400 days; below 2^45, as muldiv wants
	MaxFill   = 100 * 365 * 24 * 3_600_000_000
)

// Validate reports every reason for which the limit cannot be enforced
// exactly.
func (l *Limit) Validate() error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !l.Algorithm.valid() {
		return fmt.Errorf("unknown algorithm %d", l.Algorithm)
	}
	if l.Quota < 0 || l.Quota > MaxQuota {
		complain("quota %d is not between 0 and %d", l.Quota, int64(MaxQuota))
	}
	if l.Window < MinWindow || l.Window > MaxWindow {
		complain("window %v is not between 1ms and 400 days", time.Duration(l.Window)*time.Microsecond)
	}
	if l.Calendar != NoCalendar && l.Algorithm != FixedWindow {
		complain("%s has no calendar windows", l.Algorithm)
	}
	if l.Overdraft < 0 || l.Overdraft > MaxQuota {
		complain("overdraft %d is not between 0 and %d", l.Overdraft, int64(MaxQuota))
	}
	if len(errs) == 0 {
		errs = append(errs, l.validateBurst())
	}
	return errors.Join(errs...)
}

func (l *Limit) validateBurst() error {
	isBucket := l.Algorithm.IsBucket()
	switch {
	case !isBucket && l.Burst != 0:
		return fmt.Errorf("%s has no burst", l.Algorithm)
	case !isBucket || l.Quota == 0 && l.Burst == 0:
		return nil
	case l.Burst < 0 || l.Burst > MaxQuota:
		return fmt.Errorf("burst %d is not between 0 and %d", l.Burst, int64(MaxQuota))
	case l.Burst == 0:
		return errors.New("burst 0 would deny everything")
	case !fills(l.Burst+l.Overdraft, l.Window, l.Quota):
		return fmt.Errorf("burst %d at %d per %v would take more than 100 years to refill",
			l.Burst, l.Quota, time.Duration(l.Window)*time.Microsecond)
	}
	return nil
}

// fills reports whether units come back within MaxFill.
func fills(units, window, quota int64) bool {
	if units == 0 {
		return true
	}
	hi, lo := bits.Mul64(uint64(units), uint64(window))
	if hi >= uint64(quota) {
		return false
	}
	wait, _ := bits.Div64(hi, lo, uint64(quota))
	return wait <= MaxFill
}

// ID tells apart the states that limits keep side by side in one key. It holds
// what a state means, the algorithm and its windows, and nothing of how much
// is granted: a limit that is raised goes on with the bucket it has.
func (l *Limit) ID() uint64 {
	return uint64(l.Algorithm)<<56 | uint64(l.Calendar)<<48 | uint64(l.Window)
}

// Params returns the limit as the Lua twin of its algorithm takes it at time
// now.
func (l *Limit) Params(now int64) [4]int64 {
	return algorithms[l.Algorithm].params(l, now)
}

// WindowAt returns the beginning and the end of the window that holds now.
func (l *Limit) WindowAt(now int64) (start, end int64) {
	if l.Calendar == NoCalendar {
		start = now - now%l.Window
		return start, start + l.Window
	}
	year, month, _ := time.UnixMicro(now).UTC().Date()
	midnight := func(year int, month time.Month) int64 {
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	}
	if l.Calendar == Yearly {
		return midnight(year, time.January), midnight(year+1, time.January)
	}
	return midnight(year, month), midnight(year, month+1)
}
