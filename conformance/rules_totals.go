package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var totalsRules = []Rule{
	{"Totals/EachStepRaisesItsNumber", "§42",
		"Each event in a queue raises its total by one, whatever kind of job it concerns.", nil, func(c *check) {
			for _, retention := range []time.Duration{0, time.Hour} {
				c.totalSteps(retention)
			}
		}},
	{"Totals/RefusedAndRepeatedCountNothing", "§42",
		"A refused call counts nothing, nor does a settle that is sent again, in whatever way, or a settle for a lost lease.",
		nil, func(c *check) {
			c.add("a", "b", "c")
			w := c.worker("w")
			w.number = 5
			held := w.takeAll("a", "b", "c")
			items := []broker.Settlement{{Job: &held[0], Outcome: broker.Complete(nil), Ran: time.Second},
				{Job: &held[1], Outcome: broker.Retry(time.Hour, failure("x")), Ran: time.Second}}
			w.send(items...)
			want := c.totalsAre("at first", broker.Totals{Enqueued: 3, Claimed: 3, Completed: 1, Failed: 1, Retried: 1,
				Runs: 2, RanMicros: 2_000_000})
			c.refuse(c.job("b"), broker.ErrDuplicate)
			c.totalsAre("after an ID was refused", want)
			for range 2 {
				w.sendAs(w.number, items...)
			}
			c.totalsAre("after repeats of a settle", want)
			req := w.request(1)
			req.Settle = broker.SettleRequest{Now: c.now, Worker: w.id, Number: w.number, Items: items}
			ask(c, "Claim", w.b.Claim, req)
			c.totalsAre("after a repeat that a claim carried", want)
			w.sendAs(w.number-1, items...)
			c.totalsAre("after a settle with an older number", want)
			w.send(items...)
			c.totalsAre("after a settle of leases that were over", want)
			for _, kind := range []broker.OperationKind{broker.OpCancel, broker.OpDelete, broker.OpRedrive} {
				c.operate(broker.Operation{Kind: kind}, "a", "c") // a is gone, and c is active
			}
			c.totalsAre("after decisions that did not fit", want)
		}},
	{"Totals/CrashCountsOnce", "§42", "A crash counts once, where it is charged: a Reclaim counts nothing.", nil, func(c *check) {
		c.add("a", "b")
		c.worker("dies").takeAll("a", "b")
		v, w := c.worker("also dies"), c.worker("w")
		c.runOut(v, w)
		c.same("reclaimed", len(v.reclaim(5)), 2)
		c.totalsAre("after a reclaim", broker.Totals{Enqueued: 2, Claimed: 2})
		c.runOut(w)
		jobs := w.reclaim(5)
		c.same("reclaimed again", len(jobs), 2)
		w.settle(broker.Crash(0, failure("x")), &jobs[0])
		w.settle(broker.Release(), &jobs[1])
		c.totalsAre("after the outcomes", broker.Totals{Enqueued: 2, Claimed: 2, Crashed: 1})
		w.claim(2)
		c.totalsAre("after they were claimed again", broker.Totals{Enqueued: 2, Claimed: 4, Crashed: 1})
	}},
	{"Totals/OutliveTheirJobs", "§42", "No total falls when jobs are removed, redriven or moved.", nil, func(c *check) {
		c.keep(time.Minute)
		c.add("a", "b", "c")
		w := c.worker("w")
		held := w.takeAll("a", "b", "c")
		c.add("d", "e")
		w.settle(broker.Complete(nil), &held[0])
		w.settle(broker.Die(broker.ReasonExpired, failure("x")), &held[1], &held[2])
		c.decide(broker.OpCancel, "d")
		want := c.totalsAre("at first", broker.Totals{Enqueued: 5, Claimed: 3, Completed: 1, Dead: 2, Expired: 2, Cancelled: 1})
		c.pass(time.Hour)
		c.prune()
		c.gone("a")
		c.totalsAre("after a prune", want)
		c.decide(broker.OpDelete, "b", "e")
		c.totalsAre("after jobs were deleted", want)
		if !c.limits.NoMove {
			c.accept(c.copyOf("c"))
			c.same("totals of a queue into which a dead job was moved", c.counted(elsewhere).Totals, broker.Totals{})
		}
		c.decide(broker.OpRedrive, "c")
		c.totalsAre("after a redrive", want)
		c.retireAll(w)
		c.totalsAre("after the worker retired", want)
		c.decide(broker.OpDelete, "c")
		c.ok("removal of the queue", c.removeQueue(c.q))
		c.add("anew")
		c.totalsAre("of a queue that was removed and made again", broker.Totals{Enqueued: 1})
	}},
	{"Totals/AreOfOneQueue", "§42", "Totals count only their own queue, and are the same on every handle.", nil, func(c *check) {
		c.accept(c.job("a"), c.job("b"), c.jobIn("other", "a"))
		w := c.worker("w", c.q, "other")
		jobs := w.claim(3)
		c.same("claimed", len(jobs), 3)
		slices.SortFunc(jobs, func(x, y broker.Job) int { return cmp.Compare(y.Queue, x.Queue) }) // the rule's queue first
		w.send(broker.Settlement{Job: &jobs[0], Outcome: broker.Complete(nil), Waited: time.Second, Ran: time.Second},
			broker.Settlement{Job: &jobs[2], Outcome: broker.Die(broker.ReasonSkipRetry, failure("x")), Waited: time.Minute, Ran: time.Hour})
		for _, b := range []broker.Broker{c.b, c.open()} {
			c.b = b
			c.totalsAre("here", broker.Totals{Enqueued: 2, Claimed: 2, Completed: 1, Waits: 1, WaitedMicros: 1e6, Runs: 1, RanMicros: 1e6})
			c.same("totals there", c.counted("other").Totals, broker.Totals{Enqueued: 1, Claimed: 1, Failed: 1, Dead: 1,
				Waits: 1, WaitedMicros: 60e6, Runs: 1, RanMicros: 3600e6})
		}
	}},
	{"Totals/WaitsAndRunsAreSummed", "§43", "Waits and runs are summed only over the items that ended a lease.", nil, func(c *check) {
		ids := c.addMany("j", 20)
		w := c.worker("w")
		held := w.takeAll(ids...)
		var items []broker.Settlement
		var want broker.Totals
		for i := range held[:12] {
			o := []broker.Outcome{broker.Complete(nil), broker.Release(), broker.Snooze(time.Hour, broker.Failure{}),
				broker.Cancel(failure("x"))}[i%4]
			item := broker.Settlement{Job: &held[i], Outcome: o, Ran: time.Duration(i%3) * 1001 * time.Microsecond}
			if item.Ran > 0 {
				want.Runs, want.RanMicros = want.Runs+1, want.RanMicros+item.Ran.Microseconds()
			}
			if i%5 == 0 {
				item.Waited = 40 * 24 * time.Hour // so that the sum is a large number
				want.Waits, want.WaitedMicros = want.Waits+1, want.WaitedMicros+item.Waited.Microseconds()
			}
			items = append(items, item)
		}
		want.Enqueued, want.Claimed, want.Completed, want.Cancelled = 20, 20, 3, 3
		keep := broker.Keep(broker.Kept{Checkpoint: []byte("c")})
		w.send(append(items, items[1], broker.Settlement{Job: &held[12], Outcome: keep, Waited: 1, Ran: 1})...)
		c.totalsAre("after a settle of many kinds, of one lease twice and with a keep", want)
		w.send(broker.Settlement{Job: &held[12], Outcome: broker.Complete(nil), Waited: 1, Ran: 1500 * time.Nanosecond})
		want = want.Plus(broker.Totals{Completed: 1, Waits: 1, WaitedMicros: 1, Runs: 1, RanMicros: 2})
		c.totalsAre("after parts of a microsecond, rounded up", want)
		req := w.request(1)
		w.number++
		req.Settle = broker.SettleRequest{Now: c.now, Worker: w.id, Number: w.number, Items: []broker.Settlement{
			{Job: &held[13], Outcome: broker.Complete(nil), Waited: time.Second, Ran: time.Minute},
			{Job: &held[14], Outcome: broker.Complete(nil), Waited: time.Second}}}
		ask(c, "Claim", w.b.Claim, req)
		got := c.counted(c.q).Totals
		want = want.Plus(broker.Totals{Completed: 2, Waits: 2, WaitedMicros: 2e6, Runs: 1, RanMicros: 60e6})
		want.Claimed = got.Claimed // the claim may have given a released job
		c.totalsAre("after a settle that a claim carried", want)
	}},
}

