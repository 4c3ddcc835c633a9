package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// txJobs are the jobs that transactions of their handlers complete, from the end
// of the handler until the store has answered. When the transaction has
// committed there is no lease left to settle, which is no loss.
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

// excuse turns lost leases of such jobs into what happened to them.
func (t *txJobs) excuse(items []broker.Settlement, verdicts []broker.Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.jobs) == 0 {
		return
	}
	for i := range items {
		if _, ok := t.jobs[items[i].Job]; ok && errors.Is(verdicts[i].Err, ErrLeaseLost) {
			items[i].Outcome = broker.Complete(nil)
			verdicts[i].State, verdicts[i].Err = StateCompleted, nil
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
		delete(t.jobs, items[i].Job)
	}
}

var errUncommitted = errors.New("the handler returned nil, but the transaction that was to complete the job did not commit")

// uncommitted is how the lease of a job ends whose handler says that its own
// transaction has completed it. It applies only if the job is still there, which
// means that the transaction did not commit, and its effects never were.
func (s *Server) uncommitted(r *run) broker.Outcome {
	r.finish(context.Canceled, time.Now())
	f := s.failure(r, errUncommitted, Classification{Class: ClassUncommitted})
	if spent(&r.view, 0) {
		return broker.Die(broker.ReasonRetries, f)
	}
	return broker.Retry(defaultRetry(r.view.Attempt(), errUncommitted, &r.view), f)
}
