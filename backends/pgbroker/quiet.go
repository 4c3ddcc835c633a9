package pgbroker

import (
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// quiet remembers the last claim that took all there was. The next claim of the same worker
// and queues that waits need not look first, if no wake-up came since that claim began and the
// process was known to wait all the time: a worker that has done a job then waits for the next
// one without asking for it. If only pending jobs were reported, it looks for nothing else.
// The looks in between find jobs that came without a wake-up, such as those of a claim that
// rolls back.
type quiet struct {
	mu     sync.Mutex
	worker string
	queues []string
	heard  news // before the claim began
	last   standing
}

// standing is what a claim learned about its queues, apart from pending jobs.
type standing struct {
	now time.Time // by the store's clock
	due time.Time // the next due time, by the same
	at  time.Time // when that was asked for, by this process's clock
}

// note remembers a claim, in place of the one before. Known is what a claim of pending
// jobs alone relied on.
func (q *quiet) note(req *broker.ClaimRequest, heard news, known *standing, got *broker.Claimed, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.worker, q.queues = "", q.queues[:0]
	if err != nil || got.More || len(got.Jobs) >= req.Max || !req.Now.IsZero() {
		return
	}
	q.worker, q.heard, q.last = req.Worker, heard, standing{got.Now, got.NextDue, time.Now()}
	if known != nil {
		q.last = *known
	}
	for _, s := range req.Queues {
		q.queues = append(q.queues, s.Queue)
	}
}

// tell returns what is known about the queues of a claim, or nil, and whether jobs may have
// become pending.
func (q *quiet) tell(req *broker.ClaimRequest, heard news) (known *standing, pending bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	same := func(s broker.Share, name string) bool { return s.Queue == name }
	if q.worker != req.Worker || q.heard.other != heard.other || !slices.EqualFunc(req.Queues, q.queues, same) {
		return nil, false
	}
	last := q.last
	known = &last
	if pending = q.heard != heard; pending && (len(req.Queues) > 1 || time.Since(known.at) > pollListening || known.ripe()) {
		return nil, false
	}
	return known, pending
}

// ripe reports whether the next job has fallen due.
func (s *standing) ripe() bool { return !s.due.IsZero() && !s.due.After(s.time()) }

// time returns the store's time, now.
func (s *standing) time() time.Time { return s.now.Add(time.Since(s.at)) }
