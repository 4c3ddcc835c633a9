package redisbroker

import (
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// quiet remembers the last claim that took all there was. A claim of the same
// worker from the same queues that waits need not look first: what has become
// claimable since has left a token, which ends the wait at once, and when the
// next job is due is known. So an idle worker asks once for each wait, and one
// that has done a job waits for the next without asking whether it is there.
type quiet struct {
	mu     sync.Mutex
	worker string
	queues []string
	due    time.Time // the next due time, by the store's clock
	now    time.Time // the store's
	at     time.Time // this process's
}

// note remembers a claim by what it got, and forgets the one before.
func (q *quiet) note(req *broker.ClaimRequest, got *broker.Claimed, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.worker, q.queues = "", q.queues[:0]
	if err != nil || got.More || len(got.Jobs) >= req.Max || !req.Now.IsZero() {
		return
	}
	q.worker, q.due, q.now, q.at = req.Worker, got.NextDue, got.Now, time.Now()
	for _, s := range req.Queues {
		q.queues = append(q.queues, s.Queue)
	}
}

// still says how the queues of a claim stand, without a look, and whether it
// can say so.
func (q *quiet) still(req *broker.ClaimRequest) (got broker.Claimed, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	same := func(s broker.Share, name string) bool { return s.Queue == name }
	if q.worker == "" || q.worker != req.Worker || !slices.EqualFunc(req.Queues, q.queues, same) {
		return got, false
	}
	return broker.Claimed{Now: q.now.Add(time.Since(q.at)), NextDue: q.due}, true
}
