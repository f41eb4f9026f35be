package algo

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"time"
)

// A Limit grants Quota units of cost per Window.
type Limit struct {
	Algorithm Algorithm
	Quota     int64          // units granted per window; 0 denies everything
	Window    int64          // microseconds; of a Calendar window its nominal length
	Burst     int64          // most units admitted at once; bucket algorithms only
	Overdraft int64          // most units owed beyond capacity, by slack or a Charge
	MaxDelay  int64          // microseconds; leaky_bucket only, 0 for any
	Calendar  Calendar       // fixed_window only: windows that follow the calendar
	Zone      *time.Location // whose calendar; nil is UTC
}

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
	if !l.Algorithm.valid() {
		return fmt.Errorf("unknown algorithm %d", l.Algorithm)
	}
	var errs []error
	if l.Quota < 0 || l.Quota > MaxQuota {
		errs = append(errs, fmt.Errorf("quota %d is not between 0 and %d", l.Quota, int64(MaxQuota)))
	}
	if l.Window < MinWindow || l.Window > MaxWindow {
		errs = append(errs, fmt.Errorf("window %v is not between 1ms and 400 days", duration(l.Window)))
	}
	if l.Overdraft < 0 || l.Overdraft > MaxQuota {
		errs = append(errs, fmt.Errorf("overdraft %d is not between 0 and %d", l.Overdraft, int64(MaxQuota)))
	}
	errs = append(errs, l.validateCalendar(), l.validateDelay())
	if errors.Join(errs...) == nil {
		errs = append(errs, l.validateBurst())
	}
	return errors.Join(errs...)
}

func (l *Limit) validateCalendar() error {
	switch {
	case l.Calendar != NoCalendar && l.Algorithm != FixedWindow:
		return fmt.Errorf("%s has no calendar windows", l.Algorithm)
	case l.Calendar == NoCalendar && l.Zone != nil:
		return errors.New("a time zone means nothing to a window that is not of the calendar")
	}
	return nil
}

func (l *Limit) validateDelay() error {
	switch {
	case l.MaxDelay != 0 && l.Algorithm != LeakyBucket:
		return fmt.Errorf("%s has no max_delay", l.Algorithm)
	case l.MaxDelay < 0 || l.MaxDelay > MaxFill:
		return fmt.Errorf("max_delay %v is not between 0 and 100 years", duration(l.MaxDelay))
	}
	return nil
}

func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

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
			l.Burst, l.Quota, duration(l.Window))
	}
	return nil
}

// MostOverdraft returns the largest overdraft that the limit can have: what one
// charge may owe, and no more than comes back within [MaxFill].
func (l *Limit) MostOverdraft() int64 {
	if !l.Algorithm.IsBucket() {
		return MaxCharge
	}
	hi, lo := bits.Mul64(MaxFill, uint64(l.Quota))
	if hi >= uint64(l.Window) {
		return MaxCharge
	}
	units, _ := bits.Div64(hi, lo, uint64(l.Window))
	return min(MaxCharge, max(0, int64(min(units, MaxQuota))-l.Burst))
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
	id := uint64(l.Algorithm)<<56 | uint64(l.Calendar)<<48
	if l.Zone == nil || l.Zone == time.UTC {
		return id | uint64(l.Window)
	}
	zone := fnv.New64a()
	_, _ = zone.Write([]byte(l.Zone.String())) // a hash does not fail
	return id | zone.Sum64()&(1<<48-1)
}

// OfID returns the algorithm of an ID.
func OfID(id uint64) Algorithm { return Algorithm(id >> 56) }

// Params returns the limit as the Lua twin of its algorithm takes it at time
// now.
func (l *Limit) Params(now int64) [5]int64 {
	return algorithms[l.Algorithm].params(l, now)
}
