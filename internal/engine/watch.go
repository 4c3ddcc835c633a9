package engine

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// watch listens to events of the store, so that the context of a job ends at once when an
// operator cancels the job. The next renewal would also report that, but later.
func (s *Server) watch(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began, stop := context.WithCancel(ctx)
		events, err := s.broker.Watch(began, broker.WatchRequest{Queues: s.names, Kinds: []broker.EventKind{broker.EventCancel}})
		if err == nil {
			failures = 0
			for e := range events {
				if e.Kind == broker.EventCancel {
					s.mu.Lock()
					s.cancelRunLocked(e.Queue, e.ID)
					s.mu.Unlock()
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
