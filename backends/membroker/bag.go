package membroker

import (
	"slices"
	"strconv"

	"github.com/seed81422ce9/jobs/broker"
)

// bag is an unordered set of jobs in a dense slice. A job knows its position
// in each bag it is in, so adding and removing are O(1).
type bag struct {
	jobs []*job
	kind bagKind
}

type bagKind uint8

// The bags that a job can be in at the same time.
const (
	byState bagKind = iota
	byHolder
	byKey
	bagKinds
)

func (b *bag) len() int { return len(b.jobs) }

func (b *bag) add(j *job) {
	j.slots[b.kind] = int32(len(b.jobs))
	b.jobs = append(b.jobs, j)
}

// remove fills the gap with the last job: a job only ever moves to a lower
// position, which page relies on.
func (b *bag) remove(j *job) {
	at, last := j.slots[b.kind], len(b.jobs)-1
	moved := b.jobs[last]
	b.jobs[at], moved.slots[b.kind] = moved, at
	b.jobs[last] = nil
	b.jobs = b.jobs[:last]
	if cap(b.jobs) > 64 && last < cap(b.jobs)/4 {
		b.jobs = slices.Grow(slices.Clip(slices.Clone(b.jobs)), last) // give memory back after a burst
	}
}

// page visits at most limit jobs and returns the cursor to go on from, empty
// at the end. It goes from the last position down, and the cursor is the number
// of positions still to visit: a job not visited yet stays below it until it
// leaves the bag, so none that stays is missed (§23).
func (b *bag) page(cursor string, limit int, visit func(*job)) (string, error) {
	left := len(b.jobs)
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 0 {
			return "", badCursor(cursor)
		}
		left = min(left, n)
	}
	for ; left > 0 && limit > 0; limit-- {
		left--
		visit(b.jobs[left])
	}
	if left == 0 {
		return "", nil
	}
	return strconv.Itoa(left), nil
}

func badCursor(cursor string) error {
	return broker.Invalid("cursor", "%.64q is of no page of this query; start with an empty one", cursor)
}
