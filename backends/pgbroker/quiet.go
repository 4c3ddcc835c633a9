package pgbroker

import (
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// quiet remembers the last claim that took all there was. A claim of the same
// worker from the same queues that waits need not look first, if no wake-up has
// come since that claim began and all of them were heard: a worker that has
// done a job then waits for the next one without asking for it. What wakes
// nobody, such as a claim that rolls back, is found by the looks in between.
type quiet struct {
	mu     sync.Mutex
	worker string
	queues []string
	news   uint64    // of the waker, before the claim began
	due    time.Time // the next due time, by the store's clock
	now    time.Time // the store's
	at     time.Time // this process's
}

// note remembers a claim by what it got, and forgets the one before.
func (q *quiet) note(req *broker.ClaimRequest, news uint64, got *broker.Claimed, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.worker, q.queues = "", q.queues[:0]
	if err != nil || got.More || len(got.Jobs) >= req.Max || !req.Now.IsZero() {
		return
	}
	q.worker, q.news, q.due, q.now, q.at = req.Worker, news, got.NextDue, got.Now, time.Now()
	for _, s := range req.Queues {
		q.queues = append(q.queues, s.Queue)
	}
}

// still says how the queues of a claim stand, without a look, and whether it
// can say so.
func (q *quiet) still(req *broker.ClaimRequest, news uint64) (got broker.Claimed, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	same := func(s broker.Share, name string) bool { return s.Queue == name }
	if q.worker != req.Worker || q.news != news || !slices.EqualFunc(req.Queues, q.queues, same) {
		return got, false
	}
	return broker.Claimed{Now: q.now.Add(time.Since(q.at)), NextDue: q.due}, true
}
