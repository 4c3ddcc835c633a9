package pgbroker

import (
	"sync"
	"time"
)

// leases remember how much each worker has leased. Its entries in the index of
// leases are as many, for as long as any snapshot in the database is old, and
// who counts what it holds steps over all of them. So does who lists it: an audit
// does, but only after an answer that was lost, once with a renewal at most.
type leases struct {
	mu      sync.Mutex
	workers map[string]*leased
}

type leased struct {
	jobs int
	next time.Time // until then they are not counted
}

const (
	// countFreely is how many leases may cost a count with every renewal: some
	// milliseconds.
	countFreely = 20_000

	// countPause is the time between counts of a worker that has leased more. An
	// answer that was lost is known to its caller: what only counts can find is rare,
	// and waits for its worker no longer than that.
	countPause = time.Minute
)

// add tells of jobs that a worker leased.
func (l *leases) add(worker string, jobs int) {
	if jobs == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.workers == nil {
		l.workers = make(map[string]*leased)
	}
	w := l.workers[worker]
	if w == nil {
		w = new(leased)
		l.workers[worker] = w
	}
	w.jobs += jobs
}

// count reports whether a renewal is to count the worker's leases.
func (l *leases) count(worker string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.workers[worker]
	if w == nil || w.jobs < countFreely {
		return true
	}
	if now.Before(w.next) {
		return false
	}
	w.next = now.Add(countPause)
	return true
}

// forget is for a worker that has ended.
func (l *leases) forget(worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.workers, worker)
}
