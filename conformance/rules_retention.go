package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var retentionRules = []Rule{
	{"Retention/JobsOwnWins", "§11",
		"The record of an ended job is kept for the job's own retention, or else the queue's, and pruned when that has passed.", nil,
		func(c *check) {
			c.keep(time.Hour)
			own := c.job("own")
			own.Body.Retention = 2 * time.Hour
			short := c.job("short")
			short.Body.Retention = time.Minute
			c.accept(own, c.job("queue's"), short)
			w := c.worker("w")
			w.settle(broker.Complete(nil), refs(w.take("own", "queue's", "short"))...)
			left := 3
			for _, step := range []struct {
				after time.Duration
				gone  string
			}{{time.Minute, "short"}, {time.Hour - time.Minute, "queue's"}, {time.Hour, "own"}} {
				c.pass(step.after - c.tick)
				c.same("pruned", c.prune().Completed, 0)
				c.must(step.gone, broker.StateCompleted)
				c.pass(c.tick)
				c.same("pruned", c.prune().Completed, 1)
				c.gone(step.gone)
				left--
				c.same("left", len(c.list(broker.Query{State: broker.StateCompleted})), left)
			}
		}},
	{"Retention/IsThatOfTheEnd", "§11", "A change of the policy's age applies to jobs that end after it.", nil, func(c *check) {
		c.keep(time.Hour)
		c.add("a", "b")
		w := c.worker("w")
		w.settle(broker.Complete(nil), w.one("a"))
		c.keep(time.Minute)
		w.settle(broker.Complete(nil), w.one("b"))
		c.keep(0)
		c.pass(time.Minute)
		c.same("pruned", c.prune().Completed, 1)
		c.must("a", broker.StateCompleted)
		c.pass(time.Hour - time.Minute - c.tick)
		c.same("pruned", c.prune().Completed, 0)
		c.pass(c.tick)
		c.same("pruned", c.prune().Completed, 1)
	}},
	{"Retention/CancelledLikeCompleted", "§11",
		"Cancelled records are kept and pruned like completed ones, however they were cancelled.", nil, func(c *check) {
			own := c.job("own")
			own.Body.Retention = time.Hour
			c.accept(own, c.job("none"))
			c.decide(broker.OpCancel, "own", "none")
			c.gone("none")
			c.keep(time.Hour)
			c.add("a", "b")
			w := c.worker("w")
			held := w.take("a", "b")
			w.settle(broker.Cancel(failure("x")), &held[0])
			c.decide(broker.OpCancel, "b")
			w.settle(broker.Release(), &held[1])
			c.pass(time.Hour - c.tick)
			c.prune()
			c.same("cancelled", sorted(idsOf(c.list(broker.Query{State: broker.StateCancelled}))), []string{"a", "b", "own"})
			c.pass(c.tick)
			c.same("pruned", c.prune(), broker.Pruned{Cancelled: 3})
			c.same("cancelled", len(c.list(broker.Query{State: broker.StateCancelled})), 0)
		}},
	{"Retention/CountBoundsRecords", "§23",
		"Prune removes completed and cancelled records over the policy's count, which is of both together, earliest end first.", nil,
		func(c *check) {
			c.policy(broker.PolicyRequest{RetainCompleted: &broker.Retention{Age: time.Hour, Count: 3}})
			w := c.worker("w")
			for i := range 6 {
				id := fmt.Sprint("j", i)
				c.add(id)
				w.settle([]broker.Outcome{broker.Complete(nil), broker.Cancel(failure("x"))}[i%2], w.one(id))
				c.pass(time.Second)
			}
			c.same("pruned", c.prune(), broker.Pruned{Completed: 2, Cancelled: 1})
			c.same("completed records", idsOf(c.list(broker.Query{State: broker.StateCompleted})), []string{"j4"})
			c.same("cancelled records", idsOf(c.list(broker.Query{State: broker.StateCancelled})), []string{"j3", "j5"})
		}},
	{"Retention/CountAloneKeepsNone", "§11", "A count without an age keeps no completed record.", nil, func(c *check) {
		c.policy(broker.PolicyRequest{RetainCompleted: &broker.Retention{Count: 10}})
		c.add("a")
		w := c.worker("w")
		w.settle(broker.Complete(nil), w.one("a"))
		c.gone("a")
	}},
	{"Retention/DeadStayByDefault", "§11",
		"Dead jobs are kept, whatever the retention of the job or of completed ones, until an operator or a policy for them says otherwise.", nil,
		func(c *check) {
			c.policy(broker.PolicyRequest{RetainCompleted: &broker.Retention{Age: time.Minute, Count: 1}})
			own := c.job("own")
			own.Body.Retention = time.Minute
			c.accept(own, c.job("a"), c.job("b"))
			w := c.worker("w")
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), refs(w.take("own", "a", "b"))...)
			c.pass(20 * 365 * 24 * time.Hour)
			c.same("pruned", c.prune().Dead, 0)
			c.same("dead", len(c.list(broker.Query{State: broker.StateDead})), 3)
		}},
	{"Retention/DeadByPolicy", "§23",
		"Prune removes dead jobs by the age and the count that their policy sets, earliest end first, and no others.", nil, func(c *check) {
			w := c.worker("w")
			c.add("done")
			c.keep(365 * 24 * time.Hour)
			w.settle(broker.Complete(nil), w.one("done"))
			for i := range 5 {
				id := fmt.Sprint("j", i)
				c.add(id)
				w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one(id))
				c.pass(time.Hour)
			}
			c.policy(broker.PolicyRequest{RetainDead: &broker.Retention{Age: 4 * time.Hour}})
			c.pass(-c.tick)
			c.same("pruned by age", c.prune().Dead, 1)
			c.pass(c.tick)
			c.same("pruned by age", c.prune().Dead, 1)
			c.same("dead", idsOf(c.list(broker.Query{State: broker.StateDead})), []string{"j2", "j3", "j4"})
			c.policy(broker.PolicyRequest{RetainDead: &broker.Retention{Count: 1}})
			c.same("pruned by count", c.prune(), broker.Pruned{Dead: 2})
			c.same("dead", idsOf(c.list(broker.Query{State: broker.StateDead})), []string{"j4"})
			c.must("done", broker.StateCompleted)
		}},
	{"Retention/PruneIsBounded", "§23", "A call of Prune examines at most Max records of a queue; it says More until nothing is left.", nil,
		func(c *check) {
			c.keep(time.Minute)
			ids := c.addMany("j", 25)
			w := c.worker("w")
			w.settle(broker.Complete(nil), refs(w.take(ids...))...)
			c.pass(time.Hour)
			w.renew()
			c.same("pruned in all", c.prunedInTens(), 25)
			c.policy(broker.PolicyRequest{RetainDead: &broker.Retention{Age: time.Hour}})
			c.add(ids...)
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), refs(w.take(ids...))...)
			c.pass(time.Hour)
			c.same("dead jobs pruned in all", c.prunedInTens(), 25)
		}},
	{"Retention/PruneByCountIsBounded", "§23", "A call of Prune examines at most Max records, also if a count bounds them.", nil,
		func(c *check) {
			keep := &broker.Retention{Age: time.Hour, Count: 2}
			c.policy(broker.PolicyRequest{RetainCompleted: keep, RetainDead: keep})
			w := c.worker("w")
			for _, o := range []broker.Outcome{broker.Complete(nil), broker.Die(broker.ReasonRetries, failure("x"))} {
				ids := c.addMany(o.Kind().String(), 25)
				w.settle(o, refs(w.take(ids...))...)
				c.same("pruned in all", c.prunedInTens(), 23)
			}
		}},
	{"Retention/PruneTouchesNothingElse", "§23", "Prune does not touch records whose retention is not over, nor other queues.",
		nil, func(c *check) {
			w := c.everyState()
			other := c.job("x")
			other.Queue, other.Body.Retention = "other", time.Second
			c.accept(other)
			v := c.worker("v", "other")
			v.settle(broker.Complete(nil), refs(v.claim(1))...)
			c.pass(23 * time.Hour)
			c.same("pruned", c.prune(), broker.Pruned{})
			for state, id := range stateIDs {
				if state != broker.StateScheduled && state != broker.StateRetry {
					c.must(id, state)
				}
			}
			c.that(c.findIn("other", "x") != nil, "record of another queue\ngot  gone\nwant it there: that queue was not pruned")
			c.that(!w.renew().Lost, "worker that ran out\ngot  ended by Prune\nwant only a Reclaim to end it")
			c.same("claimed", sorted(idsOf(w.claim(5))), []string{"pending", "retry", "scheduled"})
		}},
	{"Retention/PruneKeepsWhatIsRemembered", "§1", "Prune forgets neither remembered IDs nor unique windows before their time.", nil,
		func(c *check) {
			given := c.job("given")
			given.Body.GivenID = true
			given.Body.Retention = time.Minute
			c.accept(given)
			if !c.limits.NoUnique {
				c.accept(c.uniqueJob("u", "key", window, 2*time.Hour))
				c.decide(broker.OpDelete, "u")
			}
			w := c.worker("w")
			w.settle(broker.Complete(nil), w.one("given"))
			c.pass(time.Minute)
			c.prune()
			c.gone("given")
			c.pass(broker.DefaultDuplicateSpan - c.tick)
			c.prune()
			c.refuse(given, broker.ErrDuplicate)
			if !c.limits.NoUnique {
				c.refuse(c.uniqueJob("v", "key", window, time.Hour), broker.ErrDuplicate)
			}
			c.pass(2 * time.Hour)
			c.prune()
			c.accept(given)
		}},
}

// prunedInTens prunes ten records at a time until nothing is left, and returns how many were pruned.
func (c *check) prunedInTens() (sum int) {
	c.tb.Helper()
	for calls := 1; ; calls++ {
		p := ask(c, "Prune", c.b.Prune, broker.PruneRequest{Now: c.now, Queues: []string{c.q}, Max: 10})
		n := p.Completed + p.Cancelled + p.Dead
		c.that(n <= 10, "pruned by one call\ngot  %d\nwant at most 10", n)
		if sum += n; !p.More {
			return sum
		}
		c.that(calls < 50, "Prune\ngot  More after 50 calls\nwant an end")
	}
}
