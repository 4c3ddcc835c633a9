package engine

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// watch listens to events of the store, so that the context of a job ends at once when an
// operator cancels the job. An event only leads to a renewal, which says whether the job was
// cancelled: in Postgres whoever can connect to the database can send an event.
func (s *Server) watch(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began, stop := context.WithCancel(ctx)
		events, err := s.broker.Watch(began, broker.WatchRequest{Queues: s.names, Kinds: []broker.EventKind{broker.EventCancel}})
		if err == nil {
			failures = 0
			poke(s.renewNow) // for events before the watch: in a process's own store, the next renewal may be hours away
			for e := range events {
				if e.Kind == broker.EventCancel && s.runs(e.Queue, e.ID) {
					poke(s.renewNow)
				}
			}
		}
		stop()
		failures++
		if !after(ctx, backoff(failures)) {
			return
		}
	}
}

// runs reports whether this server has a job, begun or not.
func (s *Server) runs(queue, id string) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots.find(queue, id, func(*Run) { found = true })
	return found
}
