package membroker

import (
	"strconv"

	"github.com/seed81422ce9/jobs/broker"
)

// bag is an unordered set of jobs in a slice. A job knows its position
// in each bag it is in, so adding and removing are O(1).
//
// The slice is a ring. Jobs mostly leave in about the order in which they came,
// and filling each gap with the last one would mean to fetch and write a job
// that has nothing to do with it. So a few gaps stay until those before them
// are gone too.
type bag struct {
	ring       []*job // by position, a power of two of places
	first, end uint32 // positions in use: they rise, and begin anew after the highest number
	gaps       int    // positions in use without a job
	kind       bagKind
}

const (
	mostGaps  = 1000
	smallRing = 64 // places of which none are given back
)

type bagKind uint8

// The bags that a job can be in at the same time.
const (
	byState bagKind = iota
	byHolder
	byKey
	bagKinds
)

func (b *bag) len() int { return b.span() - b.gaps }

func (b *bag) span() int { return int(b.end - b.first) }

func (b *bag) at(position uint32) **job { return &b.ring[position&uint32(len(b.ring)-1)] }

func (b *bag) add(j *job) {
	if b.span() == len(b.ring) {
		b.resize(max(2*len(b.ring), 1))
	}
	j.slots[b.kind] = b.end
	*b.at(b.end) = j
	b.end++
}

// remove lets a job only ever move to a lower position, which page relies on.
func (b *bag) remove(j *job) {
	at := j.slots[b.kind]
	gap := b.at(at)
	if last := b.at(b.end - 1); b.gaps < mostGaps || last == gap {
		*gap = nil
		b.gaps++
	} else {
		*gap, (*last).slots[b.kind] = *last, at
		*last = nil
		b.end--
	}
	b.trim()
}

// trim has the positions in use begin and end with a job, and gives memory back
// after a burst.
func (b *bag) trim() {
	for b.gaps > 0 && *b.at(b.first) == nil {
		b.first++
		b.gaps--
	}
	for b.gaps > 0 && *b.at(b.end - 1) == nil {
		b.end--
		b.gaps--
	}
	size := len(b.ring)
	for size > smallRing && b.span() < size/8 {
		size /= 4
	}
	if size < len(b.ring) {
		b.resize(size)
	}
}

func (b *bag) resize(size int) {
	old := *b
	b.ring = make([]*job, size)
	for p := b.first; p != b.end; p++ {
		*b.at(p) = *old.at(p)
	}
}

// all are the jobs by position.
func (b *bag) all() []*job {
	jobs := make([]*job, 0, b.len())
	for p := b.first; p != b.end; p++ {
		if j := *b.at(p); j != nil {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// page visits at most limit jobs and returns the cursor to go on from, empty
// at the end. It goes from the last position down, and the cursor is the one
// behind the next to visit: a job not visited yet stays below it until it
// leaves the bag, so none that stays is missed (§23).
func (b *bag) page(cursor string, limit int, visit func(*job)) (string, error) {
	next := b.end
	if cursor != "" {
		n, err := strconv.ParseUint(cursor, 10, 32)
		if err != nil {
			return "", badCursor(cursor)
		}
		switch p := uint32(n); {
		case int32(p-b.first) <= 0:
			return "", nil
		case int32(b.end-p) > 0:
			next = p
		}
	}
	for ; next != b.first && limit > 0; next-- {
		if j := *b.at(next - 1); j != nil {
			visit(j)
			limit--
		}
	}
	if next == b.first {
		return "", nil
	}
	return strconv.FormatUint(uint64(next), 10), nil
}

func badCursor(cursor string) error {
	return broker.Invalid("cursor", "%.64q is of no page of this query; start with an empty one", cursor)
}
