package memory

// A queue is a binary heap of nodes by the time at which they may be dropped.
// A node's time is only a lower bound: a bucket that is used again later stays
// where it is until that time comes, and is then put back. So a take touches
// the queue only when it adds a node, or when its bucket will lapse earlier than
// thought, after a give-back or a clock that stepped back.
type queue []entry

type entry struct {
	at   int64
	node *node
}

func (q *queue) push(e entry) {
	*q = append(*q, e)
	h := *q
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

func (q *queue) replaceFirst(at int64) {
	(*q)[0].at = at
	q.sink()
}

func (q *queue) removeFirst() {
	h := *q
	last := len(h) - 1
	h[0] = h[last]
	h[last] = entry{}
	*q = h[:last]
	q.sink()
}

func (q *queue) sink() {
	h := *q
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h[right].at < h[child].at {
			child = right
		}
		if h[i].at <= h[child].at {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
