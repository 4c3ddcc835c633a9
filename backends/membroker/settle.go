package membroker

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// Settle ends leases, each on its own; the whole request is one step. §3, §10.
func (b *Broker) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	now, err := b.begin(ctx, "settle", req.Now, req.Check())
	if err != nil {
		return nil, err
	}
	defer b.end()
	return b.store.settle(&req, now), nil
}

func (s *Store) settle(req *broker.SettleRequest, now time.Time) []broker.Verdict {
	verdicts := make([]broker.Verdict, len(req.Items))
	parts := make(map[string]*part, 1)
	for i := range req.Items {
		item := &req.Items[i]
		p := parts[item.Job.Queue]
		if p == nil {
			p = s.part(item.Job.Queue, req)
			parts[item.Job.Queue] = p
		}
		v := &verdicts[i]
		v.Queue, v.ID = item.Job.Queue, item.Job.ID
		if v.State = p.settle(item, req, now); v.State == broker.StateNone {
			v.Err = broker.About(broker.ErrLeaseLost, "settle", v.Queue, v.ID)
		}
	}
	for _, p := range parts {
		if p.queue != nil {
			p.queue.toFront(p.released...)
		}
	}
	return verdicts
}

// part is the state of a settle in one queue. There the number of the request is compared with
// the last number of the worker.
type part struct {
	queue    *queue  // nil if it does not exist
	worker   *worker // nil if the queue does not know it
	old      bool    // the number is not higher than the last: nothing is settled
	known    []byte  // if the number is the last one: the verdicts that the first request got
	released []*job
}

func (s *Store) part(queue string, req *broker.SettleRequest) *part {
	p := &part{queue: s.queues[queue]}
	p.worker = p.queue.worker(req.Worker)
	if w := p.worker; w != nil && !w.ended { // numbers are compared only while the worker lives
		switch {
		case req.Number < w.number:
			p.old = true
		case req.Number == w.number:
			p.old, p.known = true, w.verdicts
		default:
			w.number, w.verdicts = req.Number, w.verdicts[:0]
			p.queue.note(journal.Workers, w.ID)
		}
	}
	return p
}

// settle returns the job's new state, or StateNone if the lease was lost.
func (p *part) settle(item *broker.Settlement, req *broker.SettleRequest, now time.Time) (to broker.State) {
	switch {
	case p.worker == nil:
		return broker.StateNone
	case p.old:
		if len(p.known) > 0 {
			to, p.known = broker.State(p.known[0]), p.known[1:]
		}
		return to
	}
	lease := item.Job
	j := p.queue.jobs[lease.ID]
	switch {
	case j == nil || j.State != broker.StateActive || j.Worker != req.Worker || j.Epoch != lease.Epoch:
	case item.Outcome.Kind() == broker.OutcomeKeep:
		to = item.Outcome.State()
		p.queue.note(journal.Jobs, j.ID)
		j.Head = ownHead(item.Outcome.Apply(j.Head, now, req.History))
	default:
		to = p.queue.end(j, broker.OnSettle, item, &lease.Head, req.History, now)
		if to == broker.StatePending && item.Outcome.Front() {
			p.released = append(p.released, j)
		}
	}
	if !p.worker.ended {
		p.worker.verdicts = append(p.worker.verdicts, byte(to))
	}
	return to
}

// end applies an outcome to an active job, and returns the job's new state. head is the head
// as its worker knows it.
func (q *queue) end(j *job, event broker.TransitionEvent, item *broker.Settlement, head *broker.Head, history int,
	now time.Time) broker.State {
	o := item.Outcome
	if j.CancelRequested {
		o = o.IfCancelRequested()
	}
	to := o.State()
	q.tally().Ended(item, o)
	j.CancelRequested = false
	j.Head = ownHead(o.Apply(*head, up(now), history))
	switch {
	case to.Final():
		q.finish(j, event, to, now)
	case to == broker.StateRetry:
		q.move(j, event, to, later(now, o.Delay()))
	default:
		q.move(j, event, to, time.Time{})
	}
	q.store.emit(broker.Event{Kind: broker.EventSettled, Queue: q.name, ID: j.ID, State: to})
	return to
}
