package membroker

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Settle ends leases, each on its own; the whole request is one step. §3, §10.
func (b *Broker) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	refused := req.Check()
	hashes := b.store.hashes(&req, refused)
	now, err := b.begin(ctx, "settle", req.Now, refused)
	if err != nil {
		return nil, err
	}
	defer b.end()
	return b.store.settle(&req, hashes, now), nil
}

// hashes are those of the IDs of a request that is not refused, made before the
// store is locked.
func (s *Store) hashes(req *broker.SettleRequest, refused error) []uint32 {
	if refused != nil || len(req.Items) == 0 {
		return nil
	}
	hashes := make([]uint32, len(req.Items))
	for i := range req.Items {
		hashes[i] = hashOf(s.seed, req.Items[i].Job.ID)
	}
	return hashes
}

// settle groups the items by queue, since numbers are compared queue by queue.
func (s *Store) settle(req *broker.SettleRequest, hashes []uint32, now instant) []broker.Verdict {
	verdicts := make([]broker.Verdict, len(req.Items))
	turns := make(map[string]*turn, 1)
	var t *turn
	of := func(queue string) *turn {
		if t != nil && t.name == queue { // as most are
			return t
		}
		if t = turns[queue]; t == nil {
			t = s.turn(queue, req)
			turns[queue] = t
		}
		return t
	}
	for i := range req.Items {
		if q := of(req.Items[i].Job.Queue).queue; q != nil {
			q.jobs.fetch(hashes[i])
		}
	}
	for i := range req.Items {
		item := &req.Items[i]
		verdicts[i] = of(item.Job.Queue).settle(item, hashes[i], req, now)
	}
	for _, t := range turns {
		if t.queue != nil {
			t.queue.toFront(t.released)
		}
	}
	return verdicts
}

// turn is a settle request's part for one queue.
type turn struct {
	name     string
	queue    *queue  // nil when there is none of that name
	worker   *worker // nil when the queue does not know it
	stale    bool    // the request's number is lower than the worker's last
	repeat   bool    // or the same: known holds the verdicts not given yet
	known    []broker.State
	released []*job
}

func (s *Store) turn(name string, req *broker.SettleRequest) *turn {
	t := &turn{name: name, queue: s.queues[name]}
	if t.queue != nil {
		t.worker = t.queue.holderOf(req.Worker)
	}
	if w := t.worker; w != nil && !w.ended { // the memory of numbers ends with the worker
		t.stale = req.Number < w.number
		t.repeat = req.Number == w.number
		if t.repeat {
			t.known = w.verdicts
		} else if !t.stale {
			w.number, w.verdicts = req.Number, w.verdicts[:0]
		}
	}
	return t
}

func (t *turn) settle(item *broker.Settlement, hash uint32, req *broker.SettleRequest, now instant) broker.Verdict {
	v := broker.Verdict{Queue: item.Job.Queue, ID: item.Job.ID}
	if t.repeat && len(t.known) > 0 {
		v.State, t.known = t.known[0], t.known[1:]
	} else if j := t.leased(item.Job, hash); j != nil {
		v.State = t.queue.end(j, broker.OnSettle, item.Outcome, &item.Job.Head, req.History, now)
		if v.State == broker.StatePending && item.Outcome.Front() {
			t.released = append(t.released, j)
		}
	}
	if v.State == broker.StateNone {
		v.Err = broker.About(broker.ErrLeaseLost, "settle", v.Queue, v.ID)
	}
	if t.worker != nil && !t.stale && !t.repeat && !t.worker.ended {
		t.worker.verdicts = append(t.worker.verdicts, v.State)
	}
	return v
}

// leased is the job of a lease that still holds, or nil.
func (t *turn) leased(lease *broker.Job, hash uint32) *job {
	if t.worker == nil || t.stale || t.repeat {
		return nil
	}
	j := t.queue.jobs.find(lease.ID, hash)
	if j == nil || j.holder != t.worker || j.read().Epoch != lease.Epoch {
		return nil
	}
	return j
}

// end applies an outcome to an active job, whose head its holder knows, and
// returns the state it leads to.
func (q *queue) end(j *job, event broker.TransitionEvent, o broker.Outcome, head *broker.Head, history int, now instant) broker.State {
	if j.cancelRequested {
		o = o.IfCancelRequested()
	}
	to := o.State()
	switch {
	case to.Final():
		q.finish(j, event, to, now)
	case to == broker.StateRetry:
		q.move(j, event, to, now.plus(o.Delay()))
	default:
		q.move(j, event, to, 0)
	}
	j.cancelRequested = false
	if j.state != broker.StateNone { // most jobs are done and gone, and nobody sees their last head
		j.write(ownHead(o.Apply(*head, now.stamp(), history)))
	}
	q.store.emit(broker.Event{Kind: broker.EventSettled, Queue: q.name, ID: j.id, State: to})
	return to
}
