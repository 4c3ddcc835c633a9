package membroker

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/seed81422ce9/jobs/broker"
)

// audit checks that every structure of a store says the same: each job is in
// the place of its state and in no other, and nothing leads to a job that is
// gone.
func (s *Store) audit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, q := range s.queues {
		if err := q.audit(); err != nil {
			return fmt.Errorf("queue %s: %w", name, err)
		}
	}
	if s.lapses.len() != len(s.marks) {
		return fmt.Errorf("%d marks lapse, %d are held", s.lapses.len(), len(s.marks))
	}
	return nil
}

func (q *queue) audit() error {
	keyed, held, keeping := 0, 0, 0
	inState := make(map[broker.State]int)
	for id := range q.jobs.ids() {
		j := q.jobs.get(id)
		inState[j.state]++
		if j == nil || j.id != id || j.at != 0 != timed(j.state) || (j.state == broker.StateActive) != (j.holder != nil) {
			return fmt.Errorf("job %s is in state %v with time %d and holder %v", id, j.state, j.at, j.holder)
		}
		if !timed(j.state) && !q.bags[j.state].has(j) {
			return fmt.Errorf("job %s is not in the bag of state %v", id, j.state)
		}
		if timed(j.state) && !q.times[j.state].tree.Has(entry[*job]{at: j.at, seq: j.seq}) {
			return fmt.Errorf("job %s is not in the timeline of state %v", id, j.state)
		}
		if j.Key != "" {
			if keyed++; !q.keys[j.Key].has(j) {
				return fmt.Errorf("job %s is not in the bag of key %s", id, j.Key)
			}
		}
		if j.holder != nil {
			if held++; !j.holder.held.has(j) || q.holderOf(j.holder.id) != j.holder {
				return fmt.Errorf("job %s is not among those of its worker %s", id, j.holder.id)
			}
		}
		if j.lapse != 0 {
			if keeping++; !q.lapses.tree.Has(entry[any]{at: j.lapse, seq: j.seq}) {
				return fmt.Errorf("nothing ends the retention of job %s", id)
			}
		}
	}
	return q.auditTotals(inState, keyed, held, keeping)
}

func (q *queue) auditTotals(inState map[broker.State]int, keyed, held, keeping int) error {
	for _, state := range broker.States() {
		if q.count(state) != inState[state] {
			return fmt.Errorf("%d jobs are in the place of %v, %d in that state", q.count(state), state, inState[state])
		}
	}
	turns := 0
	for p := range q.ready {
		var prev *job
		for j := q.ready[p].first; j != nil; prev, j = j, j.next {
			if turns++; j.prev != prev || j.state != broker.StatePending || int(j.Priority) != p+1 {
				return fmt.Errorf("job %s, %v, is in the list of priority %d after %v", j.id, j.state, p+1, prev)
			}
		}
		if q.ready[p].last != prev {
			return fmt.Errorf("the list of priority %d ends before its last job", p+1)
		}
	}
	if turns != inState[broker.StatePending] {
		return fmt.Errorf("%d jobs have a turn, %d are pending", turns, inState[broker.StatePending])
	}
	for _, b := range q.keys {
		keyed -= b.len()
	}
	orphaned, forgetting := 0, 0
	for _, workers := range []map[string]*worker{q.workers, q.ended} {
		for _, w := range workers {
			held -= w.held.len()
			cancels := 0
			for _, j := range w.held.all() {
				if j.cancelRequested {
					cancels++
				}
			}
			if cancels != w.cancels {
				return fmt.Errorf("worker %s counts %d jobs to cancel, it holds %d", w.id, w.cancels, cancels)
			}
			if w.ended {
				forgetting++
				if w.held.len() > 0 {
					orphaned++
				}
			}
		}
	}
	if keyed != 0 || held != 0 || orphaned != len(q.orphans) {
		return fmt.Errorf("%d jobs too few under keys, %d under workers; %d orphans of %d", keyed, held, len(q.orphans), orphaned)
	}
	if most := keeping + forgetting + len(q.remembered); q.lapses.len() < most {
		return fmt.Errorf("%d things lapse, of at least %d", q.lapses.len(), most)
	}
	for key, h := range q.unique {
		if j := q.jobs.get(h.id); h.until == never && (j == nil || j.Unique.Key != key || j.state.Final()) {
			return fmt.Errorf("key %s is held by %s, which has no right to it", key, h.id)
		}
	}
	return nil
}

// leftovers names what a queue's record still holds.
func (q *queue) leftovers() (all []string) {
	v := reflect.ValueOf(q).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if name := v.Type().Field(i).Name; (f.Kind() == reflect.Map || f.Kind() == reflect.Slice) && f.Len() > 0 {
			all = append(all, name)
		}
	}
	for _, state := range broker.States() {
		if q.count(state) > 0 {
			all = append(all, state.String())
		}
		for _, j := range q.bags[state].ring {
			if j != nil {
				all = append(all, "a job behind those that are "+state.String())
			}
		}
	}
	for p := range q.ready {
		if q.ready[p] != (ready{}) {
			all = append(all, "ready "+strconv.Itoa(p+1))
		}
	}
	if q.lapses.len() > 0 {
		all = append(all, "lapses")
	}
	if q.woken != 0 || q.keeper != nil {
		all = append(all, "woken")
	}
	return all
}
