package redisbroker

import (
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// lastClaim remembers the last claim, if it took all claimable jobs. Then the next claim with a Wait
// of the same worker and queues need not ask first: if a job has become claimable since, it left a
// token, which ends the wait at once, and the next due time is known. So an idle worker sends one
// call for each wait.
type lastClaim struct {
	mu     sync.Mutex
	worker string
	queues []string
	due    time.Time // the next due time, by the store's clock
	now    time.Time // time of the claim, by the store's clock
	at     time.Time // time of the claim, by this process's clock
}

// remember records a claim and what it got, and forgets the one before.
func (l *lastClaim) remember(req *broker.ClaimRequest, got *broker.Claimed, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worker, l.queues = "", l.queues[:0]
	if err != nil || got.More || len(got.Jobs) >= req.Max || !req.Now.IsZero() {
		return
	}
	l.worker, l.due, l.now, l.at = req.Worker, got.NextDue, got.Now, time.Now()
	for _, s := range req.Queues {
		l.queues = append(l.queues, s.Queue)
	}
}

// again returns what a claim would answer now. It reports false if only the store knows.
func (l *lastClaim) again(req *broker.ClaimRequest) (got broker.Claimed, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := func(s broker.Share, name string) bool { return s.Queue == name }
	if l.worker == "" || l.worker != req.Worker || !slices.EqualFunc(req.Queues, l.queues, same) {
		return got, false
	}
	return broker.Claimed{Now: l.now.Add(time.Since(l.at)), NextDue: l.due}, true
}
