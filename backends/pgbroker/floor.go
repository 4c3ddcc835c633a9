package pgbroker

import (
	"math"
	"sync"
	"time"
)

// floors remembers, for each queue and lane, up to which seq nothing is pending, so that
// claims begin their index scans there. While a snapshot in the database is old, the
// entries of claimed jobs cannot be removed from the index, and a scan from its front
// reads all of them.
//
// A floor is exact. Every transaction gets its ID before it takes a seq. Let S be the last
// seq taken. Transactions that took seqs up to S have lower IDs than one that gets its ID
// afterwards. Once a snapshot says that all below that ID have ended, no job with a seq up
// to S can appear any more, since each transition into a lane takes a new seq. The same
// snapshot shows all pending jobs, even those locked by a claim that may roll back. The
// floor is S, or stays below the first job shown.
//
// One open transaction that has written holds the exact floor back. When the floor lags,
// claims begin where the last snapshot saw the first pending job, which may miss jobs of
// open transactions. So they often sweep: they scan from the front. They sweep now and
// then in any case, because a server restored from a backup gives out seqs again: twice in
// a default lease, and less often only while sweeps are slow.
//
// Front lanes have no floor: each job that is put there has a lower seq.
//
// Claims of due jobs begin where the last look saw the first one, but not within the last
// seconds, since jobs may become visible after their due time. Jobs that become visible
// much later wait for a sweep: those of a transaction that was open for long, held jobs,
// and jobs from other stores whose time has passed.
type floors struct {
	mu     sync.Mutex
	queues map[string]*queueFloors
	jobs   int // claimed since the last look
	looked time.Time
}

type queueFloors struct {
	safe, ahead [lanes]int64
	swept       time.Time     // when a claim began at the very front
	pause       time.Duration // between sweeps
	doubted     bool          // a job may have come that lies below ahead
	drawn       int64         // the last seq taken, as of the last look
	next        int64         // a seq that becomes a floor
	nextXact    int64         // when all transactions up to this have ended
	nextSafe    bool          // which they had at the last look
	due         dueFloor
}

// dueFloor is a position in the order of due times up to which no job was seen.
type dueFloor struct{ at, seq int64 }

var noDueFloor = dueFloor{noFloor, noFloor}

const (
	noFloor = math.MinInt64

	// A floor lags when it is this many seqs behind the front: more than a few looks at full
	// load.
	lagging = 5000

	sweepPause   = 5 * time.Second        // a third of a default lease
	laggingPause = 250 * time.Millisecond // while floors lag
	doubtedShare = 5                      // of that, when a job may have been missed
	sweepShare   = 20                     // a sweep waits this many times as long as the last one took

	// dueMargin is how long after its due time a job may become visible and still be found
	// without a sweep. Claims step over the due jobs of that many seconds at most.
	dueMargin = int64(2 * time.Second / time.Microsecond)

	// A look is worth its cost after this many jobs, or this long.
	lookJobs  = 500
	lookPause = 5 * time.Millisecond
)

// start returns where a claim of these queues begins, of pending jobs and of due
// ones, and whether it is a sweep of some of them.
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
			q.due = noDueFloor // what the sweep leaves is found by the next claims
			f.jobs++           // and a look raises it again
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
	floors []int64 // from which it searches
	due    dueFloors
	near   []bool  // whether these are ahead of the exact ones
	drawn  []int64 // the last seq known to be taken before its transaction began

	// The answer.
	xmin, xact      int64    // the oldest transaction that ran, and the look's own
	last            int64    // the last seq drawn
	first           []*int64 // of each queue and lane: the first pending seq over its floor
	at              int64    // the store's time
	dueAt, dueTurns []*int64 // of each queue: the first place in the order of due times over its floor
}

// step returns the statement of a look.
func (l *look) step(b *Broker) step {
	return b.step("floor", one(&l.xmin, &l.xact, &l.last, &l.first, &l.at, &l.dueAt, &l.dueTurns), l.queues, l.floors, l.due.at, l.due.seq)
}

// dueFloors are those of several queues, as statements take them.
type dueFloors struct{ at, seq []int64 }

func (d *dueFloors) add(f dueFloor) { d.at, d.seq = append(d.at, f.at), append(d.seq, f.seq) }

// noDueFloors returns the floors for requests with a clock of their own.
func noDueFloors(queues int) (d dueFloors) {
	for range queues {
		d.add(noDueFloor)
	}
	return d
}

// look begins a look at the floors, or returns nil when it is not yet worth its cost. For
// an urgent claim, which a worker waits for, only the number of jobs counts.
func (f *floors) look(queues []string, now time.Time, urgent bool) *look {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobs < lookJobs && (f.jobs == 0 || urgent || now.Sub(f.looked) < lookPause) {
		return nil
	}
	f.jobs, f.looked = 0, now
	l := &look{queues: queues}
	for _, name := range queues {
		q := f.queue(name)
		// A look from an exact floor that lags reads all entries above it. It is
		// worth that only when it can raise the floor.
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

// doubt records that a transaction of a caller has stored jobs in a queue. If it was open
// for long, they may lie below the position where claims begin.
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

// claimed records how many jobs a claim leased, or made pending if these are more, and how
// long it took if it was a sweep.
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

// raise raises the floors of queues by a look that was answered.
func (f *floors) raise(l *look) {
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
}

func (q *queueFloors) raise(l *look, near bool, drawn int64, first []*int64) {
	if l.last < drawn {
		q.reset() // another server, or this one restored from a backup
		drawn = 0
	}
	q.nextSafe = q.next > 0 && l.xmin > q.nextXact
	for lane := 1; lane < lanes; lane += 2 {
		ahead := below(drawn, first[lane])
		if near {
			ahead = max(ahead, q.ahead[lane])
		} else if q.nextSafe {
			q.safe[lane] = max(q.safe[lane], below(q.next, first[lane]))
		}
		q.ahead[lane] = max(q.safe[lane], ahead)
	}
	if q.nextSafe && !near {
		q.nextSafe, q.next = false, 0
	}
	if q.next == 0 && drawn > 0 {
		q.next, q.nextXact = drawn, l.xact
	}
	q.drawn = max(q.drawn, l.last)
}

func below(seq int64, first *int64) int64 {
	if first != nil {
		return min(seq, *first-1)
	}
	return seq
}
