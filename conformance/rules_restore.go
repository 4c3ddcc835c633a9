package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// elsewhere is the queue to which rules move jobs.
const elsewhere = "elsewhere"

// copyOf returns a copy of a job, to be enqueued elsewhere.
func (c *check) copyOf(id string) broker.NewJob {
	c.tb.Helper()
	j := c.find(id)
	if j == nil {
		c.failf("Find of %s\ngot  no job\nwant the one to copy", id)
	}
	n := j.Copy()
	n.Queue = elsewhere
	return n
}

// leave deletes the original of a job that was moved elsewhere.
func (c *check) leave(queue, id string) {
	c.tb.Helper()
	r, err := c.b.Operate(c.ctx, broker.Operation{Now: c.now, Kind: broker.OpDelete, Holder: holder, Refs: []broker.Ref{{Queue: queue,
		ID: id, Epoch: broker.AnyEpoch}}})
	c.ok("Operate", err)
	c.ok("delete of "+id+" by its holder", r[0].Err)
}

var restoreRules = []Rule{
	{"Restore/KeepsTheWholePast", "§29",
		"A job restored in another queue is what it was: state, times, counts, errors, result; its epoch is the next.", moves,
		func(c *check) {
			c.everyState()
			c.keepIn(elsewhere, 24*time.Hour)
			c.decide(broker.OpSuppress, "dead")
			c.pass(time.Minute)
			for state, id := range stateIDs {
				if state == broker.StateActive {
					continue
				}
				want := *c.must(id, state)
				r := c.enqueue(c.copyOf(id))[0]
				c.ok("Enqueue of a copy of "+id, r.Err)
				c.same("state", r.State, state)
				c.that(r.RunAt.Equal(want.RunAt), "RunAt of the receipt\ngot  %v\nwant %v", r.RunAt, want.RunAt)
				want.Queue = elsewhere
				want.Epoch++
				got := c.findIn(elsewhere, id)
				c.that(got != nil, "the copy of %s\ngot  none\nwant it", id)
				c.same("the copy of "+id, *got, want)
			}
		}},
	{"Restore/OfAHeldJob", "§29", "A copy of a held job is what the job was before it was held.", moves, func(c *check) {
		c.everyState()
		c.hold("pending", "scheduled", "retry")
		for id, state := range queued {
			held := c.must(id, broker.StateWaiting)
			c.accept(c.copyOf(id))
			got := c.findIn(elsewhere, id)
			c.that(got.State == state && got.RunAt.Equal(held.RunAt) && got.Holder == "", "the copy of %s\ngot  %s\nwant it %v, due %v",
				id, show(*got), state, held.RunAt)
		}
	}},
	{"Restore/GoesOn", "§29", "A restored job continues as the original: at its time, with its counts, and redriven if it is dead.", moves,
		func(c *check) {
			c.everyState()
			due := c.must("retry", broker.StateRetry).RunAt
			c.accept(c.copyOf("pending"), c.copyOf("retry"), c.copyOf("scheduled"), c.copyOf("dead"))
			w := c.worker("v", elsewhere)
			c.same("claimed", w.one("pending").Epoch, int64(1))
			c.pass(59 * time.Minute)
			w.renew()
			w.nothing()
			c.now = due
			w.renew()
			got := w.claim(5)
			c.same("claimed", sorted(idsOf(got)), []string{"retry", "scheduled"})
			for i := range got {
				if got[i].ID == "retry" {
					c.that(got[i].Failures == 1 && got[i].Deliveries == 1 && len(got[i].Errors.Entries) == 1,
						"the claimed copy\ngot  %s\nwant one failure and its error", show(got[i].Head))
				}
				w.settle(broker.Retry(0, failure("again")), &got[i])
			}
			c.q = elsewhere
			c.decide(broker.OpRedrive, "dead")
			c.decide(broker.OpCancel, "retry")
			w.take("scheduled", "dead")
		}},
	{"Restore/AfterItsTime", "§29", "A restored job whose time has passed can be claimed at once.", moves, func(c *check) {
		c.everyState()
		c.hold("scheduled", "retry")
		c.pass(24 * time.Hour)
		for i, r := range c.enqueue(c.copyOf("retry"), c.copyOf("scheduled")) {
			c.ok("Enqueue", r.Err)
			c.same("state", r.State, []broker.State{broker.StateRetry, broker.StatePending}[i])
		}
		c.same("claimed", sorted(idsOf(c.worker("v", elsewhere).claim(5))), []string{"retry", "scheduled"})
	}},
	{"Restore/RepeatIsRefused", "§29",
		"A restored job that is restored again is refused as a duplicate; if its ID was given, even after it has ended and " +
			"its record is gone.", moves,
		func(c *check) {
			c.everyState()
			pending, dead := c.copyOf("pending"), c.copyOf("dead")
			pending.Body.GivenID = true
			c.accept(pending, dead)
			w := c.worker("v", elsewhere)
			held := w.one("pending")
			for range 2 {
				for _, n := range []broker.NewJob{pending, dead} {
					c.same("holder", c.refuse(n, broker.ErrDuplicate).Holder, n.ID)
				}
				if held != nil {
					w.settle(broker.Complete(nil), held)
					held = nil
				}
			}
		}},
	{"Restore/RefusesWhatIsHeld", "§29",
		"An ID whose job is held is refused with ErrWrongState, and the holder is named: the held job " +
			"may be the original.", moves, func(c *check) {
			c.add("a")
			c.hold("a")
			n := c.copyOf("a")
			n.Queue = c.q
			r := c.refuse(n, broker.ErrWrongState)
			c.same("holder", r.Holder, holder)
			c.must("a", broker.StateWaiting)
			n.Restore = nil
			c.same("holder of the ID of a plain job", c.refuse(n, broker.ErrDuplicate).Holder, "a")
		}},
	{"Restore/ComesBack", "§29",
		"A job with a given ID that was moved elsewhere can come back; other jobs with the ID, and late " +
			"repeats, are refused.", moves, func(c *check) {
			n := c.job("a")
			n.Body.GivenID = true
			c.accept(n)
			c.hold("a")
			there := c.copyOf("a")
			c.accept(there)
			c.leave(c.q, "a")
			c.refuse(n, broker.ErrDuplicate)
			late := there
			late.Queue = c.q
			c.same("holder", c.refuse(late, broker.ErrDuplicate).Holder, "a")
			q := c.q
			c.q = elsewhere
			c.hold("a")
			back := c.find("a").Copy()
			back.Queue = q
			c.accept(back)
			c.leave(elsewhere, "a")
			c.q = q
			c.refuse(there, broker.ErrDuplicate) // the first mover, after a long stop, sends it again
			w := c.worker("w")
			w.settle(broker.Complete(nil), w.one("a"))
			c.refuse(back, broker.ErrDuplicate)
		}},
	{"Restore/DeletedStaysDeleted", "§29",
		"A given ID whose job was deleted, and not moved, is refused for a restored job, too.", moves, func(c *check) {
			n := c.job("a")
			n.Body.GivenID = true
			c.accept(n)
			copied := c.copyOf("a")
			copied.Queue = c.q
			copied.Restore.Head.Epoch = 10
			c.decide(broker.OpDelete, "a")
			c.same("holder", c.refuse(copied, broker.ErrDuplicate).Holder, "a")
			c.pass(2 * time.Hour)
			c.accept(copied)
		}},
	{"Restore/NoRefFromThereFits", "§29", "A Ref of the original, with its epoch, does not match the restored job.", moves, func(c *check) {
		c.everyState()
		for _, id := range []string{"pending", "scheduled", "retry", "dead"} {
			c.accept(c.copyOf(id))
			ref := c.find(id).Ref()
			ref.Queue = elsewhere
			r := c.operate(broker.Operation{Kind: broker.OpDelete, Refs: []broker.Ref{ref}})
			c.is("delete by a Ref of the original", r[0].Err, broker.ErrWrongState)
		}
	}},
	{"Restore/KeptFromItsEnd", "§29",
		"A restored completed or cancelled job is kept for its retention, from its end; if that is over, it is accepted and nothing is stored.",
		moves, func(c *check) {
			w := c.everyState()
			end := c.must("completed", broker.StateCompleted).FinishedAt
			completed, cancelled := c.copyOf("completed"), c.copyOf("cancelled")
			for i, r := range c.enqueue(completed, cancelled) { // elsewhere keeps no records
				c.ok("Enqueue", r.Err)
				c.same("state", r.State, []broker.State{broker.StateCompleted, broker.StateCancelled}[i])
				c.that(c.findIn(elsewhere, r.ID) == nil, "record of %s\ngot  one\nwant none: its retention is none", r.ID)
			}
			completed.Body.Retention = time.Hour
			c.keepIn(elsewhere, 2*time.Hour)
			c.pass(30 * time.Minute)
			c.accept(completed, cancelled)
			w.retire()
			c.q = elsewhere
			c.now = c.up(end.Add(time.Hour - c.tick))
			c.prune()
			c.must("completed", broker.StateCompleted)
			c.pass(c.tick)
			c.prune()
			c.gone("completed")
			c.must("cancelled", broker.StateCancelled)
			c.pass(time.Hour)
			c.prune()
			c.gone("cancelled")
			c.accept(cancelled)
			c.gone("cancelled")
		}},
	{"Restore/DepthRefusesWhatCounts", "§20", "A full queue refuses a restored pending or scheduled job, and accepts others.", moves,
		func(c *check) {
			c.everyState()
			c.keepIn(elsewhere, 24*time.Hour)
			depth := int64(1)
			c.accept(c.jobIn(elsewhere, "filler"))
			c.policy(broker.PolicyRequest{Queue: elsewhere, MaxDepth: &depth})
			for _, id := range []string{"pending", "scheduled"} {
				c.refuse(c.copyOf(id), broker.ErrQueueFull)
			}
			c.accept(c.copyOf("retry"), c.copyOf("dead"), c.copyOf("completed"), c.copyOf("cancelled"))
		}},
	{"Restore/TakesItsKey", "§29",
		"A restored job takes the unique key that it held, or is refused with the holder's ID; one that ended, or freed it by " +
			"starting, takes none.", unique.and(moves), func(c *check) {
			restored := func(id string, state broker.State, mode broker.UniqueMode, deliveries int) broker.NewJob {
				n := c.uniqueJob(id, "key", mode, time.Hour)
				n.Restore = &broker.Restored{State: state, Head: broker.Head{Deliveries: deliveries}}
				return n
			}
			c.accept(restored("dead", broker.StateDead, untilDone, 1), restored("started", broker.StatePending, untilStarted, 1))
			c.accept(restored("a", broker.StateRetry, untilDone, 1))
			for _, n := range []broker.NewJob{c.uniqueJob("b", "key", untilDone, 0), restored("b", broker.StatePending, untilDone, 0),
				restored("b", broker.StateScheduled, untilStarted, 0), restored("b", broker.StateRetry, window, 3)} {
				c.same("holder", c.refuse(n, broker.ErrDuplicate).Holder, "a")
			}
			c.accept(restored("dead too", broker.StateDead, untilDone, 1), restored("started too", broker.StatePending, untilStarted, 1))
			c.is("redrive of the dead one", c.operate(broker.Operation{Kind: broker.OpRedrive}, "dead")[0].Err, broker.ErrDuplicate)
			c.pass(time.Hour)
			c.accept(restored("b", broker.StatePending, untilDone, 0))
			w := c.worker("w")
			for _, j := range w.claim(10) {
				w.settle(broker.Complete(nil), &j)
			}
			c.accept(c.uniqueJob("c", "key", untilDone, 0))
		}},
	{"Restore/SeesWhatStandsBefore", "§18", "Restored and new jobs of one request are decided in order; each sees the jobs before it.",
		moves, func(c *check) {
			restored := func(id string, state broker.State) broker.NewJob {
				n := c.job(id)
				n.Restore = &broker.Restored{State: state}
				return n
			}
			receipts := c.enqueue(c.job("a"), restored("a", broker.StatePending), restored("b", broker.StateDead), c.job("b"),
				restored("c", broker.StateRetry), restored("c", broker.StateDead), c.job("d"), restored("e", broker.StatePending), c.job("f"))
			c.errs(receipts, nil, broker.ErrDuplicate, nil, broker.ErrDuplicate, nil, broker.ErrDuplicate, nil, nil, nil)
			c.same("claimed", sorted(idsOf(c.worker("w").claim(10))), []string{"a", "c", "d", "e", "f"})
		}},
	{"Restore/KeepsItsPriority", "§29", "Restored jobs are claimed by priority, and within a priority in the order of their request.",
		priority.and(moves), func(c *check) {
			var jobs []broker.NewJob
			for i, p := range []broker.Priority{broker.PriorityBulk, broker.PriorityUrgent, broker.PriorityNormal, broker.PriorityUrgent} {
				n := c.job(fmt.Sprint("j", i))
				n.Body.Priority, n.Restore = p, &broker.Restored{State: broker.StatePending, Head: broker.Head{Epoch: 11}}
				jobs = append(jobs, n)
			}
			c.accept(jobs...)
			c.worker("w").take("j1", "j3", "j2", "j0")
		}},
	{"Restore/RefusesWhatIsInvalid", "§29",
		"A history that no job can have is refused with ErrInvalid or ErrTooLarge, and nothing is stored.", moves, func(c *check) {
			for what, r := range map[string]broker.Restored{
				"an active job":     {State: broker.StateActive},
				"a held job":        {State: broker.StateWaiting},
				"no job":            {},
				"a negative epoch":  {State: broker.StateDead, Head: broker.Head{Epoch: -1}},
				"a huge epoch":      {State: broker.StateDead, Head: broker.Head{Epoch: 1 << 60}},
				"a negative count":  {State: broker.StateRetry, Head: broker.Head{Failures: -1}},
				"a time before any": {State: broker.StateDead, CreatedAt: time.Unix(-1, 0)},
				"an end after all":  {State: broker.StateDead, Head: broker.Head{FinishedAt: broker.MaxTime}},
			} {
				n := c.job("a")
				n.Restore = &r
				c.is(what, c.enqueue(n)[0].Err, broker.ErrInvalid)
			}
			n := c.job("a")
			n.Restore = &broker.Restored{State: broker.StateCompleted, Head: broker.Head{Result: make([]byte, broker.MaxResult+1)}}
			c.is("a huge result", c.enqueue(n)[0].Err, broker.ErrTooLarge)
			n.Restore, n.Delay = &broker.Restored{State: broker.StateDead}, time.Second
			c.is("a dead job with a delay", c.enqueue(n)[0].Err, broker.ErrInvalid)
			c.gone("a")
		}},
	{"Restore/UnknownTimesAreNow", "§29",
		"A restored job without a creation time counts as created now, and an ended job without an end time " +
			"counts as ended now.", moves, func(c *check) {
			n := c.job("a")
			n.Restore = &broker.Restored{State: broker.StateDead, Head: broker.Head{Reason: broker.ReasonExpired}}
			c.accept(n)
			j := c.must("a", broker.StateDead)
			c.that(j.CreatedAt.Equal(c.up(c.now)) && j.FinishedAt.Equal(c.up(c.now)) && j.Reason == broker.ReasonExpired,
				"the job\ngot  %s\nwant it created and ended at %v", show(*j), c.now)
		}},
}
