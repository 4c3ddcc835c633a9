package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// queue returns what this process knows about a queue. What it does not know, it assumes: scripts
// refuse a wrong assumption and answer the right value.
func (b *Broker) queue(name string) *queue {
	b.forget()
	known, ok := b.queues.Load(name)
	if !ok {
		known, _ = b.queues.LoadOrStore(name, newQueue(baseOf(b.config.Prefix, name), name, b.config.Buckets))
	}
	q := known.(*queue)
	q.used.Store(uptime())
	return q
}

// learn stores how many buckets a queue has.
func (b *Broker) learn(name string, buckets int) {
	q := newQueue(baseOf(b.config.Prefix, name), name, buckets)
	q.used.Store(uptime())
	q.listed.Store(b.queue(name).listed.Load())
	b.queues.Store(name, q)
}

// forgetAfter is how long an unused queue, or a worker that is not renewed, is remembered.
const forgetAfter = 10 * time.Minute

// forget drops queues that have not been used for forgetAfter. It is called whenever a queue is
// used, but checks at most once in a tenth of that time.
func (b *Broker) forget() {
	now, last := uptime(), b.forgot.Load()
	if last != 0 && now-last < forgetAfter.Microseconds()/10 || !b.forgot.CompareAndSwap(last, now) {
		return
	}
	b.queues.Range(func(name, q any) bool {
		if now-q.(*queue).used.Load() > forgetAfter.Microseconds() {
			b.queues.CompareAndDelete(name, q)
		}
		return true
	})
}

// listKey returns the key of the set of all queues' names.
func (b *Broker) listKey() string { return b.config.Prefix + ":queues" }

// register adds the queues that steps may create to the list of queues, before anything is stored in
// them. It adds each queue only once while this process knows it.
func (b *Broker) register(ctx context.Context, steps []*step) error {
	var names []any
	for _, s := range steps {
		if !s.create {
			continue
		}
		for _, name := range s.queues {
			if !b.queue(name).listed.Load() {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return b.enlist(ctx, names)
}

// enlist adds names to the list of queues. Its errors say that nothing was applied: an extra name
// in the list does no harm.
func (b *Broker) enlist(ctx context.Context, names []any) error {
	c := &call{key: b.listKey(), args: append([]any{"sadd", b.listKey()}, names...)}
	b.exec(ctx, []*call{c})
	if c.err != nil && !(answered(c.err) && b.enlisted(ctx, names)) {
		return notSent(c.err)
	}
	for _, name := range names {
		b.queue(name.(string)).listed.Store(true)
	}
	return nil
}

// enlisted reports whether the list has all these names. It is needed because a full server refuses to
// add even names that are in the list, and new workers must be able to empty such a server.
func (b *Broker) enlisted(ctx context.Context, names []any) bool {
	c := &call{key: b.listKey(), args: append([]any{"smismember", b.listKey()}, names...)}
	if b.exec(ctx, []*call{c}); c.err != nil {
		return false
	}
	there, err := c.cmd.Slice()
	return err == nil && !slices.Contains(there, any(int64(0)))
}

// create creates queues that do not exist, in three round trips, and returns an error or nil for each name. It adds them to the list of
// queues before and after: another client that has removed such a queue may be about to remove its name, too.
func (b *Broker) create(ctx context.Context, names []string) []error {
	errs, steps, listed := make([]error, len(names)), make([]*step, len(names)), make([]any, len(names))
	for i, name := range names {
		steps[i], listed[i] = &step{script: createScript, queues: []string{name}, now: "0"}, name
	}
	if len(names) == 0 {
		return nil
	}
	err := b.enlist(ctx, listed)
	if err == nil {
		for i, c := range b.exchange(ctx, steps) {
			steps[i].read(c)
		}
		err = b.enlist(ctx, listed)
	}
	for i, s := range steps {
		switch {
		case err != nil:
			errs[i] = err
		case s.err != nil:
			errs[i] = notSent(s.err) // the call that needs the queue was not applied
		case s.code == codeBusy:
			errs[i] = &broker.Error{Queue: names[i], Err: broker.ErrInvalid, Field: "prefix",
				Hint: fmt.Sprintf("keys that begin with %q exist without a queue's record: they are another program's, "+
					"or the record was evicted or deleted; see docs/operations.md", baseOf(b.config.Prefix, names[i]))}
		default:
			b.repair(s)
			errs[i] = s.err
		}
	}
	return errs
}
