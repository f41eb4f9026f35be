package policy

import "fmt"

// A ChargeMode says when a limit records a cost in full though it does not fit,
// to be paid off before anything else is admitted.
type ChargeMode uint8

// The charge modes.
const (
	ChargeNever    ChargeMode = iota // a denied request takes nothing
	ChargeAlways                     // overdraft: on
	ChargePostPaid                   // overdraft: auto, for costs that may be of what has happened already
)

var chargeModes = []string{
	ChargeNever:    "off",
	ChargeAlways:   "on",
	ChargePostPaid: "auto",
}

// String returns what configuration calls the mode as the value of overdraft.
func (m ChargeMode) String() string {
	if int(m) < len(chargeModes) {
		return chargeModes[m]
	}
	return fmt.Sprintf("chargemode(%d)", uint8(m))
}
