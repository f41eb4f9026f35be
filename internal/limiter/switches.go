package limiter

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlsd/rlsd/internal/policy"
)

// A Mode is how far a limit is in force.
type Mode uint8

// The modes.
const (
	Enforced Mode = iota // its denials deny
	Shadowed             // reported, never enforced
	Off                  // neither asked nor counted
)

var modes = [...]string{Enforced: "enforced", Shadowed: "shadow", Off: "off"}

// String returns the name of the mode.
func (m Mode) String() string { return modes[m] }

// A Target is what a switch is set on: a limit, a domain if Limit is empty, or
// everything if both are.
type Target struct{ Domain, Limit string }

// String describes the target.
func (t Target) String() string {
	switch {
	case t.Limit != "":
		return fmt.Sprintf("limit %q of the domain %q", t.Limit, t.Domain)
	case t.Domain != "":
		return fmt.Sprintf("domain %q", t.Domain)
	default:
		return "everything"
	}
}

// A Switch takes force from limits, whatever the rules say, until it is cleared
// or its time is up.
type Switch struct {
	Target Target
	Mode   Mode // Shadowed, or Off for one limit
	Since  time.Time
	Until  time.Time // zero is until it is cleared
	By     string    // who set it
}

// Switches are those that are set on a limiter. They live in this process: they
// need no store, outlast a reload of the rules, and end with the process. They
// are safe for concurrent use.
type Switches struct {
	policies func() *policy.Snapshot
	mu       sync.Mutex
	set      []Switch                 // in the order of setting
	inForce  atomic.Pointer[switched] // what set says; nil if it is empty
}

func newSwitches(policies func() *policy.Snapshot) *Switches { return &Switches{policies: policies} }

// Set sets a switch in place of the one on the same target. It refuses one that
// names nothing in the rules.
func (s *Switches) Set(sw Switch) error {
	if err := s.check(&sw); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(sw.Target)
	s.set = append(s.set, sw)
	s.publish()
	return nil
}

func (s *Switches) check(sw *Switch) error {
	t := sw.Target
	switch {
	case t.Domain == "" && t.Limit != "":
		return fmt.Errorf("the limit %q needs its domain", t.Limit)
	case sw.Mode == Enforced:
		return errors.New("to enforce what the rules say, clear the switch")
	case sw.Mode == Off && t.Limit == "":
		return errors.New("only a single limit can be off: name it, or put the whole into shadow")
	case s.Idle(t) && t.Limit != "" && s.policies().Policy(t.Domain) != nil:
		return fmt.Errorf("the domain %q has no limit %q: see /policies for the names", t.Domain, t.Limit)
	case s.Idle(t):
		return fmt.Errorf("there is no domain %q: see /policies for the names", t.Domain)
	}
	return nil
}

// Clear clears the switch on a target, and reports whether there was one.
func (s *Switches) Clear(t Target) (Switch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sw, ok := s.drop(t)
	s.publish()
	return sw, ok
}

// Expire clears the switches whose time is up, and returns them.
func (s *Switches) Expire(now time.Time) (over []Switch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sw := range slices.Clone(s.set) {
		if !sw.Until.IsZero() && !now.Before(sw.Until) {
			s.drop(sw.Target)
			over = append(over, sw)
		}
	}
	if over != nil {
		s.publish()
	}
	return over
}

// List returns the switches that are set, the oldest first.
func (s *Switches) List() []Switch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.set)
}

// Idle reports whether a target names nothing in the rules, as when its limit
// has gone since the switch was set.
func (s *Switches) Idle(t Target) bool {
	if t == (Target{}) {
		return false
	}
	snapshot := s.policies()
	if t.Limit == "" {
		return snapshot.Policy(t.Domain) == nil
	}
	return !slices.ContainsFunc(snapshot.Limits(), func(l *policy.Limit) bool { return target(l) == t })
}

// Mode returns how far a limit is in force, by the rules and the switches. One
// that is enforced for a percentage of its keys is Enforced.
func (s *Switches) Mode(l *policy.Limit) Mode {
	mode := s.inForce.Load().mode(l)
	if mode == Enforced && l.Shadow {
		return Shadowed
	}
	return mode
}

func (s *Switches) drop(t Target) (dropped Switch, ok bool) {
	i := slices.IndexFunc(s.set, func(sw Switch) bool { return sw.Target == t })
	if i < 0 {
		return Switch{}, false
	}
	dropped = s.set[i]
	s.set = slices.Delete(s.set, i, i+1)
	return dropped, true
}

// publish puts into force what is set.
func (s *Switches) publish() {
	if len(s.set) == 0 {
		s.inForce.Store(nil)
		return
	}
	next := make(switched, len(s.set))
	for _, sw := range s.set {
		next[sw.Target] = sw.Mode
	}
	s.inForce.Store(&next)
}

// switched is what all switches come to. It is immutable; nil is none.
type switched map[Target]Mode

// mode returns the strongest of those that a limit is under.
func (s *switched) mode(l *policy.Limit) Mode {
	if s == nil {
		return Enforced
	}
	wide := max((*s)[Target{Domain: l.Domain}], (*s)[Target{}])
	if nameless(l) {
		return wide
	}
	return max((*s)[target(l)], wide)
}

// modeFor returns how far a limit is in force for the key of a descriptor, by the
// rules and the switches.
func (s *switched) modeFor(l *policy.Limit, key string) Mode {
	mode := s.mode(l)
	if mode == Enforced && (l.Shadow || !l.Enforced(key)) {
		return Shadowed
	}
	return mode
}

// nameless reports whether the limit stands for an override that no rule is for:
// should one of the configuration have its name, that is another.
func nameless(l *policy.Limit) bool { return l.Source == policy.Source{} }

func target(l *policy.Limit) Target { return Target{l.Domain, l.Name} }
