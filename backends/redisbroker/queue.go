package redisbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// queue is what this process knows of a queue. What it does not know, it
// assumes; scripts refuse a wrong assumption and say what is right.
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

// learn notes how many buckets a queue has.
func (b *Broker) learn(name string, buckets int) {
	q := newQueue(baseOf(b.config.Prefix, name), name, buckets)
	q.used.Store(uptime())
	q.listed.Store(b.queue(name).listed.Load())
	b.queues.Store(name, q)
}

// forgetAfter is for how long a queue is remembered that is not used: what is
// known of one takes several KB.
const forgetAfter = 10 * time.Minute

// forget drops the queues that have not been used for long. It looks whenever a
// queue is used, at most once in a tenth of that time.
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

// listKey is the set of the names of all queues.
func (b *Broker) listKey() string { return b.config.Prefix + ":queues" }

// register puts the queues that steps may make into the list of queues, each
// once as long as this process knows it, before anything is stored in them.
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
	if err := b.enlist(ctx, names...); err != nil {
		return err
	}
	for _, name := range names {
		b.queue(name.(string)).listed.Store(true)
	}
	return nil
}

// enlist adds names to the list of queues. Its errors say that nothing was
// applied: a name too many in the list is as good as nothing.
func (b *Broker) enlist(ctx context.Context, names ...any) error {
	c := &call{key: b.listKey(), args: append([]any{"sadd", b.listKey()}, names...)}
	if b.exec(ctx, []*call{c}); c.err != nil {
		return notSent(c.err)
	}
	return nil
}

// create makes a queue that is not there. It is listed again first, since
// another process may just have removed it.
func (b *Broker) create(ctx context.Context, name string) error {
	if err := b.enlist(ctx, name); err != nil {
		return err
	}
	s := &step{script: createScript, queues: []string{name}, now: "0"}
	c := b.newCall(s)
	b.exec(ctx, []*call{c})
	s.read(c)
	switch {
	case s.err != nil:
		return notSent(s.err) // what the queue was needed for has not been sent
	case s.code == codeBusy:
		return &broker.Error{Queue: name, Err: broker.ErrInvalid, Field: "prefix",
			Hint: fmt.Sprintf("keys that begin with %q exist without a queue's record: they are another program's, "+
				"or the record was evicted or deleted; see docs/operations.md", baseOf(b.config.Prefix, name))}
	}
	b.repair(ctx, s)
	return s.err
}
