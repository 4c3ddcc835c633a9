package membroker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// dump describes a store for whoever reads a failed rule.
func (s *Store) dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		q := s.queues[name]
		fmt.Fprintf(&b, "queue %s %+v, %d waiting, %d woken, keys %v, remembered %v\n",
			name, q.policy, len(q.waiters), q.woken, q.unique, q.remembered)
		for _, id := range slices.Sorted(q.jobs.ids()) {
			j := q.show(nil, q.jobs.get(id))[0]
			fmt.Fprintf(&b, "  job %s %v epoch %d run at %v worker %q cancel %v\n",
				id, j.State, j.Epoch, j.RunAt, j.Worker, j.CancelRequested)
		}
		for _, workers := range []map[string]*worker{q.workers, q.ended} {
			for _, id := range slices.Sorted(maps.Keys(workers)) {
				w := workers[id]
				fmt.Fprintf(&b, "  worker %s until %d ended %v holds %d settled %d\n", id, w.until, w.ended, w.held.len(), w.number)
			}
		}
	}
	return b.String()
}
