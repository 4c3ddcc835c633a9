package pgbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// removeQueue removes a queue that has no job and no live worker. First it marks the queue
// as leaving. Then it waits for the transactions that may not have read the mark; this
// blocks no other call. So removeQueue either sees a job that is being stored, or the enqueue
// of that job reads the mark and clears it again. If a caller's transaction stays open for
// longer than writersWait, the removal fails.
func (o *operating) removeQueue(ctx context.Context) error {
	for _, r := range o.results {
		if r.Ref.ID != "" {
			r.Err = broker.Invalid("id", "is set; remove a queue by its name alone")
			continue
		}
		layout, idle, err := o.leave(ctx, false)
		if err == nil && idle {
			if err = o.awaitWriters(ctx); err == nil {
				layout, idle, err = o.leave(ctx, true)
			}
			if err != nil || !idle {
				o.stay(ctx)
			}
		}
		switch {
		case err != nil:
			return err
		case layout == 0:
			r.Err = broker.ErrNotFound
		case layout > knownLayout:
			r.Err = checkLayout(layout)
		case !idle:
			r.Err = o.inUse(ctx)
		}
		o.b.waker.wake(o.queue, false) // waiting claims then find that their worker is gone
	}
	return nil
}

// inUse returns why the queue cannot be removed.
func (o *operating) inUse(ctx context.Context) error {
	reply, err := o.b.Queues(ctx, broker.QueuesRequest{Now: o.op.Now, Names: []string{o.queue}, Workers: true})
	info := broker.QueueInfo{}
	if err == nil && len(reply.Queues) == 1 {
		info = reply.Queues[0]
	}
	return broker.QueueInUse(info)
}

// leave marks an idle queue as leaving, or removes one that is still idle.
func (o *operating) leave(ctx context.Context, remove bool) (layout int, idle bool, err error) {
	err = o.b.run(ctx, o.b.byIndex(false), o.b.step("remove_queue", one(&layout, &idle), o.now.micros, o.queue, remove))
	return layout, idle, err
}

// stay removes the mark. If that fails too, the next job or worker of the queue removes it.
func (o *operating) stay(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	o.b.run(ctx, o.b.step("remove_queue_stay", nil, o.queue))
}

// awaitWriters waits until the transactions that are writing now have ended.
func (o *operating) awaitWriters(ctx context.Context) error {
	var writers []string
	for begun := time.Now(); ; {
		err := o.b.run(ctx, o.b.step("remove_queue_writers", one(&writers), writers))
		if err != nil || len(writers) == 0 {
			return err
		}
		if time.Since(begun) > writersWait {
			return fmt.Errorf("%w: a transaction that has written is still open; remove the queue when it has ended", broker.ErrUnavailable)
		}
		select {
		case <-ctx.Done():
			return notSent(ctx.Err())
		case <-time.After(writersPause):
		}
	}
}

const (
	// How long a removal waits for writers. It may be long, since it blocks no other call.
	writersWait = 3 * time.Second

	// The pause between two checks of the writers; most end within this time.
	writersPause = 5 * time.Millisecond
)
