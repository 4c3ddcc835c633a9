package pgbroker

import (
	"slices"
	"sync"
	"time"
)

// ages remembers, for each queue, where Queues last saw the oldest job of each lane and
// state, so that the next search can begin there. While a snapshot in the database is
// old, index entries of jobs that are gone cannot be removed, and a search from the front
// of an index reads all of them.
//
// A search from there may miss a job that appeared late: from a transaction that was open
// for long, or from another store, with a time in the past. So each search begins at the
// front, unless the last one from there took long.
type ages struct {
	mu     sync.Mutex
	queues map[string]*queueAges
	dear   dearness
}

type queueAges struct {
	from  [places]int64
	front time.Time // from then on a search begins at the front

	// The last seq taken: at asked, in µs of the store's time, and at least dueMargin before.
	drawn, before, asked int64
}

// places is how many searches queues.sql makes for the oldest jobs of a queue: in its lanes,
// by seq, and in five states, by time.
const places = lanes + 5

// dearness says which statements of Queues are too slow to search everything each time: those
// that take at least from. They search everything again after share times the time that they
// took.
type dearness struct {
	from  time.Duration
	share int
}

// isDear lets such statements use a twentieth of one connection's time.
var isDear = dearness{from: 50 * time.Millisecond, share: 20}

// dearPause is the longest pause.
const dearPause = time.Minute

// pause returns how long not to repeat a statement that took this many µs.
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
			delete(a.queues, name) // nobody asks for it any more
		}
	}
	return queues, from
}

// agesLook is a search of Queues for the oldest jobs.
type agesLook struct {
	now    time.Time // when it began
	queues []string  // that are not searched from the front
	from   []int64   // where it begins, by queue and place

	// The answer.
	at, drawn, took int64 // the store's time, µs; the last seq taken; how long it took, µs
	seen            []agesSeen
}

// agesSeen has what a search saw of a queue's oldest jobs: at each place the first seq or
// time, or none.
type agesSeen struct {
	queue  string
	first  []*int64
	missed bool // some state has jobs, but the search saw none
}

// raise moves the start of the next search up to what a search found.
func (a *ages) raise(l *agesLook) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.queues == nil {
		a.queues = make(map[string]*queueAges)
	}
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
				q.from[i] = noFloor // front lanes: each job that is put there has a lower seq
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
