package policy

// Enforced reports whether the limit's percentage leaves it enforced for the
// bucket key of a descriptor. Which keys these are is the same everywhere and
// at all times, and whoever is enforced at a percentage is at every higher one.
func (l *Limit) Enforced(key string) bool {
	return l.ShadowPercent <= 0 || percentile(key) < 100-l.ShadowPercent
}

// percentile spreads keys evenly over 0 to 99: 64-bit FNV-1a, whose bits the
// finalizer of MurmurHash3 mixes, since keys often differ in their last bytes
// alone.
func percentile(key string) int {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int((h ^ h>>33) % 100)
}
