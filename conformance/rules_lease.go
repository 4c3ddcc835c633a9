package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var leaseRules = []Rule{
	{"Lease/RenewNeedsRegistration", "§6", "A worker exists from its Renew with Register; before that Renew answers Lost.", nil,
		func(c *check) {
			c.add("a")
			w := &worker{c: c, b: c.b, id: "w", queues: []string{c.q}}
			c.that(w.renew().Lost, "Renew of an unknown worker\ngot  not lost\nwant Lost")
			_, err := c.b.Claim(c.ctx, w.request(1))
			c.is("Claim after it", err, broker.ErrWorkerGone)
			c.worker("w").take("a")
		}},
	{"Lease/RegisteringAgainRenews", "§6", "Registering an ID that is alive renews it and keeps its leases.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		held := w.one("a")
		c.pass(lease / 2)
		r := w.renewAs(lease, true)
		c.that(!r.Lost && r.Held[c.q] == 1, "registering again\ngot  %+v\nwant not lost, one lease held", r)
		c.pass(lease/2 + time.Second)
		c.same("reclaimed", len(c.worker("r").reclaim(5)), 0)
		w.settle(broker.Complete(nil), held)
	}},
	{"Lease/RetiredIsDeadForGood", "§6",
		"A retired ID stays ended, until Prune forgets it: Renew answers Lost, Claim and Reclaim ErrWorkerGone, and nothing is leased.", nil,
		func(c *check) {
			c.add("a")
			w := c.worker("w")
			w.retire()
			c.deadForGood(w)
		}},
	{"Lease/FoundIsDeadForGood", "§6", "An ID whose leases ran out stays ended after a Reclaim, until Prune forgets it.", nil,
		func(c *check) {
			c.add("a")
			w, r := c.worker("w"), c.worker("r")
			c.runOut(r)
			c.same("reclaimed from a worker without jobs", len(r.reclaim(5)), 0)
			c.deadForGood(w)
			c.pass(365 * 24 * time.Hour)
			c.deadForGood(w)
		}},
	{"Lease/HoldsUntilItsTime", "§8", "Leases hold until exactly the time of the last Renew plus its Lease.",
		nil, func(c *check) {
			c.add("a")
			w := c.worker("w")
			w.take("a")
			c.pass(lease - c.tick)
			r := c.worker("r")
			c.same("reclaimed before the lease's time", len(r.reclaim(5)), 0)
			w.renewAs(time.Minute, false)
			c.pass(time.Minute - c.tick)
			r.renew()
			c.same("reclaimed before the renewed lease's time", len(r.reclaim(5)), 0)
			c.pass(c.tick)
			c.same("reclaimed at the lease's time", idsOf(r.reclaim(5)), []string{"a"})
		}},
	{"Lease/AliveUntilItsTime", "§8",
		"A worker is alive until its leases end, and not at that instant: until then its queue is not removed and it may reclaim; " +
			"from then on it may not, and the queue can be removed.", nil, func(c *check) {
			w := c.worker("w")
			c.pass(lease - c.tick)
			w.reclaim(5)
			c.is("removal of the queue before its worker's end", c.removeQueue(c.q), broker.ErrWrongState)
			c.pass(c.tick)
			_, err := c.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: w.id, Queues: []string{c.q}, Max: 5})
			c.is("Reclaim by a worker at its end", err, broker.ErrWorkerGone)
			c.ok("removal of the queue at its worker's end", c.removeQueue(c.q))
		}},
	{"Lease/OneRenewalHoldsAll", "§6", "A renewal extends every lease of its worker in the queues it names.", nil, func(c *check) {
		w, r := c.worker("w", c.q, "other"), c.worker("r", c.q, "other")
		c.deal(6, w.queues...)
		held := w.claim(3)
		c.pass(20 * time.Second)
		held = append(held, w.claim(3)...)
		c.same("held", len(held), 6)
		w.renew()
		r.renew()
		c.pass(20 * time.Second)
		c.same("reclaimed", len(r.reclaim(10)), 0)
		w.settle(broker.Complete(nil), refs(held)...)
	}},
	{"Lease/RunOutMayRenew", "§8", "A worker that ran out may renew until a Reclaim has found it, and then holds its jobs again.", nil,
		func(c *check) {
			c.add("a")
			w, r := c.worker("w"), c.worker("r")
			held := w.one("a")
			c.pass(3 * lease)
			r.renew()
			got := w.renew()
			c.that(!got.Lost && got.Held[c.q] == 1, "Renew after the time\ngot  %+v\nwant not lost, one lease held", got)
			c.same("reclaimed", len(r.reclaim(5)), 0)
			w.settle(broker.Complete(nil), held)
		}},
	{"Lease/RunOutMaySettle", "§8", "A lease that ran out may be settled until a Reclaim has found its worker.", nil, func(c *check) {
		c.add("a", "b")
		w, r := c.worker("w"), c.worker("r")
		held := w.take("a", "b")
		c.pass(3 * lease)
		r.renew()
		w.settle(broker.Complete(nil), &held[0])
		c.gone("a")
		c.same("reclaimed", idsOf(r.reclaim(5)), []string{"b"})
		w.lost(&held[1])
	}},
	{"Lease/RunOutMayClaim", "§6", "A worker that ran out is registered until a Reclaim has found it.", nil, func(c *check) {
		c.add("a")
		w, r := c.worker("w"), c.worker("r")
		c.pass(3 * lease)
		w.take("a")
		r.renew()
		c.same("reclaimed: its jobs go with it", idsOf(r.reclaim(5)), []string{"a"})
	}},
	{"Lease/RenewCountsWhatIsHeld", "§7", "Renew answers how many leases the store counts for the worker, queue by queue.", nil,
		func(c *check) {
			w := c.worker("w", c.q, "other")
			v := c.worker("v", c.q)
			for i := range 5 {
				c.accept(c.jobIn([]string{c.q, "other"}[i/3], fmt.Sprint("j", i)))
			}
			c.heldIs(w, 0, 0)
			v.take("j0")
			held := w.claim(4)
			c.heldIs(w, 2, 2)
			w.settle(broker.Complete(nil), &held[0])
			c.heldIs(w, 1, 2)
			w.settle(broker.Retry(time.Minute, failure("later")), &held[3])
			w.settle(broker.Release(), &held[2])
			c.heldIs(w, 1, 0)
			c.same("held by the other worker", v.renew().Held[c.q], 1)
		}},
	{"Lease/CancelShowsInRenew", "§22", "Renew lists held jobs that were asked to cancel, until their lease ends.", nil,
		func(c *check) {
			c.add("a", "b")
			w, v := c.worker("w"), c.worker("v")
			a, b := w.one("a"), v.one("b")
			c.same("cancel, before it is asked", len(w.renew().Cancel), 0)
			c.decide(broker.OpCancel, "a", "b")
			for range 2 {
				c.same("cancel", w.renew().Cancel, []broker.Ref{a.Ref()})
				c.same("cancel of the other worker", v.renew().Cancel, []broker.Ref{b.Ref()})
			}
			w.settle(broker.Complete(nil), a)
			c.same("cancel, after the lease", len(w.renew().Cancel), 0)
		}},
	{"Lease/LostInOneQueueIsLost", "§6", "If a worker was ended in one of its queues, its next Renew says so.", nil, func(c *check) {
		w, r := c.worker("w", c.q, "other"), c.worker("r", c.q)
		c.runOut(r)
		r.reclaim(1)
		c.that(w.renew().Lost, "Renew\ngot  not lost\nwant Lost: %s has ended it", c.q)
	}},
	{"Lease/RetireGivesEverythingBack", "§12",
		"Retire releases every lease without a charge, lists them, and is harmless when repeated.", nil, func(c *check) {
			w := c.worker("w", c.q, "other")
			c.deal(4, w.queues...)
			held := w.claim(4)
			w.settle(broker.Retry(0, failure("before")), &held[0], &held[1]) // these have a history
			held = append(held[2:], w.claim(2)...)
			var names []string
			for _, ref := range w.retire().Released {
				names = append(names, ref.Queue+"/"+ref.ID)
			}
			c.same("released", sorted(names), []string{"other/j001", "other/j003", "q/j000", "q/j002"})
			for _, j := range held {
				got := c.findIn(j.Queue, j.ID)
				c.same("state of "+j.ID, got.State, broker.StatePending)
				c.same("head of "+j.ID, got.Head, broker.Release().Apply(j.Head, c.now, 0))
			}
			c.same("released the second time", len(w.retire().Released), 0)
			w.lost(refs(held)...)
			c.same("claimed by another", len(c.worker("v", c.q, "other").claim(9)), 4)
		}},
	{"Lease/RetireCancelsWhatWasToBe", "§12", "Retire cancels a held job that was asked to cancel.", nil, func(c *check) {
		c.keep(time.Hour)
		c.add("a", "b")
		w := c.worker("w")
		held := w.take("a", "b")
		c.decide(broker.OpCancel, "a")
		w.retire()
		c.must("a", broker.StateCancelled)
		c.must("b", broker.StatePending)
		w.lost(refs(held)...)
		c.worker("v").take("b")
	}},
	{"Lease/RetireLeavesOthersAlone", "§12", "Retire ends only the leases of its worker.", nil, func(c *check) {
		c.add("a", "b")
		w, v := c.worker("w"), c.worker("v")
		w.take("a")
		b := v.one("b")
		w.retire()
		c.that(!v.renew().Lost, "Renew of the other worker\ngot  Lost\nwant alive")
		v.settle(broker.Complete(nil), b)
	}},
	{"Lease/LateClaimLeasesNothing", "§6",
		"A claim that is executed after its worker's end leases nothing, even if the worker ended in only " +
			"one of several queues.", nil, func(c *check) {
			c.accept(c.job("a"), c.jobIn("other", "b"))
			w, r := c.worker("w", c.q, "other"), c.worker("r", "other")
			c.runOut(r)
			c.same("reclaimed", len(r.reclaim(5)), 0) // it ends w, in one queue
			late := w.request(5)
			got, err := c.claimSome(late)
			c.is("Claim by a worker that ended in one queue", err, broker.ErrWorkerGone)
			c.same("jobs of the other queue", idsOf(got.Jobs), []string{"a"})
			c.same("state where it ended", c.findIn("other", "b").State, broker.StatePending)
			w.retire()
			got, err = c.open().Claim(c.ctx, late)
			c.is("late Claim", err, broker.ErrWorkerGone)
			c.same("jobs", len(got.Jobs), 0)
		}},
	{"Lease/WorkersAreDescribed", "§6",
		"Queues describes the live workers: how they described themselves, until when their leases hold, and how many they hold.", nil,
		func(c *check) {
			c.add("a")
			info := broker.WorkerInfo{Host: "host", PID: 77, Program: "program 1.2", Concurrency: 9, Queues: []string{c.q},
				Types: append(numbered("type", 1000), "mail:*"), StartedAt: c.up(c.now)}
			_, err := c.b.Renew(c.ctx, broker.RenewRequest{Now: c.now, Worker: "w", Queues: []string{c.q}, Lease: lease, Register: true,
				Info: info})
			c.ok("Renew", err)
			w := &worker{c: c, b: c.b, id: "w", queues: []string{c.q}}
			w.take("a")
			v := c.worker("v")
			c.pass(time.Second)
			w.renew()
			info.ID, info.Until, info.Held = "w", c.up(c.now.Add(lease)), 1
			got := c.workers()
			c.same("workers", len(got), 2)
			c.same("description of w", got["w"], info)
			v.retire()
			w.retire()
			c.same("workers after they retired", len(c.workers()), 0)
		}},
	{"Lease/WorkersDescribeThemselvesAnew", "§6",
		"A renewal with Describe replaces the description of a live worker, a renewal without it leaves the description, and an " +
			"ended worker has none.", nil,
		func(c *check) {
			w := c.worker("w")
			renew := func(describe bool, info broker.WorkerInfo) broker.Renewed {
				got, err := c.b.Renew(c.ctx, broker.RenewRequest{Now: c.now, Worker: "w", Queues: []string{c.q}, Lease: lease,
					Describe: describe, Info: info})
				c.ok("Renew", err)
				return got
			}
			want := broker.WorkerInfo{ID: "w", Host: "host", Concurrency: 3, Queues: []string{c.q}, Until: c.up(c.now.Add(lease)),
				Longest: []broker.Running{
					{Queue: c.q, ID: "a", Since: c.up(c.now)}, {Queue: c.q, ID: "b", Since: c.up(c.now.Add(time.Second))}}}
			info := want
			info.ID, info.Until = "", time.Time{}
			renew(true, info)
			c.same("description", c.workers()["w"], want)
			renew(false, broker.WorkerInfo{Host: "another"})
			c.same("description after a renewal that has none", c.workers()["w"], want)
			info.Longest, want.Longest = nil, nil
			renew(true, info)
			c.same("description after all handlers returned", c.workers()["w"], want)
			w.retire()
			c.that(renew(true, info).Lost, "Renew of a retired worker that describes itself\ngot  not lost\nwant Lost")
			c.same("workers after that", len(c.workers()), 0)
		}},
}

