package pgbroker

import (
	"math"
	"sync"
	"time"
)

// floors remembers, for each queue and lane, up to which seq no job is pending, so that
// claims begin their index scans there. While the database has an old snapshot, it cannot
// remove the index entries of claimed jobs, and a scan from the front of the index reads
// all of them.
//
// A floor is exact. Every transaction gets its ID before it takes a seq. Let S be the last
// seq taken. The transactions that took seqs up to S have lower IDs than a transaction X that
// gets its ID afterwards. Once a snapshot says that all transactions before X have ended, no
// job with a seq up to S can appear any more, since each transition into a lane takes a new
// seq. The same snapshot shows all pending jobs, even jobs locked by a claim that may roll
// back. The floor is then S, or just below the first pending job in the snapshot.
//
// A single open transaction that has written keeps the exact floor from rising. While the
// floor lags, claims begin at a second floor, which does not wait for transactions that have
// been open for longer than oldAge. It may pass their jobs, so claims then often sweep, that
// is, scan from the front. Even without a lag they sweep several times per default lease, less
// often only if sweeps are slow: a server restored from a backup takes the same seqs again.
//
// Front lanes have no floor, since a new job there has a lower seq than all others.
//
// Claims of due jobs begin where the last look saw the first due job, but not later than
// dueMargin ago, since jobs may become visible after their due time. Jobs that become visible
// much later wait for a sweep: jobs of a transaction that was open for a long time, held
// jobs, and jobs from other stores whose time has passed.
type floors struct {
	mu     sync.Mutex
	queues map[string]*queueFloors
	jobs   int // the number of jobs claimed since the last look
	looked time.Time

	// Transactions with IDs up to old have been open for oldAge, and those up to aging will have been, oldAge after aged.
	old, aging int64
	aged       time.Time
}

type queueFloors struct {
	safe, ahead [lanes]int64  // the exact floors, and those that do not wait for old transactions
	swept       time.Time     // when a claim began at the very front
	pause       time.Duration // between sweeps
	doubted     bool          // a job may have appeared below ahead
	drawn       int64         // the last seq taken, as of the last look
	next, soon  candidate     // for safe and ahead
	nextSafe    bool          // the transactions of next had ended at the last look
	due         dueFloor
}

// candidate is a seq that becomes a floor once all transactions up to an ID have ended.
type candidate struct{ seq, xact int64 }

// ended reports whether there is a candidate, and its transactions have ended: the oldest one that runs is given.
func (c candidate) ended(oldest int64) bool { return c.seq > 0 && oldest > c.xact }

// dueFloor is a position in the order of due times up to which no job was seen.
type dueFloor struct{ at, seq int64 }

var noDueFloor = dueFloor{noFloor, noFloor}

const (
	noFloor = math.MinInt64

	// A floor lags when it is this many seqs behind: that is more than a few looks at full
	// load.
	lagging = 5000

	sweepPause   = 5 * time.Second        // a third of a default lease
	laggingPause = 250 * time.Millisecond // while floors lag
	doubtedShare = 5                      // while floors lag and a job may have been missed, the pause is divided by this
	sweepShare   = 20                     // the pause is at least this many times the duration of the last sweep

	// oldAge is longer than an enqueue takes, except in a transaction of the caller, and so short that a claim
	// does not read many dead entries until then.
	oldAge = time.Second

	// dueMargin is how long after its due time a job may become visible and still be found
	// without a sweep. For that, claims skip dead entries of at most this time.
	dueMargin = int64(2 * time.Second / time.Microsecond)

	// A look is worth its cost after so many jobs, or after so much time.
	lookJobs  = 500
	lookPause = 5 * time.Millisecond
)

// start returns where a claim of these queues begins to scan, for pending jobs and for due
// jobs, and whether it sweeps one of the queues.
func (f *floors) start(queues []string, now time.Time) (from []int64, due dueFloors, sweep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from = make([]int64, 0, len(queues)*lanes)
	for _, name := range queues {
		q := f.queue(name)
		pause := q.pause
		if !q.lags() {
			pause = max(pause, sweepPause)
		} else if q.doubted {
			pause /= doubtedShare
		}
		if now.Sub(q.swept) >= pause {
			q.swept, q.doubted, sweep = now, false, true
			for range lanes {
				from = append(from, noFloor)
			}
			q.due = noDueFloor // so that the next claims find the due jobs that the sweep leaves
			f.jobs++           // so that there is a look, which raises the floor again
			due.add(q.due)
			continue
		}
		due.add(q.due)
		for lane := range lanes {
			floor := q.safe[lane]
			if q.ahead[lane]-floor > lagging {
				floor = q.ahead[lane]
			}
			from = append(from, floor)
		}
	}
	return from, due, sweep
}

// look is a look at the floors of queues that is under way.
type look struct {
	queues []string
	floors []int64 // where it begins to search, by queue and lane
	due    dueFloors
	old    int64   // transactions up to this ID are old
	near   []bool  // by queue: whether floors are ahead of the exact ones
	drawn  []int64 // by queue: the last seq known to be taken before the look's transaction began

	// The answer.
	xmin, young     int64    // the IDs of the oldest transaction that ran, and of the oldest one that was not old
	xact            int64    // the ID of the look's own
	last            int64    // the last seq taken
	first           []*int64 // by queue and lane: the first pending seq above the floor
	at              int64    // the store's time
	dueAt, dueTurns []*int64 // by queue: the first position in the order of due times above the floor
}

