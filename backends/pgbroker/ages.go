package pgbroker

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// ages remembers, for each queue, where Queues last saw the oldest job of each lane and
// state, so that the next search can begin there. While the database has an old snapshot, it
// cannot remove the index entries of jobs that are gone, and a search from the front of an
// index reads all these entries.
//
// A search from there may miss a job that appeared late: from a transaction that was open
// for a long time, or from another store, with a time in the past. So each search begins at
// the front, unless the last search from the front took long.
type ages struct {
	mu     sync.Mutex
	queues map[string]*queueAges
	dear   dearness
}

type queueAges struct {
	from  [places]int64
	front time.Time // when a search will again begin at the front

	// drawn is the last seq taken at asked, in µs of the store's time. before is the last seq
	// taken at least dueMargin earlier.
	drawn, before, asked int64
}

// places is how many searches queues.sql makes for the oldest jobs of a queue: in its lanes,
// by seq, and in five states, by time.
const places = lanes + 5

// dearness says which statements of Queues are too slow to search everything each time: those
// that take at least from. Such a statement searches everything again after a pause of share
// times the time that it took.
type dearness struct {
	from  time.Duration
	share int
}

// isDear lets slow statements use at most a twentieth of one connection's time.
var isDear = dearness{from: 50 * time.Millisecond, share: 20}

// dearPause is the longest pause: the oldest jobs that Queues reports may be this old.
const dearPause = time.Minute

// pause returns how long to wait before a statement that took us µs searches everything again.
func (d dearness) pause(us int64) time.Duration {
	took := time.Duration(us) * time.Microsecond
	if took < d.from {
		return 0
	}
	return min(time.Duration(d.share)*took, dearPause)
}

// start returns the queues that are not searched from the front, and where to begin in each.
func (a *ages) start(now time.Time) (queues []string, from []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, q := range a.queues {
		if now.Before(q.front) {
			queues, from = append(queues, name), append(from, q.from[:]...)
		} else if now.Sub(q.front) > dearPause {
			delete(a.queues, name) // no call asks for this queue any more
		}
	}
	return queues, from
}

// agesLook is a search of Queues for the oldest jobs.
type agesLook struct {
	now    time.Time // when it began
	queues []string  // the queues that are not searched from the front
	from   []int64   // where the search begins, by queue and place

	// The answer.
	at, drawn, took int64 // the store's time in µs; the last seq taken; how long the search took in µs
	seen            []agesSeen
}

// agesSeen has what a search found of a queue's oldest jobs: for each place the first seq or
// time, or nil.
type agesSeen struct {
	queue  string
	first  []*int64
	missed bool // some state has jobs, but the search saw none
}

// raise moves the start of the next search up to what a search found.
func (a *ages) raise(l *agesLook) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range l.seen {
		q := a.queues[s.queue]
		if q == nil {
			q = new(queueAges)
			a.queues[s.queue] = q
		}
		if !slices.Contains(l.queues, s.queue) {
			pause := a.dear.pause(l.took)
			if q.front = l.now.Add(pause); pause == 0 {
				delete(a.queues, s.queue)
				continue
			}
		} else if s.missed {
			q.front = l.now
		}
		if l.at-q.asked >= dueMargin {
			q.before, q.drawn, q.asked = q.drawn, l.drawn, l.at
		}
		for i, first := range s.first {
			switch {
			case i < lanes && i%2 == 0:
				q.from[i] = noFloor // front lanes: a new job there has a lower seq than all others
			case i < lanes && first == nil:
				q.from[i] = q.before
			case i < lanes:
				q.from[i] = *first - 1
			default:
				q.from[i] = below(l.at-dueMargin, first)
			}
		}
	}
}

// heldCounts remembers how many leases workers held when Queues last counted them. A count
// reads an index entry for each job that a worker leased since the oldest snapshot in the
// database. If a count took long, Queues returns the same counts until a pause is over.
type heldCounts struct {
	mu    sync.Mutex
	held  map[int64]int // by the number of the worker
	until time.Time
	dear  dearness
}

// known returns the counts that are still used, or nil.
func (h *heldCounts) known(now time.Time) map[int64]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.until) {
		return maps.Clone(h.held)
	}
	return nil
}

// counted records the counts of a look that began at now and took this many µs.
func (h *heldCounts) counted(held map[int64]int, now time.Time, took int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pause := h.dear.pause(took)
	switch {
	case pause == 0:
	case now.Before(h.until): // counts of new workers
		maps.Copy(h.held, held)
	default:
		h.held, h.until = held, now.Add(pause)
	}
}
