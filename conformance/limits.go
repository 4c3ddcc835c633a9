package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// What a backend may decline, and how its refusal has to look: ErrUnsupported,
// with nothing changed.
var (
	unique = &limit{"NoUnique", func(l broker.Limits) bool { return l.NoUnique }, func(c *check) {
		c.refuse(c.uniqueJob("a", "key", broker.UniqueUntilDone, 0), broker.ErrUnsupported)
		c.gone("a")
		c.add("a")
	}}
	priority = &limit{"NoPriority", func(l broker.Limits) bool { return l.NoPriority }, func(c *check) {
		for _, p := range []broker.Priority{broker.PriorityUrgent, broker.PriorityLow, broker.PriorityBulk} {
			j := c.job("a")
			j.Body.Priority = p
			c.refuse(j, broker.ErrUnsupported)
			c.gone("a")
		}
		c.add("a")
	}}
	wait = &limit{"NoWait", func(l broker.Limits) bool { return l.NoWait }, func(c *check) {
		c.real()
		w := c.worker("w")
		req := w.request(1)
		req.Wait = broker.MaxWait // would outlast the rule
		got, err := w.b.Claim(c.ctx, req)
		c.ok("a claim with a wait, which is not waited", err)
		c.same("jobs", len(got.Jobs), 0)
	}}
	watch = &limit{"NoWatch", func(l broker.Limits) bool { return l.NoWatch }, func(c *check) {
		_, err := c.b.Watch(c.ctx, broker.WatchRequest{Queues: []string{c.q}})
		c.is("Watch", err, broker.ErrUnsupported)
	}}
	examines = &limit{"NoExamine", func(l broker.Limits) bool { return l.NoExamine }, func(c *check) {
		_, err := c.b.Examine(c.ctx, broker.ExamineRequest{Now: c.now})
		c.is("Examine", err, broker.ErrUnsupported)
	}}
	marks = &limit{"NoMark", func(l broker.Limits) bool { return l.NoMark }, func(c *check) {
		_, err := c.b.Mark(c.ctx, broker.MarkRequest{Now: c.now, Action: broker.MarkTake, Name: "m", Owner: "o", TTL: time.Minute})
		c.is("Mark", err, broker.ErrUnsupported)
	}}
)
