package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var policyRules = []Rule{
	{"Policy/PausedGivesNothing", "§17", "A paused queue gives nothing, neither pending jobs nor due ones, until it is resumed.", nil,
		func(c *check) {
			c.accept(c.job("a"), c.later("late", time.Minute))
			w := c.worker("w")
			c.pause(c.q, true)
			w.nothing()
			c.pass(time.Minute)
			w.nothing()
			c.must("a", broker.StatePending)
			c.b = c.open()
			c.workerOn(c.b, "v").nothing()
			c.pause(c.q, false)
			w.take("a", "late")
		}},
	{"Policy/PausedTakesAndSettles", "§17",
		"A paused queue still accepts jobs, and jobs that were claimed before can be settled, renewed, " +
			"reclaimed and released.", nil, func(c *check) {
			c.add("a", "b", "c")
			w, v, r := c.worker("w"), c.worker("v"), c.worker("r")
			a := w.one("a")
			w.take("b")
			v.take("c")
			c.pause(c.q, true)
			c.add("d")
			w.settle(broker.Complete(nil), a)
			c.same("released", len(v.retire().Released), 1)
			c.runOut(r)
			taken := r.reclaim(5)
			c.same("reclaimed", idsOf(taken), []string{"b"})
			r.settle(broker.Release(), &taken[0])
			r.nothing()
			c.pause(c.q, false)
			c.same("claimed", sorted(idsOf(r.claim(5))), []string{"b", "c", "d"})
		}},
	{"Policy/PausedWithholdsNothingElse", "§14", "A claim over several queues gives the jobs of those that are not paused.", nil,
		func(c *check) {
			c.accept(c.job("a"), c.jobIn("other", "b"))
			w := c.worker("w", c.q, "other")
			c.pause(c.q, true)
			c.same("claimed", idsOf(w.claim(5)), []string{"b"})
		}},
	{"Policy/ChangesOnlyWhatIsSet", "§20",
		"A policy request changes the fields that it sets, in one step, and returns the whole policy; a request that " +
			"sets none only reads.", nil, func(c *check) {
			c.add("a")
			c.same("policy of a fresh queue", c.policy(broker.PolicyRequest{}), broker.Policy{})
			yes, depth, span := true, int64(5_000_000_000), 3*time.Hour+time.Microsecond
			done, dead := broker.Retention{Age: time.Hour, Count: 100}, broker.Retention{Age: 40 * 24 * time.Hour, Count: 7}
			want := broker.Policy{Paused: true}
			c.same("after pausing", c.policy(broker.PolicyRequest{Paused: &yes}), want)
			want.MaxDepth, want.RetainCompleted = depth, done
			c.same("after two more", c.policy(broker.PolicyRequest{MaxDepth: &depth, RetainCompleted: &done}), want)
			want.RetainDead, want.DuplicateSpan = dead, span
			c.same("after the rest", c.policy(broker.PolicyRequest{RetainDead: &dead, DuplicateSpan: &span}), want)
			want.PriorityRound = 7
			c.same("after a priority round", c.policy(broker.PolicyRequest{PriorityRound: new(int64(7))}), want)
			no, none := false, broker.Retention{}
			want.Paused, want.RetainDead = false, none
			c.same("after taking two back", c.policy(broker.PolicyRequest{Paused: &no, RetainDead: &none}), want)
			c.b = c.open()
			c.same("as another client reads it", c.policy(broker.PolicyRequest{}), want)
			c.same("as Queues shows it", c.queue(c.q).Policy, want)
		}},
	{"Policy/IsOfOneQueue", "§20", "A policy applies only to its own queue.", nil, func(c *check) {
		other := c.jobIn("other", "b")
		c.accept(c.job("a"), other)
		depth := int64(1)
		c.policy(broker.PolicyRequest{MaxDepth: &depth})
		c.pause(c.q, true)
		c.same("policy of the other queue", c.policy(broker.PolicyRequest{Queue: "other"}), broker.Policy{})
		other.ID = "c"
		c.accept(other)
		c.same("claimed", idsOf(c.worker("w", "other").claim(5)), []string{"b", "c"})
	}},
	{"Policy/MayComeBeforeTheFirstJob", "§1", "A policy may be set before the queue's first job, which then obeys it.", nil,
		func(c *check) {
			depth := int64(1)
			c.policy(broker.PolicyRequest{MaxDepth: &depth})
			c.same("policy of the queue, which is listed now", c.queue(c.q).Policy, broker.Policy{MaxDepth: 1})
			c.add("a")
			c.refuse(c.job("b"), broker.ErrQueueFull)
		}},
	{"Policy/RefusesWhatIsInvalid", "§20", "A policy outside the limits is refused with ErrInvalid and changes nothing.", nil,
		func(c *check) {
			c.add("a")
			yes, below := true, int64(-2)
			for _, req := range []broker.PolicyRequest{
				{Queue: c.q, Paused: &yes, MaxDepth: &below},
				{Queue: c.q, Paused: &yes, RetainDead: &broker.Retention{Age: -1}},
				{Queue: c.q, Paused: &yes, MaxDepth: new(int64)},
				{Queue: c.q, Paused: &yes, PriorityRound: new(int64(3))},
				{Queue: c.q, Paused: &yes, PriorityRound: new(int64(broker.MaxPriorityRound + 1))},
				{Queue: "{}", Paused: &yes},
			} {
				_, err := c.b.Policy(c.ctx, req)
				c.is("Policy", err, broker.ErrInvalid)
			}
			c.same("policy", c.policy(broker.PolicyRequest{}), broker.Policy{})
		}},
	{"Policy/FullQueueRefuses", "§20",
		"A queue at its depth refuses jobs with ErrQueueFull, item by item; pending and scheduled jobs count.", nil, func(c *check) {
			c.accept(c.later("late", time.Hour))
			depth := int64(3)
			c.policy(broker.PolicyRequest{MaxDepth: &depth})
			r := c.enqueue(c.job("a"), c.job("b"), c.job("c"), c.job("d"))
			c.ok("the second of three", r[0].Err)
			c.ok("the third of three", r[1].Err)
			c.is("the fourth", r[2].Err, broker.ErrQueueFull)
			var full *broker.Error
			c.that(errors.As(r[2].Err, &full) && strings.Contains(full.Hint, fmt.Sprintf("limit is %d", depth)),
				"the fourth\ngot  %v\nwant the limit in the hint", r[2].Err)
			c.is("the fifth", r[3].Err, broker.ErrQueueFull)
			c.refuse(c.later("e", time.Hour), broker.ErrQueueFull)
			for _, id := range []string{"c", "d", "e"} {
				c.gone(id)
			}
			w := c.worker("w")
			w.take("a")
			c.add("c")
			c.decide(broker.OpDelete, "late")
			c.add("d")
			c.refuse(c.job("e"), broker.ErrQueueFull)
			none := int64(broker.NoLimit)
			c.policy(broker.PolicyRequest{MaxDepth: &none})
			c.add("e")
		}},
	{"Policy/FullQueueRefusesNoRetry", "§20", "Retries do not count towards the depth, and what was accepted once is never refused.",
		nil, func(c *check) {
			depth := int64(2)
			c.add("a", "b", "c", "d")
			w, v := c.worker("w"), c.worker("v")
			held := w.take("a", "b", "c")
			v.take("d")
			c.policy(broker.PolicyRequest{MaxDepth: &depth})
			w.settle(broker.Retry(time.Hour, failure("x")), &held[0])
			c.add("e", "f")
			c.refuse(c.job("g"), broker.ErrQueueFull)
			w.settle(broker.Release(), &held[1])
			w.settle(broker.Snooze(time.Hour, failure("")), &held[2])
			c.same("released", len(v.retire().Released), 1)
			c.same("pending", c.counted(c.q).Counts[broker.StatePending], int64(4))
			c.same("in retry", c.counted(c.q).Counts[broker.StateRetry], int64(2))
			c.pass(time.Hour)
			c.same("claimed", len(w.claim(10)), 6)
		}},
	{"Policy/DepthHoldsOverHandles", "§20", "Every handle sees the same depth.", nil, func(c *check) {
		c.add("first")
		depth := int64(5)
		c.policy(broker.PolicyRequest{MaxDepth: &depth})
		handles := []broker.Broker{c.b, c.open(), c.open()}
		for i := range 4 {
			c.b = handles[i%3]
			c.add(fmt.Sprint("j", i))
		}
		for _, c.b = range handles {
			c.refuse(c.job("over"), broker.ErrQueueFull)
		}
	}},
}
