// Package handworker is a worker with which tests claim and settle jobs by hand.
package handworker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Worker is a registered worker. The test settles its jobs.
type Worker struct {
	t      testing.TB
	b      broker.Broker
	id     string
	Queue  string // from which Claim claims
	number int64
}

// New registers a worker for one or more queues, with a lease of an hour.
func New(t testing.TB, b broker.Broker, id, queue string, more ...string) *Worker {
	t.Helper()
	if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: id, Queues: append([]string{queue}, more...), Lease: time.Hour,
		Register: true}); err != nil {
		t.Fatalf("registering a worker: %v", err)
	}
	return &Worker{t: t, b: b, id: id, Queue: queue}
}

// Claim leases one job.
func (w *Worker) Claim() broker.Job {
	w.t.Helper()
	claimed, err := w.b.Claim(w.t.Context(), broker.ClaimRequest{Worker: w.id, Queues: []broker.Share{{Queue: w.Queue, Max: 1}}, Max: 1})
	if err != nil || len(claimed.Jobs) != 1 {
		w.t.Fatalf("claiming a job of %q: %d jobs, %v", w.Queue, len(claimed.Jobs), err)
	}
	return claimed.Jobs[0]
}

// Settle ends the lease of a job.
func (w *Worker) Settle(job broker.Job, o broker.Outcome) {
	w.t.Helper()
	w.number++
	verdicts, err := w.b.Settle(w.t.Context(), broker.SettleRequest{Worker: w.id, Number: w.number,
		Items: []broker.Settlement{{Job: &job, Outcome: o}}})
	if err == nil {
		err = verdicts[0].Err
	}
	if err != nil {
		w.t.Fatalf("settling: %v", err)
	}
}

// Complete claims up to max jobs, waits for the first one, and completes them. It returns them in the
// order of the claim.
func (w *Worker) Complete(max int, wait time.Duration) []broker.Job {
	w.t.Helper()
	claimed, err := w.b.Claim(w.t.Context(), broker.ClaimRequest{Worker: w.id, Queues: []broker.Share{{Queue: w.Queue, Max: max}},
		Max: max, Wait: wait})
	if err != nil {
		w.t.Fatalf("claiming jobs of %q: %v", w.Queue, err)
	}
	if len(claimed.Jobs) == 0 {
		return nil
	}
	items := make([]broker.Settlement, len(claimed.Jobs))
	for i := range claimed.Jobs {
		items[i] = broker.Settlement{Job: &claimed.Jobs[i], Outcome: broker.Complete(nil)}
	}
	w.number++
	verdicts, err := w.b.Settle(w.t.Context(), broker.SettleRequest{Worker: w.id, Number: w.number, Items: items})
	for _, v := range verdicts {
		if err == nil {
			err = v.Err
		}
	}
	if err != nil {
		w.t.Fatalf("completing jobs of %q: %v", w.Queue, err)
	}
	return claimed.Jobs
}

// Kill claims a job of the queue and settles it as dead with that error.
func (w *Worker) Kill(message string) broker.Job {
	w.t.Helper()
	job := w.Claim()
	w.Settle(job, broker.Die(broker.ReasonRetries, broker.Failure{At: time.Now(), Message: message}))
	return job
}
