package pgbroker

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// leases remembers what this process knows about each worker that it renews: how many jobs the
// worker has leased, and which pulse its queues follow. While the database has an old snapshot, the
// index of leases keeps an entry for each job that was leased, and a count of the worker's leases
// reads all of them. A list of the leases does so, too, but a server asks for a list only after a
// lost answer, and at most once per renewal.
type leases struct {
	mu      sync.Mutex
	workers map[string]*leased
}

type leased struct {
	jobs     int
	claimed  time.Time // when a call last leased jobs, or may have
	counted  time.Time // when its leases were last counted; only set if not every renewal counts
	used     time.Time
	pulse    int64    // the pulse that all of queues follow; 0 if it is not known
	queues   []string // sorted
	searched map[string]int64
	looked   time.Time // when searched was last written
}

const (
	// countFreely is up to how many leased jobs every renewal counts the leases: a count of so
	// many takes some milliseconds.
	countFreely = 20_000

	// countQueues is up to how many queues every renewal counts the leases: a count takes 10 µs
	// per queue.
	countQueues = 64

	// countPause is the time between counts of a worker that has leased more jobs, or that serves
	// more queues and got no job for this time. It may be long: a caller usually knows that an
	// answer was lost, so only a count finds a lost lease in rare cases.
	countPause = time.Minute

	// countSoon is the time between counts of a worker that serves more queues and gets jobs: a
	// count in a thousand queues takes 8 ms.
	countSoon = 15 * time.Second

	// trustSearch is for how long a search for leases that had run out counts. A store that is restored from a
	// backup has some of these leases again, and nobody else may look for them.
	trustSearch = time.Minute

	// forgetWorkers is how long after its last call a worker is forgotten.
	forgetWorkers = 10 * time.Minute
)

// with calls do with the entry of a worker.
func (l *leases) with(worker string, do func(w *leased)) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
	do(w)
}

// add counts jobs that a worker leased.
func (l *leases) add(worker string, jobs int) {
	if jobs > 0 {
		l.with(worker, func(w *leased) { w.jobs, w.claimed = w.jobs+jobs, w.used })
	}
}

// doubt records that a call may have leased jobs.
func (l *leases) doubt(worker string) {
	l.with(worker, func(w *leased) { w.claimed = w.used })
}

// count reports whether a renewal should count the worker's leases.
func (l *leases) count(worker string, queues []string, now time.Time) (due bool) {
	l.with(worker, func(w *leased) {
		pause := countPause
		switch {
		case w.jobs >= countFreely:
		case len(queues) <= countQueues:
			due = true
			return
		case now.Sub(w.claimed) <= countPause:
			pause = countSoon
		}
		if due = now.Sub(w.counted) >= pause; due {
			w.counted = now
		}
	})
	return due
}

// follow records which pulse queues of a worker follow; 0 if that is not known.
func (l *leases) follow(worker string, queues []string, pulse int64) {
	l.with(worker, func(w *leased) { w.pulse, w.queues = pulse, queues })
}

// pulse returns the pulse that queues follow, or 0 if these are not all queues of the worker. searched
// is the time up to which all leases that ran out in these queues have been found.
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
	if time.Since(w.looked) > trustSearch {
		return pulse, 0
	}
	for i, q := range queues {
		if at := w.searched[q]; i == 0 || at < searched {
			searched = at
		}
	}
	return pulse, searched
}

// found records that a worker's Reclaim found all leases in some queues that had run out at a time.
func (l *leases) found(worker string, queues []string, at int64) {
	l.with(worker, func(w *leased) {
		if w.searched == nil {
			w.searched = make(map[string]int64, len(queues))
		}
		for _, q := range queues {
			w.searched[q] = at
		}
		w.looked = w.used
	})
}

// forget removes a worker that has ended.
func (l *leases) forget(worker string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.workers, worker)
}
