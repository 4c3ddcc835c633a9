package redisbroker

import (
	"context"
	"fmt"

	"github.com/seed81422ce9/jobs/broker"
)

// queue is what this process knows of a queue. What it does not know, it
// assumes; scripts refuse a wrong assumption and say what is right.
func (b *Broker) queue(name string) *queue {
	if q, ok := b.queues.Load(name); ok {
		return q.(*queue)
	}
	q, _ := b.queues.LoadOrStore(name, newQueue(baseOf(b.config.Prefix, name), name, b.config.Buckets))
	return q.(*queue)
}

// learn notes how many buckets a queue has.
func (b *Broker) learn(name string, buckets int) {
	b.queues.Store(name, newQueue(baseOf(b.config.Prefix, name), name, buckets))
}

// listKey is the set of the names of all queues.
func (b *Broker) listKey() string { return b.config.Prefix + ":queues" }

// register puts the queues that steps may make into the list of queues, each
// once in the life of this process, before anything is stored in them.
func (b *Broker) register(ctx context.Context, steps []*step) error {
	var names []any
	for _, s := range steps {
		if !s.create {
			continue
		}
		for _, name := range s.queues {
			if _, known := b.registered.Load(name); !known {
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
		b.registered.Store(name, struct{}{})
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
			Hint: fmt.Sprintf("keys that begin with %q exist without a queue's record: they are another program's, or the record was evicted or deleted; see docs/operations.md", b.config.Prefix+":{…}:")}
	}
	b.repair(ctx, s)
	return s.err
}
