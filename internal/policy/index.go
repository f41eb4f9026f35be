package policy

import "slices"

// An index finds the first of an ordered list that covers a value. It tries only
// those whose literal prefix the value has.
type index[T covering] struct {
	all     []T
	lengths []int            // of the prefixes
	at      map[string][]int // by prefix, in order
}

type covering interface {
	literalPrefix() string
	covers(value string) bool
	leadsTo() *node
}

func newIndex[T covering](ordered []T) index[T] {
	x := index[T]{all: ordered, at: map[string][]int{}}
	for i := range ordered {
		prefix := ordered[i].literalPrefix()
		x.at[prefix] = append(x.at[prefix], i)
		if !slices.Contains(x.lengths, len(prefix)) {
			x.lengths = append(x.lengths, len(prefix))
		}
	}
	return x
}

func (x *index[T]) find(value string) *node {
	best := len(x.all)
	for _, length := range x.lengths {
		if length > len(value) {
			continue
		}
		for _, i := range x.at[value[:length]] {
			if i >= best {
				break
			}
			if x.all[i].covers(value) {
				best = i
				break
			}
		}
	}
	if best == len(x.all) {
		return nil
	}
	return x.all[best].leadsTo()
}
