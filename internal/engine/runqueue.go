package engine

// runQueue is a first-in, first-out queue of runs in a ring.
type runQueue struct {
	ring  []*Run
	head  int
	count int
}

func (q *runQueue) len() int   { return q.count }
func (q *runQueue) peek() *Run { return q.ring[q.head] }

func (q *runQueue) push(r *Run) {
	if q.count == len(q.ring) {
		ring := make([]*Run, max(64, 2*len(q.ring)))
		n := copy(ring, q.ring[q.head:])
		copy(ring[n:], q.ring[:q.head])
		q.ring, q.head = ring, 0
	}
	*q.entry(q.count) = r
	q.count++
}

func (q *runQueue) pop() *Run {
	r := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	return r
}

// at returns the i-th run from the first.
func (q *runQueue) at(i int) *Run { return *q.entry(i) }

func (q *runQueue) entry(i int) **Run { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// take removes the i-th run. Those before it move up.
func (q *runQueue) take(i int) *Run {
	r := q.at(i)
	for ; i > 0; i-- {
		*q.entry(i) = q.at(i - 1)
	}
	q.pop()
	return r
}

func (q *runQueue) each(f func(*Run)) {
	for i := range q.count {
		f(q.at(i))
	}
}
