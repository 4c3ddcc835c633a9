package pgbroker

import (
	"cmp"
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Retire first ends the worker's ID, and then releases its jobs in batches, as a settle does. If
// the call fails in between, other workers reclaim the rest. §12.
func (b *Broker) Retire(ctx context.Context, req broker.RetireRequest) (got broker.Retired, err error) {
	defer about(&err, "retire", "")
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return got, err
	}
	b.leases.forget(req.Worker)
	now, queues := clockOf(req.Now), distinct(req.Queues)
	for {
		var held []broker.Job
		err := b.run(ctx, b.byIndex(false), b.notNewer(queues...),
			b.step("renew_apart", nil, req.Worker), b.step("retire_meet", nil, now.micros, req.Worker, queues),
			b.step("retire_end", nil, now.micros, req.Worker, queues),
			b.step("retire_held", each(func(r rows) error {
				var j broker.Job
				var head headRow
				err := r.Scan(append([]any{&j.Queue, &j.ID}, head.columns()...)...)
				j.Head, _ = head.head() // if the tail cannot be read, the stored tail does not change
				held = append(held, j)
				return err
			}), req.Worker, queues, retireBatch))
		if err != nil {
			return got, err
		}
		released, err := b.release(ctx, b, req.Worker, req.Now, held)
		got.Released = append(got.Released, released...)
		if err != nil {
			return got, err
		}
		if len(held) < retireBatch {
			return got, nil
		}
	}
}

const retireBatch = 1000

// release puts jobs of a worker back to the front of their queues, with a settle that has no
// number. It returns the released jobs.
func (b *Broker) release(ctx context.Context, on session, worker string, now time.Time, held []broker.Job) (released []broker.Ref,
	err error) {
	settle := broker.SettleRequest{Now: now, Worker: worker}
	for i := range held {
		settle.Items = append(settle.Items, broker.Settlement{Job: &held[i], Outcome: broker.Release()})
	}
	s := newSettling(b, &settle)
	if steps := s.steps(); len(steps) > 0 {
		err = on.run(ctx, append([]step{b.byIndex(false)}, steps...)...)
	}
	verdicts, err := s.verdicts(ctx, err)
	for i, v := range verdicts {
		if v.Err == nil && v.State == broker.StatePending {
			released = append(released, broker.Ref{Queue: v.Queue, ID: v.ID, Epoch: held[i].Epoch + 1})
		}
	}
	return released, err
}
