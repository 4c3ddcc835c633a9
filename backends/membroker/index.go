package membroker

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// index finds a queue's jobs by ID. A map from ID to job would have the garbage
// collector follow two pointers a job, in an order that no cache likes: with a
// million of them that costs more than all the rest of a job's life. So it is a
// hash table of numbers, open and probed in turn.
type index struct {
	seed  maphash.Seed
	table []uint64 // empty, or half a hash and, in the lower half, a job's number
	jobs  []*job   // by number; nothing has the number 0
	free  []uint32 // numbers without a job

	fetched uint64 // means nothing, but without it fetch would
}

const (
	empty     = 0
	leastSize = 16 // of the table, a power of two as all sizes
)

func newIndex() index {
	return index{seed: maphash.MakeSeed(), table: make([]uint64, leastSize), jobs: make([]*job, 1)}
}

func (x *index) len() int { return len(x.jobs) - 1 - len(x.free) }

func (x *index) hash(id string) uint64 { return maphash.String(x.seed, id) &^ (1<<32 - 1) }

// home is where an entry belongs: its first bits say it, so that a table of
// another size has its entries in nearly the same order.
func (x *index) home(entry uint64) int { return int(entry >> (64 - bits.Len(uint(len(x.table)-1)))) }

func (x *index) after(at int) int { return (at + 1) & (len(x.table) - 1) }

// at returns where a hash's entry is for which is holds, or an empty place.
func (x *index) at(hash uint64, is func(number uint32) bool) int {
	at := x.home(hash)
	for e := x.table[at]; e != empty && (e>>32 != hash>>32 || !is(uint32(e))); e = x.table[at] {
		at = x.after(at)
	}
	return at
}

// get is the job with an ID, or nil.
func (x *index) get(id string) *job {
	at := x.at(x.hash(id), func(number uint32) bool { return x.jobs[number].id == id })
	return x.jobs[uint32(x.table[at])] // of an empty place nothing
}

// fetch has the processor bring the place of an ID into its caches. For many IDs
// in a row, before the first of them is looked up, the ways to memory overlap.
func (x *index) fetch(id string) { x.fetched ^= x.table[x.home(x.hash(id))] }

// add takes in a job whose ID no other has.
func (x *index) add(j *job) {
	if last := len(x.free) - 1; last >= 0 {
		j.number, x.free = x.free[last], x.free[:last]
		x.jobs[j.number] = j
	} else {
		j.number = uint32(len(x.jobs))
		x.jobs = append(x.jobs, j)
	}
	if x.len()*3 > len(x.table)*2 {
		x.resize(2 * len(x.table))
	}
	x.enter(x.hash(j.id) | uint64(j.number))
}

func (x *index) enter(entry uint64) {
	x.table[x.at(entry, func(uint32) bool { return false })] = entry
}

func (x *index) remove(j *job) {
	gap := x.at(x.hash(j.id), func(number uint32) bool { return number == j.number })
	// What comes behind the gap and belongs at it or before it moves there.
	for at := x.after(gap); x.table[at] != empty; at = x.after(at) {
		if home := x.home(x.table[at]); (at-home)&(len(x.table)-1) >= (at-gap)&(len(x.table)-1) {
			x.table[gap], gap = x.table[at], at
		}
	}
	x.table[gap] = empty
	x.jobs[j.number] = nil
	x.free = append(x.free, j.number)
	if len(x.table) > leastSize && x.len() < len(x.table)/16 {
		x.renumber()
	}
}

func (x *index) resize(size int) {
	entries := x.table
	x.table = make([]uint64, size)
	for _, e := range entries {
		if e != empty {
			x.enter(e)
		}
	}
}

// renumber gives memory back after a burst: the few jobs that are left get the
// lowest numbers.
func (x *index) renumber() {
	all := x.jobs
	*x = index{seed: x.seed, table: make([]uint64, len(x.table)/4), jobs: make([]*job, 1, 2*x.len()+1)}
	for _, j := range all {
		if j != nil {
			x.add(j)
		}
	}
}

// ids are the IDs of all jobs.
func (x *index) ids() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, j := range x.jobs {
			if j != nil && !yield(j.id) {
				return
			}
		}
	}
}
