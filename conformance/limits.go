package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// The features that a backend may decline. Its refusal must be ErrUnsupported, with nothing changed.
var (
	unique = &limit{name: "NoUnique", declared: func(l broker.Limits) bool { return l.NoUnique }, refused: func(c *check) {
		c.refuse(c.uniqueJob("a", "key", broker.UniqueUntilDone, 0), broker.ErrUnsupported)
		c.gone("a")
		c.add("a")
	}}
	meets = &limit{name: "NoMove", declared: func(l broker.Limits) bool { return l.NoMove || l.NoUnique }, refused: func(c *check) {
		if !c.limits.NoUnique {
			c.accept(c.uniqueJob("a", "key", broker.UniqueUntilDone, 0))
		}
		for _, conflict := range []broker.UniqueConflict{broker.ConflictReplace, broker.ConflictKeepLast} {
			c.refuse(c.meeting("n", conflict), broker.ErrUnsupported)
			c.gone("n")
		}
		c.refuse(c.debounced("n", time.Minute), broker.ErrUnsupported)
		c.gone("n")
	}}
	priority = &limit{name: "NoPriority", declared: func(l broker.Limits) bool { return l.NoPriority }, refused: func(c *check) {
		for _, p := range []broker.Priority{broker.PriorityUrgent, broker.PriorityLow, broker.PriorityBulk} {
			j := c.job("a")
			j.Body.Priority = p
			c.refuse(j, broker.ErrUnsupported)
			c.gone("a")
		}
		c.add("a")
	}}
	wait = &limit{name: "NoWait", declared: func(l broker.Limits) bool { return l.NoWait }, refused: func(c *check) {
		c.real()
		w := c.worker("w")
		req := w.request(1)
		req.Wait = broker.MaxWait // longer than the rule may take
		got, err := w.b.Claim(c.ctx, req)
		c.ok("a claim with a wait, which must return at once", err)
		c.same("jobs", len(got.Jobs), 0)
	}}
	watch = &limit{name: "NoWatch", declared: func(l broker.Limits) bool { return l.NoWatch }, refused: func(c *check) {
		_, err := c.b.Watch(c.ctx, broker.WatchRequest{Queues: []string{c.q}})
		c.is("Watch", err, broker.ErrUnsupported)
	}}
	examines = &limit{name: "NoExamine", declared: func(l broker.Limits) bool { return l.NoExamine }, refused: func(c *check) {
		_, err := c.b.Examine(c.ctx, broker.ExamineRequest{Now: c.now})
		c.is("Examine", err, broker.ErrUnsupported)
	}}
	marks = &limit{name: "NoMark", declared: func(l broker.Limits) bool { return l.NoMark }, refused: func(c *check) {
		_, err := c.b.Mark(c.ctx, broker.MarkRequest{Now: c.now, Action: broker.MarkTake, Name: "m", Owner: "o", TTL: time.Minute})
		c.is("Mark", err, broker.ErrUnsupported)
	}}
	flow = &limit{name: "NoFlow", declared: func(l broker.Limits) bool { return l.NoFlow }, refused: func(c *check) {
		before := c.policy(broker.PolicyRequest{})
		one, rate, order := new(int64(1)), &broker.Rate{Jobs: 1, Per: time.Second}, new(broker.OrderStop)
		for _, r := range []broker.PolicyRequest{{MaxActive: one}, {Rate: rate}, {MaxBytes: one}, {KeyMaxDepth: one}, {KeyMaxActive: one},
			{KeyRate: rate}, {RetryRate: rate}, {Ordered: order}, {Key: "k", Paused: new(true)}, {Key: "k", Weight: one}} {
			r.Queue = c.q
			_, err := c.b.Policy(c.ctx, r)
			c.is("Policy", err, broker.ErrUnsupported)
		}
		c.same("the policy after what was refused", c.policy(broker.PolicyRequest{}), before)
		_, err := c.b.Keys(c.ctx, broker.KeysRequest{Now: c.now, Queue: c.q})
		c.is("Keys", err, broker.ErrUnsupported)
	}}
	moves = &limit{name: "NoMove", declared: func(l broker.Limits) bool { return l.NoMove }, refused: func(c *check) {
		c.add("dead")
		w := c.worker("w")
		w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one("dead"))
		c.add("a")
		want := map[string]broker.Job{"a": *c.must("a", broker.StatePending), "dead": *c.must("dead", broker.StateDead)}
		for _, op := range []broker.Operation{{Kind: broker.OpHold, Holder: holder}, {Kind: broker.OpUnhold},
			{Kind: broker.OpUnhold, Holder: holder},
			{Kind: broker.OpEdit, Payload: []byte("new")}, {Kind: broker.OpDelete, Holder: holder}} {
			for id := range want {
				op.Now, op.Refs = c.now, []broker.Ref{c.ref(id)}
				_, err := c.b.Operate(c.ctx, op)
				c.is("Operate: "+op.Kind.String(), err, broker.ErrUnsupported)
			}
		}
		for id, j := range want {
			c.same("job "+id+" after what was refused", *c.find(id), j)
			n := c.copyOf(id)
			n.ID = "copy"
			c.refuse(n, broker.ErrUnsupported)
		}
		c.that(c.findIn(elsewhere, "copy") == nil, "the copy that was refused\ngot  a job\nwant none")
		c.same("waiting jobs", c.counted(c.q).Counts[broker.StateWaiting], int64(0))
	}}
)
