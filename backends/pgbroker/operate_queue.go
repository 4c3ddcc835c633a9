package pgbroker

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// removeQueue forgets queues that have no job and no live worker. It keeps
// other writers out, for as long as lockWait at most: a job that is on its way
// into the queue is either seen, or finds the queue gone and registers it
// again. A caller's transaction that stays open longer makes the removal fail.
func (o *operating) removeQueue(ctx context.Context) error {
	for _, r := range o.results {
		if r.Ref.ID != "" {
			r.Err = broker.Invalid("id", "is set; remove a queue by its name alone")
			continue
		}
		var layout int
		var removed bool
		err := o.b.transact(ctx, func(s session) error {
			return s.run(ctx, o.b.step("settings", nil, nil, milliseconds(lockWait)),
				step{sql: inSchema("lock table jobs.job, jobs.dead, jobs.history, jobs.worker in share row exclusive mode", o.b.config.Schema)},
				o.b.step("remove_queue", one(&layout, &removed), o.now.micros, o.queue))
		})
		switch {
		case err != nil:
			return err
		case layout == 0:
			r.Err = broker.ErrNotFound
		case layout > knownLayout:
			r.Err = newerLayout(layout)
		case !removed:
			r.Err = broker.ErrWrongState
		}
		o.b.waker.wake(o.queue, false) // who waits learns that its worker is gone
	}
	return nil
}

// transact runs f in a transaction of its own. Whatever fails before the
// commit is sent was not applied.
func (b *Broker) transact(ctx context.Context, f func(session) error) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		return notSent(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		tx.Rollback(ctx) // does nothing after a commit
	}()
	if err := f(connSession{tx.Conn(), b.config.PollOnly}); err != nil {
		if broker.MayHaveApplied(err) {
			err = notSent(err)
		}
		return err
	}
	return classify(tx.Commit(ctx))
}
