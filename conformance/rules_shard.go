package conformance

import (
	"errors"
	"fmt"

	"github.com/seed81422ce9/jobs/broker"
)

// These rules must hold over all the stores of a backend together, and also for a
// backend with one store.
var shardRules = []Rule{
	{"Shard/LimitsOfAQueueHold", "§44", "However many stores a queue is spread over, together they never exceed a limit of the queue.", flow,
		func(c *check) {
			n := int64(max(1, c.limits.Shards))
			active, depth := 3*n+1, 12*n+1
			c.policy(broker.PolicyRequest{MaxActive: &active, MaxDepth: &depth})
			var jobs []broker.NewJob
			for _, id := range numbered("j", int(40*n)) {
				jobs = append(jobs, c.job(id))
			}
			accepted := int64(0)
			for _, r := range c.enqueue(jobs...) {
				if r.Err == nil {
					accepted++
				} else {
					c.is("Enqueue into a full queue", r.Err, broker.ErrQueueFull)
				}
			}
			c.same("jobs accepted", accepted, depth)
			var held []*broker.Job
			workers := []*worker{c.worker("w"), c.workerOn(c.open(), "v")}
			for i := range 2 * n {
				for _, j := range workers[i%2].claim(int(n)) {
					held = append(held, &j)
				}
			}
			for _, w := range workers {
				held = append(held, refs(w.claim(int(active)))...)
			}
			c.same("jobs active over all stores", int64(len(held)), active)
			c.same("jobs active, as counted", c.queue(c.q).Counts[broker.StateActive], active)
		}},
	{"Shard/AKeyIsInOneStore", "§44", "The jobs of a key run in order, and a unique key has one holder, over however many stores " +
		"a queue is spread.",
		flow.and(unique), func(c *check) {
			c.ordered(broker.OrderStop)
			keys := numbered("key", 6)
			for _, key := range keys {
				c.addTo(key, key+" 0", key+" 1", key+" 2")
			}
			w := c.worker("w")
			for i := range 3 {
				var held []broker.Job
				for more := true; more; {
					got := w.claim(len(keys))
					held, more = append(held, got...), len(got) > 0
				}
				var want []string
				for _, key := range keys {
					want = append(want, fmt.Sprint(key, " ", i))
				}
				c.same("jobs claimed, one of each key", sorted(idsOf(held)), want)
				w.settle(broker.Complete(nil), refs(held)...)
			}
			for i, key := range keys {
				first, second := c.uniqueJob(fmt.Sprint("first", i), key, untilDone, 0), c.uniqueJob(fmt.Sprint("second", i), key, untilDone, 0)
				first.Body.Key, second.Body.Key = key, key
				c.accept(first)
				r := c.enqueue(second)[0]
				c.that(errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == first.ID, "a second job with the unique key %s\ngot  "+
					"%v, holder %q\nwant ErrDuplicate, holder %q",
					key, r.Err, r.Holder, first.ID)
			}
		}},
}
