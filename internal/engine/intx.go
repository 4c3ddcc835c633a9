package engine

import (
	"errors"
	"sync"

	"github.com/seed81422ce9/jobs/broker"
)

// txJobs are the jobs that transactions of their handlers complete, from the end of the
// handler until the store has answered. If the transaction committed, the store answers
// that the lease is lost, which means here that the job is completed.
type txJobs struct {
	mu   sync.Mutex
	jobs map[*broker.Job]struct{}
}

func (t *txJobs) add(j *broker.Job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.jobs == nil {
		t.jobs = make(map[*broker.Job]struct{})
	}
	t.jobs[j] = struct{}{}
}

// excuse replaces the verdict ErrLeaseLost of such jobs with completed.
func (t *txJobs) excuse(items []broker.Settlement, verdicts []broker.Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.jobs) == 0 {
		return
	}
	for i := range items {
		if _, ok := t.jobs[items[i].Job]; ok && items[i].Outcome.Kind() != broker.OutcomeKeep && errors.Is(verdicts[i].Err, broker.ErrLeaseLost) {
			items[i].Outcome = broker.Complete(nil)
			verdicts[i].State, verdicts[i].Err = broker.StateCompleted, nil
		}
	}
}

func (t *txJobs) forget(items []broker.Settlement) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.jobs) == 0 {
		return
	}
	for i := range items {
		if items[i].Outcome.Kind() != broker.OutcomeKeep {
			delete(t.jobs, items[i].Job)
		}
	}
}
