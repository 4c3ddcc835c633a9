package jobstest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// enqueueLog remembers every job that a broker was asked to store, and how it ended.
// A completed job leaves no record by default, but tests still look for it.
type enqueueLog struct {
	mu      sync.Mutex
	entries []*entry
	fates   map[name]broker.State
}

type name struct{ queue, id string }

// entry is a job that was enqueued, or refused.
type entry struct {
	job     broker.NewJob
	at      time.Time // by the store's clock
	refused error
	holder  string // ID of the holder, if it was refused as a duplicate
}

func newEnqueueLog() *enqueueLog { return &enqueueLog{fates: make(map[name]broker.State)} }

// around returns b with each enqueue and each settle logged.
func (l *enqueueLog) around(b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		err := next(ctx)
		switch reply := c.Reply.(type) {
		case *[]broker.Receipt:
			now, _ := b.Ping(context.WithoutCancel(ctx))
			l.enqueued(c.Request.(*broker.EnqueueRequest).Jobs, *reply, now)
		case *[]broker.Verdict:
			l.settled(*reply)
		case *broker.Claimed:
			l.settled(reply.Verdicts)
		case *[]broker.OperationResult:
			if op := c.Request.(*broker.Operation); op.Kind == broker.OpCancel {
				l.cancelled(*reply)
			}
		}
		return err
	})
}

func (l *enqueueLog) enqueued(jobs []broker.NewJob, receipts []broker.Receipt, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range receipts {
		if errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == jobs[i].ID && !jobs[i].Body.GivenID {
			continue // the client sent it again because an answer was lost
		}
		if r.Replaced {
			l.replaced(&jobs[i], r)
			continue
		}
		e := &entry{job: jobs[i], at: now, refused: r.Err, holder: r.Holder}
		e.job.Body.Payload = bytes.Clone(e.job.Body.Payload)
		l.entries = append(l.entries, e)
	}
}

// replaced gives the content of a job that was not stored to the job that has it now.
func (l *enqueueLog) replaced(by *broker.NewJob, r broker.Receipt) {
	for i := len(l.entries) - 1; i >= 0; i-- {
		if e := l.entries[i]; e.refused == nil && e.job.Queue == r.Queue && e.job.ID == r.ID {
			changed := *e // a copy: helpers may read the entry at this moment
			changed.job.Body.CopyContent(&by.Body)
			changed.job.Body.Payload = bytes.Clone(changed.job.Body.Payload)
			if by.Body.Unique.Conflict == broker.ConflictDebounce && r.State == broker.StateScheduled {
				changed.job.RunAt = r.RunAt
			}
			l.entries[i] = &changed
			return
		}
	}
}

func (l *enqueueLog) settled(verdicts []broker.Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range verdicts {
		if v.Err == nil {
			l.fates[name{v.Queue, v.ID}] = v.State
		}
	}
}

func (l *enqueueLog) cancelled(results []broker.OperationResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range results {
		if r.Err == nil && r.State != broker.StateActive { // the handler of an active job can still decide otherwise
			l.fates[name{r.Ref.Queue, r.Ref.ID}] = broker.StateCancelled
		}
	}
}

// all returns the entries so far.
func (l *enqueueLog) all() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*entry(nil), l.entries...)
}

// fate returns the state in which a job was last settled.
func (l *enqueueLog) fate(queue, id string) broker.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fates[name{queue, id}]
}
