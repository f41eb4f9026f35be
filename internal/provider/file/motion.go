package file

const (
	// calm is how many looks in a row must find a file as it was before it is
	// read, so that one which is being written is not taken for a shorter one.
	calm = 2
	// patience is after how many looks the files that are calm no longer wait
	// for those that are not.
	patience = 5
)

// A motion tells files that are being changed from those that have been.
type motion struct {
	seen   map[string]stamp
	same   map[string]int // looks in a row that found a file as it was, or gone
	waited int            // looks since there first was something to take
}

// observe takes note of another look. It returns the files that differ from what
// was taken of them and have to be left alone for now, and whether there is
// anything to take that need not wait for these.
func (m *motion) observe(found, taken map[string]stamp) (moving map[string]bool, ready bool) {
	same := make(map[string]int, len(found))
	moving = map[string]bool{}
	changes := 0
	note := func(name string) {
		if _, noted := same[name]; noted {
			return
		}
		now, here := found[name]
		before, was := m.seen[name]
		same[name] = 0
		if now == before && here == was {
			same[name] = m.same[name] + 1
		}
		if old, had := taken[name]; now == old && here == had {
			return
		}
		changes++
		if same[name] < calm {
			moving[name] = true
		}
	}
	for _, names := range []map[string]stamp{found, taken, m.seen} {
		for name := range names {
			note(name)
		}
	}
	m.seen, m.same = found, same
	if changes == 0 {
		m.waited = 0
		return nil, false
	}
	m.waited++
	return moving, len(moving) == 0 || m.waited >= patience && changes > len(moving)
}
