package pgbroker

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// leases remembers what this process knows of each worker that it renews: how many jobs it has
// leased, and which pulse its queues follow. While a snapshot in the database is old, the index of
// leases keeps an entry for each job, and a count of what the worker holds reads all of them. So does
// a list of them, but a server asks for that only after a lost answer, and once with a renewal at most.
type leases struct {
	mu      sync.Mutex
	workers map[string]*leased
}

type leased struct {
	jobs     int
	claimed  time.Time // when a call last leased jobs, or may have
	counted  time.Time // where that is rare
	used     time.Time
	pulse    int64    // the one that all of queues follow; 0: none is known
	queues   []string // sorted
	searched map[string]int64
}

const (
	// countFreely is how many leases may cost a count with every renewal: some
	// milliseconds.
	countFreely = 20_000

	// countQueues is in how many queues each renewal counts: the count takes 10 µs a queue.
	countQueues = 64

	// countPause is the time between counts of a worker that has leased more, or that serves
	// more queues and got no job for that long. A caller knows that an answer was lost, so what
	// only a count finds is rare, and may wait.
	countPause = time.Minute

	// countSoon is the time between counts of a worker that serves more queues and gets jobs: a
	// count in a thousand takes 8 ms.
	countSoon = 15 * time.Second

	// forgetWorkers is after how long a worker is forgotten that is not renewed.
	forgetWorkers = 10 * time.Minute
)

// of returns the entry of a worker. The caller has locked l.
func (l *leases) of(worker string) *leased {
	w, now := l.workers[worker], time.Now()
	if w == nil {
		if l.workers == nil {
			l.workers = make(map[string]*leased)
		}
		maps.DeleteFunc(l.workers, func(_ string, w *leased) bool { return now.Sub(w.used) > forgetWorkers })
		w = new(leased)
		l.workers[worker] = w
	}
	w.used = now
	return w
}

// add counts jobs that a worker leased.
func (l *leases) add(worker string, jobs int) {
	if jobs == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.of(worker)
	w.jobs += jobs
	w.claimed = time.Now()
}

// doubt records that a call may have leased jobs.
func (l *leases) doubt(worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(worker).claimed = time.Now()
}

// count reports whether a renewal should count the worker's leases.
func (l *leases) count(worker string, queues []string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.of(worker)
	if w.jobs < countFreely && len(queues) <= countQueues {
		return true
	}
	pause := countPause
	if w.jobs < countFreely && now.Sub(w.claimed) <= countPause {
		pause = countSoon
	}
	if now.Sub(w.counted) < pause {
		return false
	}
	w.counted = now
	return true
}

// follow records that queues of a worker follow a pulse.
func (l *leases) follow(worker string, queues []string, pulse int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.of(worker)
	w.pulse, w.queues = pulse, queues
}

// apart records that it is not known which pulse the queues of a worker follow.
func (l *leases) apart(worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.workers[worker]; w != nil {
		w.pulse, w.queues = 0, nil
	}
}

// pulse returns the pulse that queues follow if these are all queues of the worker, and otherwise 0;
// and up to when all leases that ran out in these queues have been found.
func (l *leases) pulse(worker string, queues []string) (pulse, searched int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.workers[worker]
	if w == nil {
		return 0, 0
	}
	if slices.Equal(w.queues, queues) {
		pulse = w.pulse
	}
	for i, q := range queues {
		if at := w.searched[q]; i == 0 || at < searched {
			searched = at
		}
	}
	return pulse, searched
}

// found records that a worker's Reclaim has found all leases that had run out in some queues.
func (l *leases) found(worker string, queues []string, at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.of(worker)
	if w.searched == nil {
		w.searched = make(map[string]int64, len(queues))
	}
	for _, q := range queues {
		w.searched[q] = at
	}
}

// forget removes a worker that has ended.
func (l *leases) forget(worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.workers, worker)
}
