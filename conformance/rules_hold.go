package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// holder is the holder of jobs that rules hold.
const holder = "move:elsewhere/q"

func (c *check) hold(ids ...string) {
	c.tb.Helper()
	for _, r := range c.operate(broker.Operation{Kind: broker.OpHold, Holder: holder}, ids...) {
		c.ok("hold of "+r.Ref.ID, r.Err)
		c.same("state", r.State, broker.StateWaiting)
	}
}

// queued has the states from which a job can be held, by the ID of the job that
// everyState leaves in each.
var queued = map[string]broker.State{"pending": broker.StatePending, "scheduled": broker.StateScheduled, "retry": broker.StateRetry}

var holdRules = []Rule{
	{"Hold/TakesOutOfTheQueue", "§27",
		"A pending, scheduled or retry job that is held is waiting, shows its holder and what it was, and is otherwise unchanged.", moves,
		func(c *check) {
			c.everyState()
			for id, state := range queued {
				want := *c.must(id, state)
				c.hold(id)
				want.State, want.Holder, want.HeldFrom = broker.StateWaiting, holder, state
				want.Epoch++
				c.same("the held job", *c.must(id, broker.StateWaiting), want)
			}
			c.same("listed", sorted(idsOf(c.list(broker.Query{State: broker.StateWaiting}))), []string{"pending", "retry", "scheduled"})
			counts := c.counted(c.q).Counts
			c.that(counts[broker.StateWaiting] == 3 && counts[broker.StatePending]+counts[broker.StateScheduled]+counts[broker.StateRetry] == 0,
				"counts\ngot  %s\nwant 3 waiting and none in the queue", summary(counts))
		}},
	{"Hold/IsNeverClaimed", "§27", "A held job is not claimed and does not fall due, whatever it was.", moves, func(c *check) {
		w := c.everyState()
		c.hold("pending", "scheduled", "retry")
		c.pass(24 * time.Hour)
		w.nothing()
		got, err := c.claimSome(w.request(1))
		c.ok("Claim", err)
		c.that(got.NextDue.IsZero(), "NextDue\ngot  %v\nwant none: what is held is not awaited", got.NextDue)
		for id := range queued {
			c.must(id, broker.StateWaiting)
		}
	}},
	{"Hold/InPages", "§21", "Waiting jobs are listed page by page, each at least once, also while others come back.", moves, func(c *check) {
		ids := c.addMany("j", 25)
		c.hold(ids...)
		seen, page := make(map[string]bool), 0
		c.pages(broker.Query{State: broker.StateWaiting, Limit: 4, NoPayload: true}, func(jobs []broker.Job) {
			for _, j := range jobs {
				seen[j.ID] = true
			}
			if page++; page == 2 {
				c.decide(broker.OpUnhold, ids[3], ids[12], ids[20])
			}
		})
		for i, id := range ids {
			c.that(seen[id] || i == 3 || i == 12 || i == 20, "listed\ngot  no %s\nwant each that was waiting throughout", id)
		}
	}},
	{"Hold/AsTheyAreListed", "§21",
		"A caller that lists the jobs of a state page by page, and takes each page's jobs out of the state, sees every job.",
		moves, func(c *check) {
			for _, take := range []broker.Operation{{Kind: broker.OpHold, Holder: holder}, {Kind: broker.OpDelete}} {
				ids := c.addMany(take.Kind.String(), 30)
				taken := 0
				c.pages(broker.Query{State: broker.StatePending, Limit: 4}, func(jobs []broker.Job) {
					for _, j := range jobs {
						if c.operate(take, j.ID)[0].Err == nil {
							taken++
						}
					}
				})
				c.same("jobs that were listed and taken", taken, len(ids))
			}
		}},
	{"Hold/UnholdMakesItWhatItWas", "§27", "OpUnhold makes a job again what it was, at the time it had.", moves, func(c *check) {
		w := c.everyState()
		for id, state := range queued {
			want := *c.must(id, state)
			c.hold(id)
			r := c.operate(broker.Operation{Kind: broker.OpUnhold, Holder: holder}, id)[0]
			c.ok("unhold", r.Err)
			c.same("state", r.State, state)
			want.Epoch += 2
			c.same("the job", *c.must(id, state), want)
		}
		w.take("pending")
		c.now = c.must("scheduled", broker.StateScheduled).RunAt.Add(-c.tick)
		w.nothing()
		c.pass(2 * time.Second)
		w.renew()
		c.same("claimed", sorted(idsOf(w.claim(5))), []string{"retry", "scheduled"})
	}},
	{"Hold/UnholdPutsInFront", "§16", "A job that was held while pending goes to the front of its queue.", moves, func(c *check) {
		c.add("a", "b", "c")
		c.hold("b", "c")
		c.decide(broker.OpUnhold, "c")
		c.worker("w").take("c", "a")
	}},
	{"Hold/UnholdAfterItsTime", "§27", "A job whose time passed while it was held can be claimed as soon as it is unheld.", moves,
		func(c *check) {
			w := c.everyState()
			w.take("pending")
			c.hold("scheduled", "retry")
			c.pass(24 * time.Hour)
			w.renew()
			w.nothing()
			c.decide(broker.OpUnhold, "scheduled", "retry")
			c.same("claimed", sorted(idsOf(w.claim(5))), []string{"retry", "scheduled"})
		}},
	{"Hold/AgainIsDone", "§27",
		"Holding a job again for the same holder succeeds, at any epoch, and changes nothing; for another holder it is refused, and " +
			"the holder is named.",
		moves, func(c *check) {
			c.add("a")
			before := c.must("a", broker.StatePending).Ref()
			c.hold("a")
			held := *c.must("a", broker.StateWaiting)
			for _, epoch := range []int64{before.Epoch, held.Epoch, broker.AnyEpoch} {
				op := broker.Operation{Now: c.now, Kind: broker.OpHold, Holder: holder, Refs: []broker.Ref{{Queue: c.q, ID: "a", Epoch: epoch}}}
				r := c.operate(op)
				c.ok("the repeated hold", r[0].Err)
				c.same("state", r[0].State, broker.StateWaiting)
				op.Holder = "another"
				r = c.operate(op)
				c.is("a hold for another", r[0].Err, broker.ErrWrongState)
				c.same("holder", r[0].Holder, holder)
				c.same("the held job", *c.must("a", broker.StateWaiting), held)
			}
		}},
	{"Hold/HolderDecides", "§27",
		"With a holder, OpUnhold and OpDelete refuse a job of another holder, and name that holder; without a holder they decide about any job.",
		moves, func(c *check) {
			c.add("a", "b")
			c.hold("a", "b")
			for _, kind := range []broker.OperationKind{broker.OpUnhold, broker.OpDelete} {
				r := c.operate(broker.Operation{Kind: kind, Holder: "another"}, "a")[0]
				c.is(kind.String()+" by another", r.Err, broker.ErrWrongState)
				c.same("holder", r.Holder, holder)
				c.must("a", broker.StateWaiting)
			}
			c.decide(broker.OpUnhold, "a")
			c.must("a", broker.StatePending)
			c.ok("delete by the holder", c.operate(broker.Operation{Kind: broker.OpDelete, Holder: holder}, "b")[0].Err)
			c.gone("b")
		}},
	{"Hold/ObeysTheTable", "§27", "A job is held, and unheld, in exactly the states in which the transition table allows it.", moves,
		func(c *check) {
			for _, op := range []struct {
				kind  broker.OperationKind
				event broker.TransitionEvent
			}{{broker.OpHold, broker.OnHold}, {broker.OpUnhold, broker.OnUnhold}} {
				q := c.q
				c.q = op.kind.String() // a queue of its own for each
				w := c.everyStateOf("w " + c.q)
				for state, id := range stateIDs {
					if broker.Allows(state, op.event) {
						continue
					}
					before := *c.must(id, state)
					r := c.operate(broker.Operation{Kind: op.kind, Holder: holder}, id)[0]
					c.is(fmt.Sprintf("%v of a job that is %v", op.kind, state), r.Err, broker.ErrWrongState)
					c.same("the refused job", *c.must(id, state), before)
				}
				w.retire()
				c.q = q
			}
			c.add("held")
			c.hold("held")
			for _, kind := range []broker.OperationKind{broker.OpReschedule, broker.OpRedrive, broker.OpSuppress} {
				r := c.operate(broker.Operation{Kind: kind}, "held")[0]
				c.is(kind.String()+" of a held job", r.Err, broker.ErrWrongState)
				c.same("holder", r.Holder, holder)
			}
			c.must("held", broker.StateWaiting)
		}},
	{"Hold/StaleRefIsRefused", "§3", "A job is neither held nor unheld nor deleted at an epoch that has passed.", moves, func(c *check) {
		c.add("a")
		before := c.must("a", broker.StatePending).Ref()
		c.hold("a")
		held := c.must("a", broker.StateWaiting).Ref()
		refused := func(kind broker.OperationKind, ref broker.Ref) {
			r := c.operate(broker.Operation{Kind: kind, Holder: holder, Refs: []broker.Ref{ref}})
			c.is(kind.String()+" at an earlier epoch", r[0].Err, broker.ErrWrongState)
		}
		refused(broker.OpUnhold, before)
		refused(broker.OpDelete, before)
		c.decide(broker.OpUnhold, "a")
		refused(broker.OpHold, before)
		refused(broker.OpHold, held)
		refused(broker.OpDelete, held)
		c.must("a", broker.StatePending)
	}},
	{"Hold/EndsWithTheJob", "§22", "A held job that is cancelled or deleted is never claimed, and is no longer held.", moves,
		func(c *check) {
			c.keep(time.Hour)
			c.add("a", "b", "c")
			w := c.worker("w")
			c.hold("a", "b")
			c.decide(broker.OpCancel, "a")
			c.decide(broker.OpDelete, "b")
			j := c.must("a", broker.StateCancelled)
			c.that(j.Holder == "" && j.HeldFrom == broker.StateNone && j.RunAt.IsZero() && j.FinishedAt.Equal(c.up(c.now)),
				"the cancelled job\ngot  %s\nwant it ended now, and held by nobody", show(*j))
			c.gone("b")
			c.is("unhold of a cancelled job", c.operate(broker.Operation{Kind: broker.OpUnhold}, "a")[0].Err, broker.ErrWrongState)
			c.is("unhold of a deleted job", c.operate(broker.Operation{Kind: broker.OpUnhold}, "b")[0].Err, broker.ErrNotFound)
			w.take("c")
			w.nothing()
			c.accept(c.job("b"))
			c.same("state of the new job with the ID", c.must("b", broker.StatePending).Holder, "")
		}},
	{"Hold/KeepsItsKey", "§19", "A held job keeps its unique key, and frees it when it is deleted.", unique.and(moves), func(c *check) {
		c.accept(c.uniqueJob("a", "key", untilDone, 0))
		c.hold("a")
		c.same("holder", c.refuse(c.uniqueJob("b", "key", untilDone, 0), broker.ErrDuplicate).Holder, "a")
		c.decide(broker.OpUnhold, "a")
		c.refuse(c.uniqueJob("b", "key", untilDone, 0), broker.ErrDuplicate)
		c.hold("a")
		c.decide(broker.OpDelete, "a")
		c.accept(c.uniqueJob("b", "key", untilDone, 0))
	}},
	{"Hold/CountsForDepth", "§20", "Waiting jobs count for the depth of their queue.", moves, func(c *check) {
		depth := int64(2)
		c.add("a", "b")
		c.hold("a")
		c.policy(broker.PolicyRequest{MaxDepth: &depth})
		c.refuse(c.job("c"), broker.ErrQueueFull)
		c.decide(broker.OpDelete, "a")
		c.add("c")
		c.refuse(c.job("d"), broker.ErrQueueFull)
	}},
	{"Hold/KeepsItsQueue", "§1", "A queue with a held job is not removed.", moves, func(c *check) {
		c.add("a")
		c.hold("a")
		c.is("removal of the queue", c.removeQueue(c.q), broker.ErrWrongState)
		c.decide(broker.OpUnhold, "a")
		c.worker("w").take("a")
	}},
	{"Hold/RefusesWhatIsInvalid", "§27", "A hold without a holder, and a holder where none belongs, are refused with ErrInvalid.", moves,
		func(c *check) {
			c.add("a")
			for _, op := range []broker.Operation{{Kind: broker.OpHold}, {Kind: broker.OpHold, Holder: "a\nb"},
				{Kind: broker.OpCancel, Holder: holder}} {
				op.Now, op.Refs = c.now, []broker.Ref{c.ref("a")}
				_, err := c.b.Operate(c.ctx, op)
				c.is("Operate", err, broker.ErrInvalid)
			}
			c.must("a", broker.StatePending)
		}},
}
