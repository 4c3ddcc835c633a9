package engine

import (
	"errors"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// txJobs are the jobs that transactions of their handlers complete, from the end of the
// handler until the store has answered, and whether the handler says that the transaction
// has committed. Guarded by Server.mu.
type txJobs map[*broker.Job]bool

func (t *txJobs) add(j *broker.Job, committed bool) {
	if *t == nil {
		*t = make(txJobs)
	}
	(*t)[j] = committed
}

// excuseLocked replaces the verdict ErrLeaseLost of such jobs with completed, if their
// transactions have committed. If the handler does not say so, the answer to its commit may
// have been lost. Then the verdict tells, as long as w has its leases: nobody else can have
// ended this one.
func (s *Server) excuseLocked(w *worker, items []broker.Settlement, verdicts []broker.Verdict, now time.Time) {
	if len(s.inTx) == 0 {
		return
	}
	holds := !w.lost && now.Sub(w.renewed) < s.opts.Lease
	for i := range items {
		committed, ok := s.inTx[items[i].Job]
		if ok && (committed || holds) && items[i].Outcome.Kind() != broker.OutcomeKeep && errors.Is(verdicts[i].Err, broker.ErrLeaseLost) {
			items[i].Outcome = broker.Complete(nil)
			verdicts[i].State, verdicts[i].Err = broker.StateCompleted, nil
		}
	}
}

func (t txJobs) forget(items []broker.Settlement) {
	if len(t) == 0 {
		return
	}
	for i := range items {
		if items[i].Outcome.Kind() != broker.OutcomeKeep {
			delete(t, items[i].Job)
		}
	}
}
