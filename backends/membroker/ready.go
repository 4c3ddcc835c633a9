package membroker

// ready holds the pending jobs of one priority in the order of their turn
// (§16): a list through the jobs themselves, so that a job which is cancelled,
// deleted or rescheduled while pending leaves it in O(1).
type ready struct{ first, last *job }

func (r *ready) pushBack(j *job) {
	j.prev, j.next = r.last, nil
	if r.last != nil {
		r.last.next = j
	} else {
		r.first = j
	}
	r.last = j
}

func (r *ready) pushFront(j *job) {
	j.prev, j.next = nil, r.first
	if r.first != nil {
		r.first.prev = j
	} else {
		r.last = j
	}
	r.first = j
}

func (r *ready) remove(j *job) {
	if j.prev != nil {
		j.prev.next = j.next
	} else {
		r.first = j.next
	}
	if j.next != nil {
		j.next.prev = j.prev
	} else {
		r.last = j.prev
	}
	j.prev, j.next = nil, nil
}
