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

func newIndex(seed maphash.Seed) index {
	return index{seed: seed, table: make([]uint64, leastSize), jobs: make([]*job, 1)}
}

func (x *index) len() int { return len(x.jobs) - 1 - len(x.free) }

// hashOf is half of an ID's hash. All indexes of a store share the seed, so that
// it can be made before the store is locked.
func hashOf(seed maphash.Seed, id string) uint32 { return uint32(maphash.String(seed, id) >> 32) }

func (j *job) entry() uint64 { return uint64(j.hash)<<32 | uint64(j.number) }

// home is where an entry belongs: its first bits say it, so that a table of
// another size has its entries in nearly the same order.
func (x *index) home(entry uint64) int { return int(entry >> (64 - bits.Len(uint(len(x.table)-1)))) }

func (x *index) after(at int) int { return (at + 1) & (len(x.table) - 1) }

// get is the job with an ID, or nil.
func (x *index) get(id string) *job { return x.find(id, hashOf(x.seed, id)) }

// find is get for who knows the ID's hash.
func (x *index) find(id string, hash uint32) *job {
	at := x.home(uint64(hash) << 32)
	for e := x.table[at]; e != empty; e = x.table[at] {
		if uint32(e>>32) == hash {
			if j := x.jobs[uint32(e)]; j.id == id {
				return j
			}
		}
		at = x.after(at)
	}
	return nil
}

// fetch has the processor bring the place of a hash into its caches, and what
// is read behind it, which may be in the next line of memory. For many in a row,
// before the first of them is looked up, the ways to memory overlap.
func (x *index) fetch(hash uint32) {
	const behind = 3
	at := x.home(uint64(hash) << 32)
	x.fetched ^= x.table[at] ^ x.table[(at+behind)&(len(x.table)-1)]
}

// add takes in a job, with its hash, whose ID no other has.
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
	x.enter(j.entry())
}

func (x *index) enter(entry uint64) {
	at := x.home(entry)
	for x.table[at] != empty {
		at = x.after(at)
	}
	x.table[at] = entry
}

func (x *index) remove(j *job) {
	entry := j.entry()
	gap := x.home(entry)
	for x.table[gap] != entry && x.table[gap] != empty {
		gap = x.after(gap)
	}
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
