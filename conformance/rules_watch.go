package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var watchRules = []Rule{
	{"Watch/SettledIsSeen", "§25",
		"Once Watch has returned, a watcher sees each job reach its state, even if another handle settles it.", watch, func(c *check) {
			events := c.watch(broker.WatchRequest{Queues: []string{c.q}})
			c.b = c.open()
			c.add("completed", "dead", "retried")
			w := c.worker("w")
			held := w.take("completed", "dead", "retried")
			w.settle(broker.Complete(nil), &held[0])
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), &held[1])
			w.settle(broker.Retry(time.Hour, failure("x")), &held[2])
			c.sees(events, c.settledAs("completed", broker.StateCompleted), c.settledAs("dead", broker.StateDead),
				c.settledAs("retried", broker.StateRetry))
		}},
	{"Watch/RepeatIsNotSeen", "§25", "A settle that is sent again sends no event again.", watch, func(c *check) {
		events := c.watch(broker.WatchRequest{Queues: []string{c.q}, Kinds: []broker.EventKind{broker.EventSettled}})
		c.add("a", "b", "c")
		w := c.worker("w")
		held := w.take("a", "b", "c")
		done := func(i int) broker.Settlement { return broker.Settlement{Job: &held[i], Outcome: broker.Complete(nil)} }
		for range 3 {
			c.ok("settle", w.sendAs(1, done(0), done(1))[0].Err)
		}
		w.sendAs(2, done(2))
		times := make(map[string]int)
		c.event("events of all three", events, func(e broker.Event) bool {
			times[e.ID]++
			return len(times) == 3
		})
		c.same("how many events a and b had", []int{times["a"], times["b"]}, []int{1, 1})
	}},
	{"Watch/CancelIsSeen", "§22", "A watcher sees that an active job was asked to cancel.", watch, func(c *check) {
		events := c.watch(broker.WatchRequest{Queues: []string{c.q}, Kinds: []broker.EventKind{broker.EventCancel}})
		c.add("a")
		c.worker("w").take("a")
		c.b = c.open()
		c.decide(broker.OpCancel, "a")
		c.sees(events, broker.Event{Kind: broker.EventCancel, Queue: c.q, ID: "a"})
	}},
	{"Watch/ShowsWhatWasAskedFor", "§25", "A watcher sees only events of its queues and its kinds.", watch, func(c *check) {
		events := c.watch(broker.WatchRequest{Queues: []string{c.q}, Kinds: []broker.EventKind{broker.EventSettled}})
		w := c.worker("w", c.q, "other")
		c.accept(c.jobIn("other", "x"), c.job("a"))
		held := w.claim(2)
		c.decide(broker.OpCancel, "a")
		w.settle(broker.Complete(nil), &held[1])
		w.settle(broker.Complete(nil), &held[0])
		e := c.event("first event", events, func(e broker.Event) bool { return e.Kind != broker.EventMissed })
		c.same("first event", e, c.settledAs("a", broker.StateCompleted))
	}},
	{"Watch/EndsWithItsContext", "§25", "The channel is closed when the watcher's context ends, and no other watcher's channel is.", watch,
		func(c *check) {
			ctx, cancel := context.WithCancel(c.ctx)
			ended, err := c.b.Watch(ctx, broker.WatchRequest{Queues: []string{c.q}})
			c.ok("Watch", err)
			events := c.watch(broker.WatchRequest{Queues: []string{c.q}})
			cancel()
			c.closed("channel of the watcher whose context ended", ended)
			c.add("a")
			w := c.worker("w")
			w.settle(broker.Complete(nil), w.one("a"))
			c.sees(events, c.settledAs("a", broker.StateCompleted))
		}},
	{"Watch/EndsWithItsBroker", "§25", "The channel is closed when the broker is closed.", watch, func(c *check) {
		b := c.open()
		events, err := b.Watch(c.ctx, broker.WatchRequest{Queues: []string{c.q}})
		c.ok("Watch", err)
		c.ok("Close", b.Close())
		c.closed("channel of a closed broker", events)
	}},
	{"Watch/CountsWhatASlowOneMissed", "§25", "A watcher that does not keep up gets its events or is told how many it missed.", watch,
		func(c *check) {
			const batches, size = 6, 500
			events := c.watch(broker.WatchRequest{Queues: []string{c.q}, Kinds: []broker.EventKind{broker.EventSettled}})
			w := c.worker("w")
			for b := range batches {
				c.addMany(fmt.Sprint(b, "-"), size)
				w.settle(broker.Complete(nil), refs(w.claim(size))...)
			}
			seen, missed := int64(0), int64(0)
			for seen+missed < batches*size {
				e := c.event(fmt.Sprintf("event after %d seen and %d missed of %d", seen, missed, batches*size), events,
					func(broker.Event) bool { return true })
				if e.Kind == broker.EventMissed {
					missed += e.Missed
				} else {
					seen++
				}
			}
			c.same("seen and missed", seen+missed, int64(batches*size))
		}},
}

func (c *check) watch(req broker.WatchRequest) <-chan broker.Event {
	c.tb.Helper()
	events, err := c.b.Watch(c.ctx, req)
	c.ok("Watch", err)
	return events
}

// sees waits for these events, in any order, among others. The state in an EventCancel means nothing.
func (c *check) sees(events <-chan broker.Event, want ...broker.Event) {
	c.tb.Helper()
	c.event(fmt.Sprintf("events %+v", want), events, func(e broker.Event) bool {
		if e.Kind == broker.EventCancel {
			e.State = broker.StateNone
		}
		want = slices.DeleteFunc(want, func(w broker.Event) bool { return w == e })
		return len(want) == 0
	})
}

// settledAs returns the event of a job that a settle took to a state.
func (c *check) settledAs(id string, state broker.State) broker.Event {
	return broker.Event{Kind: broker.EventSettled, Queue: c.q, ID: id, State: state}
}

// closed waits until a channel is closed, and ignores events until then.
func (c *check) closed(what string, events <-chan broker.Event) {
	c.tb.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case _, open := <-events:
			if !open {
				return
			}
		case <-timeout.C:
			c.failf("%s\ngot  open after %v\nwant closed", what, patience)
		}
	}
}
