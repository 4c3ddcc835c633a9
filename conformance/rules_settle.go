package conformance

import (
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var settleRules = []Rule{
	{"Settle/VerdictsStandInOrder", "§10", "Verdicts stand in the order of the request, over any mix of outcomes and queues.", nil,
		func(c *check) {
			c.add("a", "b", "c")
			c.accept(c.jobIn("other", "d"))
			w := c.worker("w", c.q, "other")
			held := w.claim(4)
			outcomes := []broker.Outcome{broker.Complete(nil), broker.Retry(time.Hour, failure("x")), broker.Release(),
				broker.Die(broker.ReasonSkipRetry, failure("x"))}
			slices.Reverse(held)
			for i, v := range w.settleEach(held, outcomes...) {
				c.ok("verdict of "+v.ID, v.Err)
				c.same("state of "+v.ID, v.State, outcomes[i].State())
			}
		}},
	{"Settle/LeaseOfAnEarlierEpochIsVoid", "§3", "A lease of an earlier epoch is void, even for a worker that holds the job again.",
		nil, func(c *check) {
			c.add("a")
			w := c.worker("w")
			first := w.one("a")
			w.settle(broker.Release(), first)
			second := w.one("a")
			c.that(second.Epoch == first.Epoch+1, "epoch after a release\ngot  %d\nwant %d", second.Epoch, first.Epoch+1)
			w.lost(first)
			c.must("a", broker.StateActive)
			w.settle(broker.Complete(nil), second)
		}},
	{"Settle/AnotherWorkersLeaseIsVoid", "§10", "A worker cannot settle what another holds.", nil, func(c *check) {
		c.add("a")
		w, v := c.worker("w"), c.worker("v")
		held := w.one("a")
		v.lost(held)
		c.same("holder", c.must("a", broker.StateActive).Worker, "w")
		w.settle(broker.Complete(nil), held)
	}},
	{"Settle/EndedLeaseIsVoid", "§10", "A settled lease is void, whatever its outcome was.", nil,
		func(c *check) {
			w := c.worker("w")
			c.add("completed", "retried", "dead", "cancelled", "released")
			held := w.take("completed", "retried", "dead", "cancelled", "released")
			w.settleEach(held, broker.Complete(nil), broker.Retry(time.Minute, failure("x")), broker.Die(broker.ReasonSkipRetry, failure("x")),
				broker.Cancel(failure("x")), broker.Release())
			w.lost(refs(held)...)
			c.gone("completed")
			c.must("retried", broker.StateRetry)
			c.must("dead", broker.StateDead)
			c.gone("cancelled")
			c.must("released", broker.StatePending)
		}},
	{"Settle/LostItemHarmsNoOther", "§10", "An item whose lease is lost answers ErrLeaseLost; the other items apply.", nil, func(c *check) {
		c.add("a", "b", "c")
		w := c.worker("w")
		held := w.take("a", "b", "c")
		w.settle(broker.Release(), &held[1])
		never := &broker.Job{Queue: c.q, ID: "never existed", Worker: "w"}
		got := w.try(broker.Complete(nil), &held[0], &held[1], never, &held[2])
		c.ok("the first", got[0].Err)
		c.is("the lost one", got[1].Err, broker.ErrLeaseLost)
		c.is("the unknown one", got[2].Err, broker.ErrLeaseLost)
		c.ok("the last", got[3].Err)
		c.gone("a")
		c.must("b", broker.StatePending)
		c.gone("c")
	}},
	{"Settle/TwiceInOneRequest", "§10", "Of two items for one lease in a request, the first applies.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		held := w.one("a")
		got := w.send(broker.Settlement{Job: held, Outcome: broker.Release()}, broker.Settlement{Job: held, Outcome: broker.Complete(nil)})
		c.ok("the first", got[0].Err)
		c.is("the second", got[1].Err, broker.ErrLeaseLost)
		c.must("a", broker.StatePending)
	}},
	{"Settle/RepeatIsAnsweredAsBefore", "§10",
		"A request that repeats the worker's last number gets the same answer as the first time, whatever its items are.", nil, func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			held := w.take("a", "b")
			w.settle(broker.Retry(time.Hour, failure("x")), &held[0])
			w.lost(&held[0])
			for range 2 {
				for _, outcome := range []broker.Outcome{broker.Complete(nil), broker.Release()} {
					got := w.sendAs(w.number, broker.Settlement{Job: &held[0], Outcome: outcome})
					c.is("the repeated refusal", got[0].Err, broker.ErrLeaseLost)
				}
			}
			w.settle(broker.Retry(time.Hour, failure("x")), &held[1])
			for range 2 {
				got := w.sendAs(w.number, broker.Settlement{Job: &held[1], Outcome: broker.Complete(nil)})
				c.same("the repeated verdict", got, []broker.Verdict{{Queue: c.q, ID: "b", State: broker.StateRetry}})
			}
			c.same("failures charged", c.must("b", broker.StateRetry).Failures, 1)
		}},
	{"Settle/RepeatAfterTheJobWentOn", "§10", "A repeat is harmless after its job was claimed again.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		first := w.one("a")
		w.settle(broker.Release(), first)
		second := w.one("a")
		got := w.sendAs(w.number, broker.Settlement{Job: first, Outcome: broker.Release()})
		c.same("verdict", got, []broker.Verdict{{Queue: c.q, ID: "a", State: broker.StatePending}})
		c.same("deliveries", c.must("a", broker.StateActive).Deliveries, 1)
		w.settle(broker.Complete(nil), second)
	}},
	{"Settle/OlderNumberChangesNothing", "§10",
		"A request with a lower number than the last changes nothing and answers ErrLeaseLost throughout.", nil, func(c *check) {
			c.add("a", "b", "c")
			w := c.worker("w")
			held := w.take("a", "b", "c")
			w.number = 4
			w.settle(broker.Complete(nil), &held[0])
			for _, v := range w.sendAs(4-1, broker.Settlement{Job: &held[1], Outcome: broker.Complete(nil)},
				broker.Settlement{Job: &held[2], Outcome: broker.Release()}) {
				c.is("older settle of "+v.ID, v.Err, broker.ErrLeaseLost)
			}
			c.must("b", broker.StateActive)
			c.must("c", broker.StateActive)
			w.settle(broker.Complete(nil), &held[1], &held[2])
		}},
	{"Settle/NumbersAreOfAWorkerAndAQueue", "§10", "Numbers are compared worker by worker and queue by queue.", nil, func(c *check) {
		c.add("a", "b")
		c.accept(c.jobIn("other", "c"))
		w, v := c.worker("w", c.q, "other"), c.worker("v")
		a, b := w.one("a"), v.one("b")
		held := w.claim(1)
		c.same("claimed", idsOf(held), []string{"c"})
		w.number = 7
		w.settle(broker.Complete(nil), a)
		v.settle(broker.Complete(nil), b)
		w.number = 2
		w.settle(broker.Complete(nil), &held[0])
	}},
	{"Settle/EndedWorkerSettlesWhatIsLeft", "§10", "A worker whose ID has ended may settle leases that are not reclaimed yet.", nil,
		func(c *check) {
			c.add("a", "b", "c")
			w, r := c.worker("w"), c.worker("r")
			held := w.take("a", "b", "c")
			c.runOut(r)
			taken := r.reclaim(1)
			c.same("reclaimed", len(taken), 1)
			for i := range held {
				v := w.try(broker.Complete(nil), &held[i])[0]
				if held[i].ID == taken[0].ID {
					c.is("settle of the reclaimed job", v.Err, broker.ErrLeaseLost)
				} else {
					c.ok("settle of a job not yet reclaimed", v.Err)
				}
			}
			c.same("left to reclaim", len(r.reclaim(5)), 0)
			r.settle(broker.Complete(nil), &taken[0])
		}},
	{"Settle/CancelRequestedEndsWhatWouldLive", "§10",
		"A job that was asked to cancel is cancelled by an outcome after which it would run again; an outcome that ends it applies.", nil,
		func(c *check) {
			c.keep(time.Hour)
			c.add("completed", "retried", "released", "snoozed", "crashed", "dead")
			w := c.worker("w")
			held := w.take("completed", "retried", "released", "snoozed", "crashed", "dead")
			c.decide(broker.OpCancel, idsOf(held)...)
			outcomes := []broker.Outcome{broker.Complete([]byte("r")), broker.Retry(0, failure("x")), broker.Release(),
				broker.Snooze(time.Hour, failure("")).Because("busy", c.now), broker.Crash(0, failure("x")),
				broker.Die(broker.ReasonRetries, failure("x"))}
			for i, v := range w.settleEach(held, outcomes...) {
				c.ok("settle of "+v.ID, v.Err)
				o := outcomes[i].IfCancelRequested()
				c.same("state of "+v.ID, v.State, o.State())
				j := c.must(v.ID, o.State())
				want := o.Apply(held[i].Head, c.up(c.now), 0)
				c.that(headsEqual(j.Head, want), "head of %s\ngot  %s\nwant %s", v.ID, show(j.Head), show(want))
				c.that(!j.CancelRequested, "cancel request of %s\ngot  still there\nwant it ended with the lease", v.ID)
			}
			w.nothing()
		}},
	{"Settle/RefusesWhatIsInvalid", "§10", "A settle without a number or an outcome is refused with ErrInvalid, and changes nothing.",
		nil, func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			held := w.take("a", "b")
			ok := broker.Settlement{Job: &held[0], Outcome: broker.Complete(nil)}
			for _, req := range []broker.SettleRequest{
				{Worker: "w", Number: 0, Items: []broker.Settlement{ok}},
				{Worker: "w", Number: 1, Items: []broker.Settlement{ok, {Job: &held[1]}}},
				{Worker: "w", Number: 1, Items: []broker.Settlement{ok, {Outcome: broker.Complete(nil)}}},
				{Worker: "", Number: 1, Items: []broker.Settlement{ok}},
			} {
				req.Now = c.now
				_, err := c.b.Settle(c.ctx, req)
				c.is("Settle", err, broker.ErrInvalid)
			}
			w.settle(broker.Complete(nil), &held[0], &held[1])
		}},
	{"Settle/EpochsRiseByOne", "§3", "Every transition except claim and due raises the epoch by one.", nil, func(c *check) {
		c.keep(time.Hour)
		w, r := c.worker("w"), c.worker("r")
		c.add("a")
		epoch := func(what string, want int64) {
			c.tb.Helper()
			c.same("epoch after "+what, c.find("a").Epoch, want)
		}
		epoch("enqueue", 0)
		c.reschedule(time.Second, "a")
		epoch("reschedule", 1)
		c.pass(time.Second)
		j := w.one("a")
		epoch("due and claim", 1)
		c.decide(broker.OpCancel, "a")
		epoch("a request to cancel, which is no transition", 1)
		w.settle(broker.Die(broker.ReasonSkipRetry, failure("x")), j)
		epoch("die", 2)
		c.decide(broker.OpSuppress, "a")
		c.decide(broker.OpUnsuppress, "a")
		epoch("suppress and unsuppress, which are no transitions", 2)
		c.decide(broker.OpRedrive, "a")
		epoch("redrive", 3)
		w.settle(broker.Retry(time.Second, failure("x")), w.one("a"))
		epoch("retry", 4)
		c.pass(time.Second)
		w.settle(broker.Snooze(0, failure("")), w.one("a"))
		epoch("snooze", 5)
		w.one("a")
		w.retire()
		epoch("retire", 6)
		v := c.worker("v")
		v.one("a")
		r.renew()
		c.runOut(r)
		taken := r.reclaim(1)
		epoch("reclaim", 7)
		r.settle(broker.Complete(nil), &taken[0])
		epoch("complete", 8)
	}},
}
