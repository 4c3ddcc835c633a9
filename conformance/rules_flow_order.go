package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules about the order of a key's jobs.
var sequenceRules = []Rule{
	{"Sequence/OneAfterTheOther", "§36",
		"The jobs of a key are claimed one after the other, in their order, while those of other keys " +
			"run at the same time.", flow, func(c *check) {
			c.ordered(broker.OrderStop)
			c.addTo("a", "a1", "a2", "a3")
			c.addTo("b", "b1", "b2")
			w, v := c.worker("w"), c.workerOn(c.open(), "v")
			held := w.claim(9)
			c.same("claimed", sorted(idsOf(held)), []string{"a1", "b1"})
			v.rest()
			info := c.blocked("a", broker.BlockOrder)
			c.same("head of a", info.Head, "a1")
			c.that(info.Oldest.Equal(c.find("a2").CreatedAt), "oldest pending of a\ngot  %v\nwant that of a2", info.Oldest)
			for i := range held {
				w.settle(broker.Complete(nil), &held[i])
			}
			c.same("head of a when it ended", c.key("a").Head, "")
			held = v.claim(9)
			c.same("claimed", sorted(idsOf(held)), []string{"a2", "b2"})
			v.settle(broker.Cancel(failure("")), refs(held)...) // cancellation frees the key, as completion does
			v.take("a3")
		}},
	{"Sequence/AHeadKeepsItsTurn", "§36",
		"A head in retry, snoozed or crashed with a delay keeps its key back until it is due, and is then the first.", flow, func(c *check) {
			c.ordered(broker.OrderStop)
			c.addTo("a", "a1", "a2")
			w := c.worker("w")
			for i, o := range []broker.Outcome{broker.Retry(time.Minute, failure("x")), broker.Snooze(time.Minute, failure("")),
				broker.Crash(time.Minute, failure("x")),
				broker.Retry(0, failure("x")), broker.Snooze(0, failure("")), broker.Crash(0, failure("x")), broker.Release()} {
				w.settle(o, w.one("a1"))
				if c.addTo("b", numbered("b", 7)[i]); o.Delay() > 0 {
					w.settle(broker.Complete(nil), w.one(numbered("b", 7)[i])) // another key goes on
					got := w.rest()
					c.that(got.NextDue.Equal(c.find("a1").RunAt), "NextDue\ngot  %v\nwant %v, when the head is due", got.NextDue,
						c.find("a1").RunAt)
					c.same("head", c.blocked("a", broker.BlockOrder).Head, "a1")
					c.pass(time.Minute)
					w = c.worker(w.id + "'")
					continue
				}
				got := w.claim(9)
				c.same("claimed", sorted(idsOf(got)), []string{"a1", numbered("b", 7)[i]})
				for k := range got {
					if got[k].ID == "a1" {
						w.settle(broker.Release(), &got[k])
					} else {
						w.settle(broker.Complete(nil), &got[k])
					}
				}
			}
			w.settle(broker.Complete(nil), w.one("a1"))
			w.take("a2")
		}},
	{"Sequence/OutlivesItsWorker", "§36",
		"A head stays the head when its worker retires, runs out, or never gets the answer to its claim.", flow, func(c *check) {
			c.ordered(broker.OrderSkip)
			c.addTo("a", "a1", "a2")
			w := c.worker("w")
			w.one("a1")
			w.retire()
			v, r := c.worker("v"), c.worker("r")
			v.one("a1")
			v.rest()
			c.runOut(r)
			r.rest()
			taken := r.reclaim(5)
			c.same("reclaimed", idsOf(taken), []string{"a1"})
			r.rest()
			r.settle(broker.Retry(time.Second, failure("x")), &taken[0])
			r.rest()
			c.pass(time.Second)
			r.settle(broker.Complete(nil), r.one("a1"))
			r.take("a2")
		}},
	{"Sequence/ADeadHeadStopsItsKey", "§36",
		"With OrderStop a dead head keeps its key back; when it is redriven, it is the first again; when it is deleted or " +
			"pruned, the next job goes.", flow,
		func(c *check) {
			c.ordered(broker.OrderStop)
			c.addTo("a", "a1", "a2", "a3", "a4")
			c.addTo("b", "b1")
			w := c.worker("w")
			die := broker.Die(broker.ReasonRetries, failure("x"))
			w.settle(die, w.one("a1"))
			w.take("b1")
			w.rest()
			info := c.blocked("a", broker.BlockOrder)
			c.same("head", info.Head, "a1")
			c.same("pending behind it", info.Pending, int64(3))
			c.decide(broker.OpRedrive, "a1")
			c.same("head", c.blocked("a", broker.BlockNone).Head, "a1")
			w.settle(die, w.one("a1"))
			w.rest()
			c.decide(broker.OpDelete, "a1")
			w.settle(die, w.one("a2"))
			w.rest()
			c.policy(broker.PolicyRequest{RetainDead: &broker.Retention{Age: time.Minute}})
			c.pass(time.Minute)
			c.same("pruned", c.prune().Dead, 1)
			w = c.worker("w2")
			w.settle(die, w.one("a3"))
			c.ordered(broker.OrderSkip)
			w.take("a4")
		}},
	{"Sequence/ADeadHeadIsSkipped", "§36",
		"With OrderSkip the next job goes when the head is dead, and the dead job goes to the back when it is redriven.", flow, func(c *check) {
			c.ordered(broker.OrderSkip)
			c.addTo("a", "a1", "a2", "a3")
			w := c.worker("w")
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one("a1"))
			a2 := w.one("a2")
			c.decide(broker.OpRedrive, "a1")
			w.rest()
			w.settle(broker.Complete(nil), a2)
			w.settle(broker.Complete(nil), w.one("a3"))
			w.take("a1")
		}},
	{"Sequence/ADeadHeadMayBeSkippedLater", "§36",
		"OrderSkip, set when a head is already dead, makes this head a job like others: it goes to the back " +
			"when it is redriven.", flow, func(c *check) {
			c.ordered(broker.OrderStop)
			c.addTo("a", "a1", "a2")
			w := c.worker("w")
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one("a1"))
			c.ordered(broker.OrderSkip)
			c.decide(broker.OpRedrive, "a1")
			c.same("head", c.key("a").Head, "")
			w.settle(broker.Complete(nil), w.one("a2"))
			w.take("a1")
		}},
	{"Sequence/OperatorsMayMoveAHead", "§36",
		"A head that is rescheduled keeps its key back until it is due; one that is cancelled or deleted does not.", flow, func(c *check) {
			c.ordered(broker.OrderStop)
			c.addTo("a", "a1", "a2", "a3")
			w := c.worker("w")
			w.settle(broker.Release(), w.one("a1"))
			c.reschedule(time.Minute, "a1")
			w.rest()
			c.same("head", c.blocked("a", broker.BlockOrder).Head, "a1")
			c.decide(broker.OpReschedule, "a1")
			w.settle(broker.Retry(time.Hour, failure("x")), w.one("a1"))
			w.rest()
			c.decide(broker.OpCancel, "a1")
			w.settle(broker.Retry(time.Hour, failure("x")), w.one("a2"))
			w.rest()
			c.decide(broker.OpDelete, "a2")
			w.take("a3")
		}},
	{"Sequence/AHeldHeadKeepsItsKey", "§36",
		"A head that is held keeps its key back until it is unheld, and is then the first again, or until it was moved elsewhere.",
		flow.and(moves),
		func(c *check) {
			c.ordered(broker.OrderStop)
			c.addTo("a", "a1", "a2")
			w := c.worker("w")
			w.settle(broker.Release(), w.one("a1"))
			c.hold("a1")
			w.rest()
			c.same("head", c.blocked("a", broker.BlockOrder).Head, "a1")
			c.decide(broker.OpUnhold, "a1")
			w.settle(broker.Retry(time.Hour, failure("x")), w.one("a1"))
			c.hold("a1")
			w.rest()
			gone := c.operate(broker.Operation{Kind: broker.OpDelete, Holder: holder}, "a1")
			c.ok("delete by its holder", gone[0].Err)
			w.take("a2")
		}},
	{"Sequence/AnUnheldJobGoesBehindTheHead", "§36",
		"A job that comes to the front, such as an unheld one, does not pass its key's pending head.", flow.and(moves), func(c *check) {
			c.ordered(broker.OrderStop)
			c.addTo("a", "a1", "a2", "a3")
			w := c.worker("w")
			a1 := w.one("a1")
			c.hold("a2")
			w.settle(broker.Retry(0, failure("x")), a1)
			c.decide(broker.OpUnhold, "a2")
			for _, id := range []string{"a1", "a2", "a3"} {
				w.settle(broker.Complete(nil), w.one(id))
			}
		}},
	{"Sequence/WithoutARuleNoHeads", "§36",
		"Without an order the jobs of a key run side by side, even if one was a head before; when an order is set, a key waits " +
			"for its active jobs.", flow,
		func(c *check) {
			c.addTo("a", "a1", "a2", "a3", "a4", "a5", "a6")
			w := c.worker("w")
			held := w.take("a1", "a2")
			c.ordered(broker.OrderStop)
			w.rest()
			c.blocked("a", broker.BlockActive)
			c.same("head", c.key("a").Head, "")
			w.settle(broker.Retry(time.Hour, failure("x")), &held[0]) // it was claimed before the order was set, so it is no head
			w.rest()
			w.settle(broker.Complete(nil), &held[1])
			a3 := w.one("a3")
			c.same("head", c.key("a").Head, "a3")
			w.rest()
			c.ordered(broker.OrderNone)
			c.same("head without the rule", c.key("a").Head, "")
			w.take("a4")
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), a3)
			w.take("a5", "a6")
		}},
	{"Sequence/RefusesWhatHasNoOrder", "§36",
		"An ordered queue refuses jobs without a key and those of another priority, and stores nothing of them.", flow, func(c *check) {
			c.ordered(broker.OrderStop)
			c.refuse(c.job("a"), broker.ErrInvalid)
			if !c.limits.NoPriority {
				j := c.keyedJob("b", "k")
				j.Body.Priority = broker.PriorityUrgent
				c.refuse(j, broker.ErrInvalid)
			}
			for _, id := range []string{"a", "b"} {
				c.gone(id)
			}
			c.same("keys", len(c.keyNames(9)), 0)
			c.ordered(broker.OrderNone)
			c.add("a")
		}},
	{"Sequence/ServesWhatWasThere", "§36",
		"Jobs that were there before the rule, without a key or of another priority, are claimed as in other queues, but behind " +
			"their key's head.", flow.and(priority),
		func(c *check) {
			jobs := []broker.NewJob{c.job("x"), c.job("y"), c.keyedJob("low", "a"), c.keyedJob("a1", "a"), c.keyedJob("a2", "a"),
				c.keyedJob("urgent", "a")}
			jobs[2].Body.Priority, jobs[5].Body.Priority = broker.PriorityLow, broker.PriorityUrgent
			c.accept(jobs...)
			c.ordered(broker.OrderStop)
			w := c.worker("w")
			held := w.claim(9)
			c.same("claimed", sorted(idsOf(held)), []string{"urgent", "x", "y"})
			w.settle(broker.Complete(nil), refs(held)...)
			a1 := w.one("a1")
			w.settle(broker.Retry(time.Second, failure("x")), a1)
			w.rest()
			c.pass(time.Second)
			for _, id := range []string{"a1", "a2", "low"} {
				w.settle(broker.Complete(nil), w.one(id))
			}
		}},
	{"Sequence/RestoredJobsAreInIt", "§36",
		"A restored job is claimed after its key's head, and a restored job in retry keeps no other job back.", flow.and(moves), func(c *check) {
			c.ordered(broker.OrderStop)
			c.addTo("k", "a", "b")
			w := c.worker("w")
			a := w.one("a")
			pending, retry, keyless := c.keyedJob("pending", "k"), c.keyedJob("retry", "k"), c.job("keyless")
			pending.Restore, retry.Restore = &broker.Restored{State: broker.StatePending}, &broker.Restored{State: broker.StateRetry}
			keyless.Restore = &broker.Restored{State: broker.StatePending}
			retry.Delay = time.Hour
			c.accept(pending, retry, keyless)
			w.take("keyless")
			w.rest()
			w.settle(broker.Complete(nil), a)
			w.settle(broker.Complete(nil), w.one("b"))
			w.take("pending")
		}},
}

// ordered sets the order of the jobs of each key.
func (c *check) ordered(o broker.Order) {
	c.tb.Helper()
	c.policy(broker.PolicyRequest{Ordered: &o})
}
