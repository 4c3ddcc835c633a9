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
		fmt.Fprintf(&b, "queue %s %+v, %d waiting, keys %v, remembered %v\n",
			name, q.policy, len(q.waiters), q.unique, q.remembered)
		for _, id := range slices.Sorted(maps.Keys(q.jobs)) {
			j := q.jobs[id]
			fmt.Fprintf(&b, "  job %s %v epoch %d run at %v worker %q cancel %v\n",
				id, j.State, j.Epoch, j.RunAt, j.Worker, j.CancelRequested)
		}
		for _, id := range slices.Sorted(maps.Keys(q.workers)) {
			w := q.workers[id]
			fmt.Fprintf(&b, "  worker %s until %v ended %v holds %d settled %d\n", id, w.Until, w.ended, w.Held, w.number)
		}
	}
	return b.String()
}