// step returns the statement of a look.
func (l *look) step(b *Broker) step {
	return b.step("floor", one(&l.xmin, &l.young, &l.xact, &l.last, &l.first, &l.at, &l.dueAt, &l.dueTurns), l.queues, l.floors, l.old,
		l.due.at, l.due.seq)
}

// dueFloors are the due floors of several queues, as statements take them.
type dueFloors struct{ at, seq []int64 }

func (d *dueFloors) add(f dueFloor) { d.at, d.seq = append(d.at, f.at), append(d.seq, f.seq) }

// noDueFloors returns the floors for a request that has its own Now.
func noDueFloors(queues int) (d dueFloors) {
	for range queues {
		d.add(noDueFloor)
	}
	return d
}

// look begins a look at the floors, or returns nil if it is not yet worth its cost. For
// an urgent claim, for which a worker waits, only the number of jobs counts, not the time.
func (f *floors) look(queues []string, now time.Time, urgent bool) *look {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobs < lookJobs && (f.jobs == 0 || urgent || now.Sub(f.looked) < lookPause) {
		return nil
	}
	f.jobs, f.looked = 0, now
	l := &look{queues: queues, old: f.old}
	for _, name := range queues {
		q := f.queue(name)
		// A look from an exact floor that lags reads all entries above the floor. That is
		// worth its cost only if the look can raise the floor.
		near, from := q.lags() && !q.nextSafe, q.safe
		if near {
			from = q.ahead
		}
		l.floors, l.near, l.drawn = append(l.floors, from[:]...), append(l.near, near), append(l.drawn, q.drawn)
		l.due.add(q.due)
	}
	return l
}

// queue returns a queue's floors; f.mu is held.
func (f *floors) queue(name string) *queueFloors {
	q := f.queues[name]
	if q == nil {
		q = new(queueFloors)
		q.reset()
		if f.queues == nil {
			f.queues = make(map[string]*queueFloors)
		}
		f.queues[name] = q
	}
	return q
}

func (q *queueFloors) reset() {
	*q = queueFloors{pause: laggingPause, due: noDueFloor}
	for lane := 0; lane < lanes; lane += 2 {
		q.safe[lane], q.ahead[lane] = noFloor, noFloor
	}
}

// doubt records that a transaction of a caller has stored jobs in a queue. If it was open for
// a long time, the jobs may be below the position where claims begin.
func (f *floors) doubt(queue string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue(queue).doubted = true
}

func (q *queueFloors) lags() bool {
	for lane := range lanes {
		if q.ahead[lane]-q.safe[lane] > lagging {
			return true
		}
	}
	return false
}

// claimed records how many jobs a claim leased or made pending, whichever is more, and, if it
// was a sweep, how long it took.
func (f *floors) claimed(queues []string, jobs int, sweep bool, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs += jobs
	if sweep {
		for _, name := range queues {
			f.queue(name).pause = min(max(laggingPause, sweepShare*took), time.Minute)
		}
	}
}

// raise raises the floors of queues to what a look found.
func (f *floors) raise(l *look, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(l.first) != len(l.queues)*lanes || len(l.dueAt) != len(l.queues) || len(l.dueTurns) != len(l.queues) {
		return
	}
	for i, name := range l.queues {
		q := f.queue(name)
		q.raise(l, l.near[i], l.drawn[i], l.first[i*lanes:][:lanes])
		q.due = dueFloor{l.at - dueMargin, noFloor}
		if at := l.dueAt[i]; at != nil && *at <= q.due.at {
			q.due = dueFloor{*at, *l.dueTurns[i] - 1}
		}
	}
	switch {
	case l.xact < f.old: // IDs went back: another server, or this one restored from a backup
		f.old, f.aging = 0, 0
	case now.Sub(f.aged) >= oldAge:
		f.old, f.aging, f.aged = f.aging, l.xact, now
	}
}

func (q *queueFloors) raise(l *look, near bool, drawn int64, first []*int64) {
	if l.last < drawn {
		q.reset() // seqs went back: another server, or this one restored from a backup
		drawn = 0
	}
	q.nextSafe = q.next.ended(l.xmin)
	soon := q.soon.ended(l.young)
	for lane := 1; lane < lanes; lane += 2 {
		ahead := q.ahead[lane]
		if soon {
			ahead = max(ahead, q.soon.seq)
		}
		if ahead = below(ahead, first[lane]); near {
			ahead = max(ahead, q.ahead[lane])
		} else if q.nextSafe {
			q.safe[lane] = max(q.safe[lane], below(q.next.seq, first[lane]))
		}
		q.ahead[lane] = max(q.safe[lane], ahead)
	}
	if q.nextSafe && !near {
		q.nextSafe, q.next = false, candidate{}
	}
	if q.next.seq == 0 {
		q.next = candidate{drawn, l.xact}
	}
	if q.soon.seq == 0 || soon {
		q.soon = candidate{drawn, l.xact}
	}
	q.drawn = max(q.drawn, l.last)
}

func below(seq int64, first *int64) int64 {
	if first != nil {
		return min(seq, *first-1)
	}
	return seq
}
