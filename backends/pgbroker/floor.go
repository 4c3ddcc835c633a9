package pgbroker

import (
	"math"
	"sync"
	"time"
)

// floors remember, queue by queue and lane by lane, up to which seq nothing is
// pending, so that claims can begin their index scans there. While any snapshot
// in the database is old, the entries of jobs that were claimed since cannot be
// removed from the index; a claim that began at its front would step over all
// of them, each time.
//
// A floor is exact, not a guess. Every transaction has its ID before it draws a
// seq, so once all transactions that were running, or had run, when seq S was
// the last one drawn have ended, no job with a seq up to S can appear any more:
// all transitions into a lane draw a new seq. A snapshot taken then shows all
// that are pending, also those that a claim which may yet roll back has locked.
// The floor is S, or stays below the first one shown.
//
// One transaction that stays open and has written holds the exact floor back.
// When it lags, claims begin where the last snapshot saw the first pending job,
// which may miss jobs that were in flight, and sweep from the very front often.
// They sweep now and then in any case, in proportion to what that costs: a
// server restored from a backup hands out seqs once more.
//
// Front lanes have no floor: each job that is put there has a lower seq.
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
	drawn       int64         // the last seq drawn, as of the last look
	ripening    int64         // a seq that becomes a floor
	ripe        int64         // when all transactions below this have ended
}

const (
	noFloor = math.MinInt64

	// A floor lags when so many claimed entries lie between it and the front.
	lagging = 20_000

	sweepPause   = 5 * time.Second        // at most a third of a default lease
	laggingPause = 250 * time.Millisecond // while floors lag
	sweepShare   = 20                     // a sweep waits so many times as long as the last one took

	// A look is worth its cost after so many jobs, or so long.
	lookJobs  = 1000
	lookPause = 20 * time.Millisecond
)

// start returns where a claim of these queues begins, and whether it is a sweep
// of some of them.
func (f *floors) start(queues []string, now time.Time) (from []int64, sweep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from = make([]int64, 0, len(queues)*lanes)
	for _, name := range queues {
		q := f.queue(name)
		pause := q.pause
		if !q.lags() {
			pause = max(pause, sweepPause)
		}
		if now.Sub(q.swept) >= pause {
			q.swept, sweep = now, true
			for range lanes {
				from = append(from, noFloor)
			}
			continue
		}
		for lane := range lanes {
			floor := q.safe[lane]
			if q.ahead[lane]-floor > lagging {
				floor = q.ahead[lane]
			}
			from = append(from, floor)
		}
	}
	return from, sweep
}

// exact are the floors from which a look goes on.
func (f *floors) exact(queues []string) []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := make([]int64, 0, len(queues)*lanes)
	for _, name := range queues {
		q := f.queue(name)
		for lane := range lanes {
			from = append(from, q.safe[lane])
		}
	}
	return from
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
	*q = queueFloors{pause: laggingPause}
	for lane := range lanes {
		q.safe[lane], q.ahead[lane] = noFloor, noFloor
	}
}

func (q *queueFloors) lags() bool {
	for lane := range lanes {
		if q.ahead[lane]-q.safe[lane] > lagging {
			return true
		}
	}
	return false
}

// look reports whether a look at the floors is worth its cost.
func (f *floors) look(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.jobs >= lookJobs || f.jobs > 0 && now.Sub(f.looked) >= lookPause
}

// claimed tells of a claim's jobs, and how long it took when it was a sweep.
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

// snapshot is the answer of a look.
type snapshot struct {
	xmin, xmax int64    // the oldest transaction that runs, the next to come
	drawn      int64    // the last seq drawn, perhaps later than the snapshot
	first      []*int64 // of each queue and lane: the first pending seq over its floor
}

// raise raises the floors of queues by a look.
func (f *floors) raise(queues []string, s *snapshot, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs, f.looked = 0, now
	for i, name := range queues {
		if len(s.first) == len(queues)*lanes {
			f.queue(name).raise(s, s.first[i*lanes:][:lanes])
		}
	}
}

func (q *queueFloors) raise(s *snapshot, first []*int64) {
	if s.drawn < q.drawn {
		q.reset() // another server, or this one with its past restored
	}
	ripe := q.ripening > 0 && s.xmin >= q.ripe
	for lane := 1; lane < lanes; lane += 2 {
		if ripe {
			q.safe[lane] = max(q.safe[lane], below(q.ripening, first[lane]))
		}
		q.ahead[lane] = max(q.safe[lane], below(q.drawn, first[lane]))
	}
	if ripe {
		q.ripening = 0
	}
	// drawn was read after the snapshot of its look, so that its transaction
	// may be younger than that look's xmax: it is surely older than this one's.
	if q.ripening == 0 && q.drawn > 0 {
		q.ripening, q.ripe = q.drawn, s.xmax
	}
	q.drawn = s.drawn
}

func below(seq int64, first *int64) int64 {
	if first != nil {
		return min(seq, *first-1)
	}
	return seq
}