// totalsAre requires the totals of the rule's queue, and returns them.
func (c *check) totalsAre(when string, want broker.Totals) broker.Totals {
	c.tb.Helper()
	c.same("totals "+when, c.counted(c.q).Totals, want)
	return want
}

// takeAll claims exactly these jobs, in any order.
func (w *worker) takeAll(ids ...string) []broker.Job {
	w.c.tb.Helper()
	jobs := w.claim(len(ids))
	slices.SortFunc(jobs, func(x, y broker.Job) int { return cmp.Compare(slices.Index(ids, x.ID), slices.Index(ids, y.ID)) })
	w.c.same("jobs claimed by "+w.id, idsOf(jobs), ids)
	return jobs
}

// retireAll ends workers.
func (c *check) retireAll(workers ...*worker) {
	c.tb.Helper()
	for _, w := range workers {
		w.retire()
	}
}

// totalSteps ends leases with each outcome, and requires the right change of the totals
// after each.
func (c *check) totalSteps(retention time.Duration) {
	c.tb.Helper()
	if retention > 0 {
		c.keep(retention)
	}
	prefix := fmt.Sprint("kept ", retention, " ")
	w := c.worker(strings.TrimSpace(prefix))
	want := c.counted(c.q).Totals
	told := func(when string, step broker.Totals) {
		c.tb.Helper()
		want = c.totalsAre(prefix+when, want.Plus(step))
	}
	for name, one := range map[string]struct {
		o    broker.Outcome
		step broker.Totals
	}{
		"complete":   {broker.Complete([]byte("r")), broker.Totals{Completed: 1}},
		"retry":      {broker.Retry(time.Hour, failure("x")), broker.Totals{Failed: 1, Retried: 1}},
		"retry now":  {broker.Retry(0, failure("x")), broker.Totals{Failed: 1, Retried: 1}},
		"crash":      {broker.Crash(time.Hour, failure("x")), broker.Totals{Crashed: 1}},
		"crash now":  {broker.Crash(0, failure("x")), broker.Totals{Crashed: 1}},
		"snooze":     {broker.Snooze(time.Hour, broker.Failure{}), broker.Totals{}},
		"release":    {broker.Release(), broker.Totals{}},
		"cancel":     {broker.Cancel(failure("x")), broker.Totals{Cancelled: 1}},
		"retries":    {broker.Die(broker.ReasonRetries, failure("x")), broker.Totals{Dead: 1, Failed: 1}},
		"skip":       {broker.Die(broker.ReasonSkipRetry, failure("x")), broker.Totals{Dead: 1, Failed: 1}},
		"crashes":    {broker.Die(broker.ReasonCrashes, failure("x")), broker.Totals{Dead: 1, Crashed: 1}},
		"expired":    {broker.Die(broker.ReasonExpired, failure("x")), broker.Totals{Dead: 1, Expired: 1}},
		"unknown":    {broker.Die(broker.ReasonUnknownType, failure("x")), broker.Totals{Dead: 1}},
		"unreadable": {broker.Die(broker.ReasonUndecodable, failure("x")), broker.Totals{Dead: 1}},
	} {
		for _, asked := range []bool{false, true} {
			id := fmt.Sprint(prefix, name, asked)
			c.add(id)
			told("after an enqueue", broker.Totals{Enqueued: 1})
			j := w.one(id)
			told("after a claim", broker.Totals{Claimed: 1})
			step := one.step
			if asked {
				if c.decide(broker.OpCancel, id); !one.o.State().Final() {
					step = broker.Totals{Cancelled: 1}
				}
				told("after an active job was asked to cancel", broker.Totals{})
			}
			w.settle(one.o, j)
			told("after "+name, step)
			if after := c.find(id); after != nil && !after.State.Final() {
				c.decide(broker.OpDelete, id)
				told("after it was deleted", broker.Totals{})
			}
		}
	}
	for _, delay := range []time.Duration{0, time.Hour} {
		j := c.later(fmt.Sprint(prefix, "cancelled ", delay), delay)
		c.accept(j)
		c.decide(broker.OpCancel, j.ID)
		told("after a job that waits was cancelled", broker.Totals{Enqueued: 1, Cancelled: 1})
	}
	ids := []string{prefix + "released", prefix + "cancelled by the end of its worker"}
	c.add(ids...)
	w.takeAll(ids...)
	c.decide(broker.OpCancel, ids[1])
	c.retireAll(w)
	told("after a worker retired", broker.Totals{Enqueued: 2, Claimed: 2, Cancelled: 1})
	c.decide(broker.OpDelete, ids[0])
}
