package dashboard

import (
	"sync"
	"time"

	"github.com/seed81422ce9/jobs"
)

// sightings remembers when this process first saw a job under a lease. It is
// bounded: what has not been seen for a while is forgotten.
type sightings struct {
	mu   sync.Mutex
	seen map[lease]sighting
}

// lease is one handing-out of a job, as far as a look can tell.
type lease struct {
	queue, id, worker string
	epoch             int64
}

type sighting struct{ first, last time.Time }

const (
	keptSightings   = 10_000
	sightingForgets = time.Hour
)

// since says for how long each of the jobs has been seen running.
func (s *sightings) since(found []jobs.JobRecord, now time.Time) []heldJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[lease]sighting)
	}
	held := make([]heldJob, len(found))
	for i, j := range found {
		l := lease{j.Queue, j.ID, j.Worker, j.Epoch}
		was, known := s.seen[l]
		if !known {
			was.first = now
		}
		was.last = now
		if known || s.room(now) {
			s.seen[l] = was
		}
		held[i] = heldJob{j, now.Sub(was.first)}
	}
	return held
}

// room makes place for one more, if it can.
func (s *sightings) room(now time.Time) bool {
	if len(s.seen) < keptSightings {
		return true
	}
	for l, was := range s.seen {
		if now.Sub(was.last) > sightingForgets {
			delete(s.seen, l)
		}
	}
	return len(s.seen) < keptSightings
}