// deadForGood requires that w's ID is refused everywhere, while job a is pending.
func (c *check) deadForGood(w *worker) {
	c.tb.Helper()
	for _, register := range []bool{false, true, false} {
		c.that(w.renewAs(lease, register).Lost, "Renew of an ended worker, register %t\ngot  not lost\nwant Lost", register)
	}
	got, err := c.b.Claim(c.ctx, w.request(5))
	c.is("Claim of an ended worker", err, broker.ErrWorkerGone)
	c.same("jobs claimed", len(got.Jobs), 0)
	got, err = c.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: w.id, Queues: w.queues, Max: 5})
	c.is("Reclaim of an ended worker", err, broker.ErrWorkerGone)
	c.same("jobs reclaimed", len(got.Jobs), 0)
	c.must("a", broker.StatePending)
}

// heldIs requires the numbers of leases that Renew returns for the queues q and other.
func (c *check) heldIs(w *worker, q, other int) {
	c.tb.Helper()
	held := w.renew().Held
	c.that(held[c.q] == q && held["other"] == other, "leases held\ngot  %v\nwant %d in q, %d in other", held, q, other)
}

func (c *check) workers() map[string]broker.WorkerInfo {
	c.tb.Helper()
	byID := make(map[string]broker.WorkerInfo)
	for _, w := range c.queue(c.q).Workers {
		byID[w.ID] = w
	}
	return byID
}

// keep sets how long the queue keeps completed and cancelled records.
func (c *check) keep(age time.Duration) {
	c.tb.Helper()
	c.keepIn(c.q, age)
}

func (c *check) keepIn(queue string, age time.Duration) {
	c.tb.Helper()
	c.policy(broker.PolicyRequest{Queue: queue, RetainCompleted: &broker.Retention{Age: age}})
}
