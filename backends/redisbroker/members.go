package redisbroker

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	// countLate is for how long after a call that may have changed the number of leases in a queue
	// every renewal counts them there: a call whose answer was lost may still take effect later.
	countLate = time.Minute

	// countAll is how often the leases of a worker are counted in all its queues (§7). Such a count
	// also finds changes that no call of this process can have made. It takes 3 ms of the server's
	// time for a hundred queues.
	countAll = 3 * time.Minute
)

// fewCounted is up to how many queues every renewal of a new worker counts in the first minute, since
// an earlier call under its ID may still take effect. A worker with more queues finds such leases only
// when it counts in all queues: for a thousand queues, each renewal would take 13 ms of the server's
// time.
const fewCounted = 64

// trustSearch is for how long a search for leases that had run out counts. A store that is restored from a
// backup has some of these leases again, and nobody else may look for them.
const trustSearch = time.Minute

// members are the workers that this process renews.
type members struct {
	mu sync.Mutex
	of map[string]*member
}

// member is what this process knows about a worker that it renews.
type member struct {
	counted time.Time // when its leases were last counted in all its queues
	lease   time.Duration
	queues  map[string]*membership
}

// membership is what this process knows about a worker in a queue.
type membership struct {
	held     int       // leases, when they were last counted
	changed  time.Time // when a call last changed that number, or may have
	searched int64     // the store's time, in µs, when Reclaim had last ended all workers whose leases had run out
	looked   time.Time // when that was, by this process's clock
}

// noteLeases records the queues in which a call has changed a worker's number of leases, or may have.
func (b *Broker) noteLeases(s *step) {
	if s.script != claimScript && s.script != settleScript && s.script != reclaimScript {
		return
	}
	idle := s.script == claimScript && s.err == nil
	for n := range s.shares {
		idle = idle && s.list(n).len() == 0
	}
	if worker, ok := s.args[0].(string); ok && !idle {
		b.members.changed(worker, s.queues...)
	}
}

// changed records that a worker's number of leases in some queues has changed, or may have.
func (ms *members) changed(worker string, queues ...string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.of[worker]
	if m == nil {
		return
	}
	now := time.Now()
	for _, name := range queues {
		if in := m.queues[name]; in != nil {
			in.changed = now
		}
	}
}

// searched records that Reclaim has ended all workers in a queue whose leases had run out by a time.
func (ms *members) searched(worker, queue string, at int64) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m := ms.of[worker]; m != nil && m.queues[queue] != nil {
		in := m.queues[queue]
		in.searched, in.looked = at, time.Now()
	}
}

// toCount returns the queues in which a worker's leases must be counted now, and whether these are
// all its queues.
func (ms *members) toCount(worker string, names []string, lease time.Duration) (some []string, all bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.of[worker]
	if m == nil || m.lease != lease || len(m.queues) != len(names) || time.Since(m.counted) >= countAll {
		return names, true
	}
	for _, name := range names {
		in := m.queues[name]
		if in == nil {
			return names, true
		}
		if time.Since(in.changed) < countLate {
			some = append(some, name)
		}
	}
	return some, false
}

// searchedAll returns the earliest of the times recorded by searched for some queues, or 0 if one is missing or
// older than trustSearch.
func (ms *members) searchedAll(worker string, names []string) int64 {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.of[worker]
	if m == nil {
		return 0
	}
	var at []int64
	for _, name := range names {
		in := m.queues[name]
		if in == nil || time.Since(in.looked) > trustSearch {
			return 0
		}
		at = append(at, in.searched)
	}
	return slices.Min(at)
}

// count records a renewal. held has the leases that the renewal counted, by queue; all says whether
// it counted in all queues. count adds the earlier counts of the other queues to held. It spreads the
// times of counts, so that workers that start together do not count together.
func (ms *members) count(req *broker.RenewRequest, names []string, held map[string]int, all bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	now := time.Now()
	m, worker, lease := ms.of[req.Worker], req.Worker, req.Lease
	if m == nil {
		ms.forgetIdle()
		m = &member{queues: make(map[string]*membership, len(names))}
		if ms.of == nil {
			ms.of = make(map[string]*member)
		}
		ms.of[worker] = m
	}
	if all {
		m.counted, m.lease = now, lease
		if req.Register {
			m.counted = now.Add(-rand.N(countAll))
		}
		before := m.queues
		m.queues = make(map[string]*membership, len(names))
		for _, name := range names {
			in := before[name]
			if in == nil {
				in = &membership{}
				if !req.Register || held[name] > 0 || len(names) <= fewCounted {
					in.changed = now // an earlier call may still take effect
				}
			}
			m.queues[name] = in
		}
	}
	for name, in := range m.queues {
		if n, ok := held[name]; ok {
			in.held = n
		} else {
			held[name] = in.held
		}
	}
}

// forget drops a worker that is not renewed any more.
func (ms *members) forget(worker string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	delete(ms.of, worker)
}

// forgetIdle drops workers that were not renewed for a long time.
func (ms *members) forgetIdle() {
	for id, m := range ms.of {
		if time.Since(m.counted) > forgetAfter {
			delete(ms.of, id)
		}
	}
}
