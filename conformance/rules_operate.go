package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var operateRules = []Rule{
	{"Operate/ObeysTheTable", "§22", "Each operation is allowed in exactly the states from which the transition table has its event.",
		nil, func(c *check) {
			for _, op := range []struct {
				kind  broker.OperationKind
				event broker.TransitionEvent
			}{{broker.OpRedrive, broker.OnRedrive}, {broker.OpReschedule, broker.OnReschedule}, {broker.OpCancel,
				broker.OnCancel}, {broker.OpDelete, broker.OnDelete}} {
				q := c.q
				c.q = op.kind.String() // a queue of its own for each
				w := c.everyStateOf("w " + c.q)
				for state, id := range stateIDs {
					before := *c.must(id, state)
					allowed := broker.Allows(state, op.event) || op.kind == broker.OpCancel && state == broker.StateActive
					r := c.operate(broker.Operation{Kind: op.kind}, id)[0]
					if allowed {
						c.ok(fmt.Sprintf("%v of a job that is %v", op.kind, state), r.Err)
						continue
					}
					c.is(fmt.Sprintf("%v of a job that is %v", op.kind, state), r.Err, broker.ErrWrongState)
					c.same("the refused job", *c.must(id, state), before)
				}
				w.retire()
				c.q = q
			}
		}},
	{"Operate/CancelledIsNeverClaimed", "§22", "A job cancelled while pending, scheduled or in retry is cancelled, and never claimed.",
		nil, func(c *check) {
			w := c.everyState()
			c.add("behind")
			for i, r := range c.operate(broker.Operation{Kind: broker.OpCancel}, "pending", "scheduled", "retry") {
				c.ok("cancel", r.Err)
				c.same("state", r.State, broker.StateCancelled)
				j := c.must([]string{"pending", "scheduled", "retry"}[i], broker.StateCancelled)
				c.same("FinishedAt", j.FinishedAt, c.up(c.now))
				c.that(j.RunAt.IsZero(), "RunAt\ngot  %v\nwant none", j.RunAt)
			}
			c.pass(2 * time.Hour)
			w.take("behind")
			w.nothing()
		}},
	{"Operate/CancelAsksAnActiveJob", "§22",
		"Cancelling an active job marks it, leaves its lease alone, and is harmless when repeated.", nil, func(c *check) {
			c.add("a")
			w := c.worker("w")
			held := w.one("a")
			for range 3 {
				r := c.operate(broker.Operation{Kind: broker.OpCancel}, "a")[0]
				c.ok("cancel", r.Err)
				c.same("state", r.State, broker.StateActive)
				j := c.must("a", broker.StateActive)
				c.that(j.CancelRequested && j.Worker == "w" && j.Epoch == held.Epoch,
					"the job\ngot  %s\nwant CancelRequested under the same lease", show(*j))
			}
			w.settle(broker.Complete(nil), held)
		}},
	{"Operate/DeletedIsNeverClaimed", "§22", "A deleted job is gone, in whatever state it was, and never claimed.", nil, func(c *check) {
		w := c.everyState()
		c.add("behind")
		ids := []string{"pending", "scheduled", "retry", "completed", "dead", "cancelled"}
		for _, r := range c.operate(broker.Operation{Kind: broker.OpDelete}, ids...) {
			c.ok("delete", r.Err)
			c.same("state", r.State, broker.StateNone)
			c.gone(r.Ref.ID)
		}
		c.pass(2 * time.Hour)
		w.take("behind")
		w.nothing()
	}},
	{"Operate/RedriveStartsAfresh", "§22", "A redriven job is pending with fresh counts, its history kept.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		w.settle(broker.Retry(0, failure("first")), w.one("a"))
		w.settle(broker.Crash(0, failure("second")), w.one("a"))
		w.settle(broker.Die(broker.ReasonRetries, failure("third")), w.one("a"))
		c.decide(broker.OpSuppress, "a")
		before := c.list(broker.Query{State: broker.StateDead, Suppressed: true})[0]
		c.pass(time.Hour)
		r := c.operate(broker.Operation{Kind: broker.OpRedrive}, "a")[0]
		c.ok("redrive", r.Err)
		c.same("state", r.State, broker.StatePending)
		want := before
		want.State, want.Head = broker.StatePending, before.Head.Redriven()
		c.same("the redriven job", *c.must("a", broker.StatePending), want)
		want.State, want.Worker = broker.StateActive, "w"
		w.renew()
		c.same("the claimed job", *w.one("a"), want)
	}},
	{"Operate/RescheduleSetsTheTime", "§22", "A scheduled, retry or pending job gets the new time, earlier or later, and only that.",
		nil, func(c *check) {
			w := c.everyState()
			w.settle(broker.Complete(nil), c.must("active", broker.StateActive))
			for i, r := range c.operate(broker.Operation{Kind: broker.OpReschedule, Delay: time.Minute}, "scheduled", "retry", "pending") {
				c.ok("reschedule", r.Err)
				want := []broker.State{broker.StateScheduled, broker.StateRetry, broker.StateScheduled}[i]
				c.same("state", r.State, want)
				c.same("RunAt", c.must(r.Ref.ID, want).RunAt, c.up(c.now.Add(time.Minute)))
			}
			late := c.up(c.now.Add(3*time.Hour + c.tick))
			c.ok("reschedule", c.operate(broker.Operation{Kind: broker.OpReschedule, RunAt: late}, "scheduled")[0].Err)
			c.same("RunAt", c.must("scheduled", broker.StateScheduled).RunAt, late)
			c.pass(time.Minute - c.tick)
			w.nothing()
			c.pass(c.tick)
			c.same("claimed", sorted(idsOf(w.claim(5))), []string{"pending", "retry"})
			c.now = late.Add(-c.tick)
			w.nothing()
			c.now = late
			j := w.one("scheduled")
			c.same("failures", j.Failures, 0)
		}},
	{"Operate/RescheduleAtOnce", "§22", "A job that is rescheduled without a time is pending at once.", nil, func(c *check) {
		w := c.everyState()
		c.same("claimed", idsOf(w.claim(1)), []string{"pending"})
		for _, r := range c.operate(broker.Operation{Kind: broker.OpReschedule}, "scheduled", "retry") {
			c.ok("reschedule", r.Err)
			c.same("state", r.State, broker.StatePending)
			j := c.must(r.Ref.ID, broker.StatePending)
			c.that(j.RunAt.IsZero(), "RunAt\ngot  %v\nwant none", j.RunAt)
		}
		w.take("scheduled", "retry")
	}},
	{"Operate/SuppressHidesTheDead", "§22",
		"A suppressed dead job stays dead, and is not in listings that do not ask for it, until it is unsuppressed.", nil, func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), refs(w.take("a", "b"))...)
			c.decide(broker.OpSuppress, "a")
			c.same("dead", idsOf(c.list(broker.Query{State: broker.StateDead})), []string{"b"})
			c.same("dead, the newest first", idsOf(c.list(broker.Query{State: broker.StateDead, Newest: true})), []string{"b"})
			all := c.list(broker.Query{State: broker.StateDead, Suppressed: true})
			c.same("dead, suppressed ones too", sorted(idsOf(all)), []string{"a", "b"})
			c.that(c.must("a", broker.StateDead).Suppressed && !c.must("b", broker.StateDead).Suppressed,
				"Suppressed\ngot  another set\nwant only a")
			c.decide(broker.OpUnsuppress, "a")
			c.same("dead", sorted(idsOf(c.list(broker.Query{State: broker.StateDead}))), []string{"a", "b"})
			c.add("c")
			for _, kind := range []broker.OperationKind{broker.OpSuppress, broker.OpUnsuppress} {
				c.is(kind.String()+" of a pending job", c.operate(broker.Operation{Kind: kind}, "c")[0].Err, broker.ErrWrongState)
			}
		}},
	{"Operate/StaleRefIsRefused", "§3", "A decision about a job at an epoch that has passed answers ErrWrongState and changes nothing.",
		nil, func(c *check) {
			c.add("a")
			w := c.worker("w")
			stale := c.must("a", broker.StatePending).Ref()
			w.settle(broker.Release(), w.one("a"))
			for _, kind := range []broker.OperationKind{broker.OpCancel, broker.OpDelete, broker.OpReschedule} {
				r := c.operate(broker.Operation{Kind: kind, Refs: []broker.Ref{stale}})
				c.is(kind.String()+" at an earlier epoch", r[0].Err, broker.ErrWrongState)
				c.must("a", broker.StatePending)
			}
			stale.Epoch = 1
			r := c.operate(broker.Operation{Kind: broker.OpDelete, Refs: []broker.Ref{stale}})
			c.ok("delete at the epoch of now", r[0].Err)
			c.gone("a")
		}},
	{"Operate/AnEarlierJobWithTheID", "§3",
		"A decision, a settle and an entry of a queue that are of an earlier job with the same ID do not concern the later one.", nil,
		func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			w.settle(broker.Release(), w.one("a"))
			first := w.one("a")
			w.settle(broker.Release(), first)
			before := c.must("a", broker.StatePending).Ref() // its epoch is above that of the later job
			c.accept(c.later("late", time.Minute))
			c.decide(broker.OpDelete, "a", "late")
			c.add("a")
			c.accept(c.later("late", time.Hour))
			for _, kind := range []broker.OperationKind{broker.OpCancel, broker.OpDelete, broker.OpReschedule} {
				r := c.operate(broker.Operation{Kind: kind, Refs: []broker.Ref{before}})
				c.is(kind.String()+" of the earlier job", r[0].Err, broker.ErrWrongState)
			}
			held := w.take("b", "a")
			w.lost(first)
			c.pass(time.Minute)
			w.renew()
			w.nothing()
			w.settle(broker.Complete(nil), refs(held)...)
			c.pass(time.Hour)
			w.renew()
			w.take("late")
		}},
	{"Operate/StaleRefOfADeadJob", "§3", "A redrive of a dead job at an epoch that has passed is refused.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one("a"))
		stale := c.must("a", broker.StateDead).Ref()
		c.decide(broker.OpRedrive, "a")
		w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one("a"))
		for _, kind := range []broker.OperationKind{broker.OpRedrive, broker.OpDelete, broker.OpSuppress} {
			r := c.operate(broker.Operation{Kind: kind, Refs: []broker.Ref{stale}})
			c.is(kind.String()+" at an earlier epoch", r[0].Err, broker.ErrWrongState)
		}
		c.must("a", broker.StateDead)
	}},
	{"Operate/EachOnItsOwn", "§22", "Each job is decided on its own; results stand in order, and unknown jobs answer ErrNotFound.", nil,
		func(c *check) {
			c.everyState()
			c.accept(c.jobIn("other", "x"))
			ops := []broker.Ref{c.ref("unknown"), c.ref("dead"), {Queue: "other", ID: "x", Epoch: broker.AnyEpoch}, c.ref("active"),
				c.ref("x"), c.ref("pending"), c.ref("pending")}
			want := []error{broker.ErrNotFound, nil, nil, broker.ErrWrongState, broker.ErrNotFound, nil, broker.ErrNotFound}
			got := c.operate(broker.Operation{Kind: broker.OpDelete, Refs: ops})
			for i, r := range got {
				c.same("ref", r.Ref, ops[i])
				c.that(errors.Is(r.Err, want[i]), "delete of %s/%s\ngot  error %v\nwant %v", r.Ref.Queue, r.Ref.ID, r.Err, want[i])
			}
			c.must("active", broker.StateActive)
		}},
	{"Operate/SeesWhatItDidBefore", "§22", "Of several decisions about one job in a request, each sees what those before it did.", nil,
		func(c *check) {
			c.add("a", "b", "c")
			for i, op := range []struct {
				kind   broker.OperationKind
				second error
			}{{broker.OpCancel, broker.ErrNotFound}, {broker.OpDelete, broker.ErrNotFound}, {broker.OpReschedule, broker.ErrWrongState}} {
				id := []string{"a", "b", "c"}[i]
				ref := broker.Ref{Queue: c.q, ID: id, Epoch: 0}
				r := c.operate(broker.Operation{Kind: op.kind, Refs: []broker.Ref{ref, ref}})
				c.ok("the first "+op.kind.String(), r[0].Err)
				c.is("the second "+op.kind.String(), r[1].Err, op.second)
			}
		}},
	{"Operate/SaysWhatStandsAgainstIt", "§22",
		"A refused operation answers the job's state, and its error says this state, or who holds the job, or that it changed, or what " +
			"is in the queue.", nil, func(c *check) {
			w := c.everyState()
			c.add("old")
			refused := func(op broker.Operation, ref broker.Ref, state broker.State, words ...string) {
				op.Now, op.Refs = c.now, []broker.Ref{ref}
				r := c.operate(op)
				what := fmt.Sprintf("%v of %q", op.Kind, ref.ID)
				c.is(what, r[0].Err, broker.ErrWrongState)
				c.same("state after "+what, r[0].State, state)
				var e *broker.Error
				c.that(errors.As(r[0].Err, &e), "error of %s\ngot  %T\nwant a *broker.Error", what, r[0].Err)
				for _, word := range words {
					c.that(strings.Contains(e.Hint, word), "hint of %s\ngot  %q\nwant %q in it", what, e.Hint, word)
				}
			}
			for state, id := range stateIDs {
				if state != broker.StateDead {
					refused(broker.Operation{Kind: broker.OpRedrive}, c.ref(id), state, state.String(), "dead")
				}
			}
			if !c.limits.NoMove {
				c.add("held")
				c.hold("held")
				refused(broker.Operation{Kind: broker.OpRedrive}, c.ref("held"), broker.StateWaiting, holder)
				refused(broker.Operation{Kind: broker.OpUnhold, Holder: "another"}, c.ref("held"), broker.StateWaiting, holder)
			}
			old := c.must("old", broker.StatePending).Ref()
			c.decide(broker.OpReschedule, "old")
			refused(broker.Operation{Kind: broker.OpDelete}, old, broker.StatePending, "changed")
			refused(broker.Operation{Kind: broker.OpRemoveQueue}, broker.Ref{Queue: c.q}, broker.StateNone, "1 dead", w.id)
		}},
	{"Operate/RefusesWhatIsInvalid", "§22", "An operation outside the limits is refused with ErrInvalid, and changes nothing.", nil,
		func(c *check) {
			c.add("a")
			for _, op := range []broker.Operation{{Kind: 0}, {Kind: broker.OpUnhold + 1},
				{Kind: broker.OpReschedule, Delay: 1, RunAt: c.now}, {Kind: broker.OpReschedule, Delay: -1}} {
				op.Now, op.Refs = c.now, []broker.Ref{c.ref("a")}
				_, err := c.b.Operate(c.ctx, op)
				c.is("Operate", err, broker.ErrInvalid)
			}
			c.same("epoch", c.must("a", broker.StatePending).Epoch, int64(0))
		}},
	{"Operate/RemovesEmptyQueues", "§1",
		"A queue can be removed when it has no job in any state and no live worker, and then it is as if it had never existed.", nil,
		func(c *check) {
			w := c.worker("w")
			c.add("a")
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one("a"))
			w.retire()
			c.is("removal of a queue with a dead job", c.removeQueue(c.q), broker.ErrWrongState)
			c.must("a", broker.StateDead)
			c.decide(broker.OpDelete, "a")
			v := c.worker("v")
			c.is("removal of a queue with a worker", c.removeQueue(c.q), broker.ErrWrongState)
			v.retire()
			c.pause(c.q, true)
			c.ok("removal of an empty queue", c.removeQueue(c.q))
			reply := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{Now: c.now})
			c.same("queues", len(reply.Queues), 0)
			c.is("removal of an unknown queue", c.removeQueue(c.q), broker.ErrNotFound)
			c.add("a")
			c.worker("u").take("a")
		}},
	{"Operate/KeepsQueuesWithAnyJob", "§1", "A queue with a job is not removed, whatever the job's state is, and keeps it.", nil,
		func(c *check) {
			for state, id := range stateIDs {
				c.q = "with one " + id
				w := c.everyStateOf("w " + id)
				if state != broker.StateActive {
					w.settle(broker.Release(), c.must("active", broker.StateActive))
				}
				for other, gone := range stateIDs {
					if other != state {
						c.decide(broker.OpDelete, gone)
					}
				}
				c.pass(2 * lease) // the worker is not alive, and nobody has reclaimed
				c.is("removal of a queue with a job that is "+state.String(), c.removeQueue(c.q), broker.ErrWrongState)
				c.must(id, state)
			}
		}},
}
