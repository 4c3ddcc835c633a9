package pgbroker

import (
	"sync"
	"time"
)

// leases remembers how many jobs each worker has leased. While a snapshot in the database
// is old, the index of leases keeps an entry for each, and a count of what the worker
// holds reads all of them. So does a list of them, but a server asks for that only after
// a lost answer, and once with a renewal at most.
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

	// countPause is the time between counts of a worker that has leased more. A caller
	// knows that an answer was lost, so what only a count finds is rare, and may wait.
	countPause = time.Minute
)

// add counts jobs that a worker leased.
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

// count reports whether a renewal should count the worker's leases.
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

// forget removes a worker that has ended.
func (l *leases) forget(worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.workers, worker)
}
