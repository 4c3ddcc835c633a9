package conformance

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// keptOf returns data to keep, all of which contain what.
func keptOf(what string) broker.Kept {
	return broker.Kept{Checkpoint: []byte(what + " \x00\xff"),
		Steps:    []broker.DoneStep{{Name: "step of " + what, Result: []byte(`"` + what + `"`)}, {Name: "empty"}},
		Progress: broker.Progress{Done: 3, Total: 12, Note: what}}
}

// kept requires that got is want; nil is the same as empty.
func (c *check) kept(what string, got *broker.Kept, want broker.Kept) {
	c.tb.Helper()
	h, w := broker.Head{Kept: got}, broker.Head{Kept: &want}
	c.that(headsEqual(h, w), "%s\ngot  %v\nwant %v", what, got, &want)
}

// keep stores k with jobs that the worker holds.
func (w *worker) keep(k broker.Kept, jobs ...*broker.Job) {
	w.c.tb.Helper()
	for _, v := range w.try(broker.Keep(k), jobs...) {
		w.c.ok("keep of "+v.ID, v.Err)
		w.c.same("state in the verdict of "+v.ID, v.State, broker.StateActive)
	}
}

var keepRules = []Rule{
	{"Keep/StoresAndLeavesAllElse", "§30",
		"Keep stores what a handler kept, whatever its bytes, and leaves the job as it is; the next keep replaces it.",
		nil, func(c *check) {
			c.add("a", "other")
			w := c.worker("w")
			held := w.take("a", "other")
			before := *c.must("a", broker.StateActive)
			every := make([]byte, 256)
			for i := range every {
				every[i] = byte(i)
			}
			for _, k := range []broker.Kept{keptOf("first"), {Checkpoint: every}, {Steps: []broker.DoneStep{{Name: "alone"}}},
				{Progress: broker.Progress{Done: 7}}, {Progress: broker.Progress{Total: 7}}, {Progress: broker.Progress{Note: "\xff"}}, {},
				keptOf("last")} {
				w.keep(k, &held[0])
				got := *c.must("a", broker.StateActive)
				c.kept("kept", got.Kept, k)
				got.Kept = nil
				c.same("the job without it", got, before)
			}
			c.same("held", w.renew().Held[c.q], 2)
			c.same("counted as active", c.queue(c.q).Counts[broker.StateActive], int64(2))
			c.kept("of another job", c.must("other", broker.StateActive).Kept, broker.Kept{})
			w.nothing()
			w.settle(broker.Retry(0, failure("x")), &held[0])
			c.same("deliveries after the end", c.must("a", broker.StatePending).Deliveries, 1)
		}},
	{"Keep/IsFenced", "§30",
		"Only the holder of the lease can keep: not another worker, an earlier lease, or one that ended.", nil, func(c *check) {
			c.add("a")
			w, v := c.worker("w"), c.worker("v")
			first := w.one("a")
			refused := func(what string, by *worker, j *broker.Job) {
				c.tb.Helper()
				c.is("keep by "+what, by.try(broker.Keep(keptOf(what)), j)[0].Err, broker.ErrLeaseLost)
			}
			refused("another worker", v, first)
			w.settle(broker.Release(), first)
			refused("an ended lease", w, first)
			c.kept("of the pending job", c.must("a", broker.StatePending).Kept, broker.Kept{})
			second := w.one("a")
			w.keep(keptOf("second"), second)
			refused("an earlier lease", w, first)
			c.kept("of the second lease", c.must("a", broker.StateActive).Kept, keptOf("second"))
			c.runOut(v)
			taken := v.reclaim(1)
			c.same("reclaimed", idsOf(taken), []string{"a"})
			refused("a worker that ran out", w, second)
			c.kept("of the reclaimed job", c.must("a", broker.StateActive).Kept, keptOf("second"))
			v.settle(broker.Complete(nil), &taken[0])
			refused("a job that is done", v, &taken[0])
			c.gone("a")
		}},
	{"Keep/RepeatIsHarmless", "§30",
		"A repeated keep gets the same answer, and a keep with an older number does not restore what it kept.", nil, func(c *check) {
			c.add("a")
			w := c.worker("w")
			j := w.one("a")
			w.keep(keptOf("old"), j)
			for range 2 {
				got := w.sendAs(w.number, broker.Settlement{Job: j, Outcome: broker.Keep(keptOf("old"))})
				c.same("the repeated verdict", got, []broker.Verdict{{Queue: c.q, ID: "a", State: broker.StateActive}})
			}
			w.keep(keptOf("new"), j)
			got := w.sendAs(w.number-1, broker.Settlement{Job: j, Outcome: broker.Keep(keptOf("old"))})
			c.is("the late one", got[0].Err, broker.ErrLeaseLost)
			c.kept("kept", c.must("a", broker.StateActive).Kept, keptOf("new"))
			w.settle(broker.Complete(nil), j)
			got = w.sendAs(w.number-1, broker.Settlement{Job: j, Outcome: broker.Keep(keptOf("old"))})
			c.is("one after the end", got[0].Err, broker.ErrLeaseLost)
			c.gone("a")
		}},
	{"Keep/InOneRequest", "§30",
		"Of the items for one lease in a request, the keeps before its end apply, in their order; keeps after its end do not.", nil,
		func(c *check) {
			c.add("retried", "released", "done", "kept", "dead")
			w := c.worker("w")
			held := w.take("retried", "released", "done", "kept", "dead")
			item := func(i int, o broker.Outcome) broker.Settlement { return broker.Settlement{Job: &held[i], Outcome: o} }
			got := w.send(item(0, broker.Keep(keptOf("1"))), item(1, broker.Keep(keptOf("2"))), item(3, broker.Keep(keptOf("3"))),
				item(0, broker.Keep(keptOf("4"))), item(0, broker.Retry(0, failure("x")).With(keptOf("5"))), item(0, broker.Keep(keptOf("late"))),
				item(2, broker.Keep(keptOf("6"))), item(2, broker.Complete(nil)), item(2, broker.Keep(keptOf("late"))),
				item(1, broker.Release().With(keptOf("7"))), item(3, broker.Keep(keptOf("8"))),
				item(4, broker.Die(broker.ReasonRetries, failure("x")).With(keptOf("9"))), item(4, broker.Keep(keptOf("late"))))
			active := broker.StateActive
			for i, want := range []broker.State{active, active, active, active, broker.StatePending, 0, active, broker.StateCompleted, 0,
				broker.StatePending, active, broker.StateDead, 0} {
				c.same(fmt.Sprint("state in verdict ", i), got[i].State, want)
				if want == 0 {
					c.is(fmt.Sprint("verdict ", i), got[i].Err, broker.ErrLeaseLost)
				} else {
					c.ok(fmt.Sprint("verdict ", i), got[i].Err)
				}
			}
			c.kept("of the retried job", c.must("retried", broker.StatePending).Kept, keptOf("5"))
			c.kept("of the released job", c.must("released", broker.StatePending).Kept, keptOf("7"))
			c.kept("of the job that is held", c.must("kept", active).Kept, keptOf("8"))
			c.kept("of the dead job", c.must("dead", broker.StateDead).Kept, keptOf("9"))
			c.gone("done")
		}},
	{"Keep/LeavesACancelRequest", "§30",
		"A request to cancel survives a keep, and a job of which something was kept can be asked to cancel.",
		nil, func(c *check) {
			c.keep(time.Hour)
			c.add("a", "b")
			w := c.worker("w")
			held := w.take("a", "b")
			c.decide(broker.OpCancel, "a")
			w.keep(keptOf("kept"), refs(held)...)
			c.decide(broker.OpCancel, "b")
			for _, id := range []string{"a", "b"} {
				c.that(c.must(id, broker.StateActive).CancelRequested, "cancel request of %s\ngot  none\nwant it, as it was asked for", id)
			}
			c.same("told to its worker", len(w.renew().Cancel), 2)
			for _, v := range w.try(broker.Release().With(keptOf("last")), refs(held)...) {
				c.ok("release of "+v.ID, v.Err)
				c.kept("of "+v.ID, c.must(v.ID, broker.StateCancelled).Kept, keptOf("last"))
			}
		}},
	{"Keep/LeavesTheUniqueKey", "§30", "After a keep a job holds its unique key until it ends.", unique, func(c *check) {
		c.accept(c.uniqueJob("a", "key", broker.UniqueUntilDone, 0))
		w := c.worker("w")
		j := w.one("a")
		w.keep(keptOf("kept"), j)
		r := c.refuse(c.uniqueJob("b", "key", broker.UniqueUntilDone, 0), broker.ErrDuplicate)
		c.same("holder", r.Holder, "a")
		w.settle(broker.Complete(nil), j)
		c.accept(c.uniqueJob("b", "key", broker.UniqueUntilDone, 0))
	}},
	{"Keep/SendsNoEvent", "§30", "A watcher gets an event for the end of a job, and none for a keep.", watch, func(c *check) {
		events := c.watch(broker.WatchRequest{Queues: []string{c.q}})
		c.add("a", "b")
		w := c.worker("w")
		held := w.take("a", "b")
		w.keep(keptOf("alone"), &held[0])
		w.send(broker.Settlement{Job: &held[0], Outcome: broker.Keep(keptOf("beside an end"))}, broker.Settlement{Job: &held[1],
			Outcome: broker.Retry(time.Hour, failure("x"))})
		w.settle(broker.Complete(nil), &held[0])
		got := make(map[string]broker.State)
		for _, n := range []string{"first", "second"} {
			e := c.event(n+" event", events, func(e broker.Event) bool { return e.ID == "a" || e.ID == "b" })
			got[e.ID] = e.State
		}
		c.same("events", got, map[string]broker.State{"a": broker.StateCompleted, "b": broker.StateRetry})
	}},
	{"Keep/IsBounded", "§30",
		"MaxKept bytes of checkpoint and steps are kept; more bytes, or a note that is too long, are refused with ErrTooLarge.", nil,
		func(c *check) {
			c.add("a")
			w := c.worker("w")
			j := w.one("a")
			full := broker.Kept{Checkpoint: []byte(strings.Repeat("\xff", broker.MaxKept)),
				Progress: broker.Progress{Note: strings.Repeat("n", broker.MaxProgressNote)}}
			w.keep(full, j)
			parted := broker.Kept{Checkpoint: full.Checkpoint[:1000], Steps: []broker.DoneStep{{Name: "s", Result: nil}}}
			parted.Steps[0].Result = full.Checkpoint[:broker.MaxKept-parted.Size()]
			w.keep(parted, j)
			more := broker.Kept{Checkpoint: parted.Checkpoint, Steps: append([]broker.DoneStep{{Name: "t"}}, parted.Steps...)}
			for _, k := range []broker.Kept{{Checkpoint: append(full.Checkpoint, 0)}, more,
				{Progress: broker.Progress{Note: full.Progress.Note + "n"}}} {
				for _, o := range []broker.Outcome{broker.Keep(k), broker.Retry(0, failure("x")).With(k), broker.Complete(nil).With(k)} {
					w.number++
					_, err := c.b.Settle(c.ctx, broker.SettleRequest{Now: c.now, Worker: "w", Number: w.number,
						Items: []broker.Settlement{{Job: j, Outcome: o}}})
					c.is("Settle: "+o.Kind().String(), err, broker.ErrTooLarge)
				}
			}
			c.kept("kept", c.must("a", broker.StateActive).Kept, parted)
			w.settle(broker.Release().With(full), j)
			c.kept("with the job", w.one("a").Kept, full)
		}},
	{"Keep/ComesAgainWithTheJob", "§31",
		"What was kept comes with the job when it is claimed again, whatever brought it back.", nil, func(c *check) {
			c.add("a")
			w, r := c.worker("w"), c.worker("r")
			want := broker.Kept{}
			next := func() *broker.Job {
				c.tb.Helper()
				j := w.one("a")
				c.kept("with the job", j.Kept, want)
				return j
			}
			j := next()
			for i, o := range []broker.Outcome{broker.Retry(0, failure("x")), broker.Retry(time.Minute, failure("x")), broker.Snooze(0, failure("")),
				broker.Snooze(time.Minute, failure("")), broker.Release(), broker.Crash(0, failure("x"))} {
				w.keep(keptOf(fmt.Sprint("before outcome ", i)), j)
				want = keptOf(fmt.Sprint("with outcome ", i))
				w.settle(o.With(want), j)
				c.pass(o.Delay())
				j = next()
				w.settle(o, j) // the outcome has nothing to keep
				c.pass(o.Delay())
				j = next()
			}
			want = keptOf("before it retired")
			w.keep(want, j)
			w.retire()
			w = c.worker("w2")
			j = next()
			want = keptOf("before it ran out")
			w.keep(want, j)
			c.runOut(r)
			taken := r.reclaim(1)
			c.same("reclaimed", idsOf(taken), []string{"a"})
			c.kept("with the reclaimed job", taken[0].Kept, want)
			r.settle(broker.Crash(0, failure("x")), &taken[0])
			w = c.worker("w3")
			j = next()
			want = keptOf("before it died")
			w.settle(broker.Die(broker.ReasonRetries, failure("x")).With(want), j)
			c.kept("of the dead job", c.must("a", broker.StateDead).Kept, want)
			c.decide(broker.OpRedrive, "a")
			w.settle(broker.Retry(time.Hour, failure("x")), next())
			c.decide(broker.OpReschedule, "a")
			j = next()
			want = broker.Kept{}
			w.settle(broker.Retry(0, failure("x")).With(want), j)
			next()
		}},
	{"Keep/CompleteLeavesTheProgress", "§31",
		"A completed job keeps its progress, but not its checkpoint and steps; a cancelled job keeps all.", nil,
		func(c *check) {
			c.keep(time.Hour)
			c.add("kept", "with", "neither", "cancelled")
			w := c.worker("w")
			held := w.take("kept", "with", "neither", "cancelled")
			w.keep(keptOf("kept"), &held[0], &held[3])
			held[0].Kept = &broker.Kept{Progress: broker.Progress{Done: 1}} // as its handler sees it
			w.settleEach(held, broker.Complete([]byte("r")).With(keptOf("kept")), broker.Complete(nil).With(keptOf("with")),
				broker.Complete(nil).With(broker.Kept{Checkpoint: []byte("c")}), broker.Cancel(failure("")).With(keptOf("cancelled")))
			for _, id := range []string{"kept", "with"} {
				c.kept("of "+id, c.must(id, broker.StateCompleted).Kept, broker.Kept{Progress: keptOf(id).Progress})
			}
			c.kept("of the one without progress", c.must("neither", broker.StateCompleted).Kept, broker.Kept{})
			c.kept("of the cancelled one", c.must("cancelled", broker.StateCancelled).Kept, keptOf("cancelled"))
		}},
	{"Keep/GoesWithTheRecord", "§31",
		"What was kept goes with the job: another job with the same ID has none of it.", nil, func(c *check) {
			w := c.worker("w")
			for _, o := range []broker.Outcome{broker.Complete(nil), broker.Cancel(failure("")), broker.Complete([]byte("r"))} {
				if c.form != nil && (c.form.given || c.form.retention) {
					break // the ID is refused for as long as it is remembered, or its record is kept
				}
				for range 2 { // first with an outcome that keeps nothing, then with one that does
					c.add("a")
					c.kept("of the new job", c.must("a", broker.StatePending).Kept, broker.Kept{})
					j := w.one("a")
					c.kept("of the new job, as it was claimed", j.Kept, broker.Kept{})
					c.kept("of the new job, once it is claimed", c.must("a", broker.StateActive).Kept, broker.Kept{})
					w.keep(keptOf("before"), j)
					w.settle(o, j)
					c.gone("a")
					o = o.With(keptOf("last"))
				}
			}
		}},
	{"Keep/GoesAlong", "§31",
		"A job that is restored elsewhere has everything that was kept of it, except a completed one, which has only its progress.", moves,
		func(c *check) {
			c.keep(time.Hour)
			c.keepIn(elsewhere, time.Hour)
			c.add("pending", "retry", "dead", "completed")
			w := c.worker("w")
			held := w.take("pending", "retry", "dead", "completed")
			k := keptOf("kept")
			for i, o := range []broker.Outcome{broker.Release(), broker.Retry(time.Hour, failure("x")),
				broker.Die(broker.ReasonRetries, failure("x")), broker.Complete(nil)} {
				w.settle(o.With(k), &held[i])
			}
			for i, want := range []broker.Kept{k, k, k, {Progress: k.Progress}} {
				n := c.copyOf(held[i].ID)
				n.Restore.Head.Kept = &k // as an exported file may have it
				c.accept(n)
				c.kept("of the copy of "+n.ID, c.findIn(elsewhere, n.ID).Kept, want)
			}
			n := c.copyOf("dead")
			n.ID, n.Restore.Head.Kept = "too large", &broker.Kept{Checkpoint: make([]byte, broker.MaxKept+1)}
			c.refuse(n, broker.ErrTooLarge)
		}},
	{"Keep/SurvivesALostAnswer", "§30",
		"A keep whose answer was lost is repeated under its number, and what was kept is there for the worker that takes over the job.", nil,
		func(c *check) {
			c.add("a")
			w, r := c.worker("w"), c.worker("r")
			j := w.one("a")
			items := []broker.Settlement{{Job: j, Outcome: broker.Keep(keptOf("kept"))}}
			_, err := c.faulty("Settle").Settle(c.ctx, broker.SettleRequest{Now: c.now, Worker: "w", Number: 1, Items: items})
			c.is("the first call", err, faulty.ErrReplyLost)
			c.same("the repeated call", w.sendAs(1, items...), []broker.Verdict{{Queue: c.q, ID: "a", State: broker.StateActive}})
			c.runOut(r)
			taken := r.reclaim(1)
			c.same("reclaimed", idsOf(taken), []string{"a"})
			c.kept("with the reclaimed job", taken[0].Kept, keptOf("kept"))
			r.settle(broker.Release(), &taken[0])
			c.kept("with the released job", r.one("a").Kept, keptOf("kept"))
		}},
	{"Race/KeepOrRetire", "§31",
		"If a keep and the end of its worker, by retire or reclaim, come at once, neither undoes what the other's caller was told.", nil,
		func(c *check) {
			handles := c.handles()
			for i := range 14 {
				id, by := fmt.Sprint("j", i), c.workerOn(handles[1], fmt.Sprint("w", i))
				c.add(id)
				j := by.one(id)
				reclaims := i%2 == 1
				var r *worker
				if reclaims {
					c.pass(2 * lease)
					r = c.workerOn(handles[2], fmt.Sprint("r", i))
				}
				var verdicts []broker.Verdict
				var taken broker.Claimed
				c.together(2, func(at int) (err error) {
					if at == 0 {
						verdicts, err = by.b.Settle(c.ctx, broker.SettleRequest{Now: c.now, Worker: by.id, Number: 1,
							Items: []broker.Settlement{{Job: j, Outcome: broker.Keep(keptOf(id))}}})
						return err
					}
					runtime.Gosched()
					if reclaims {
						taken, err = r.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: r.id, Queues: []string{c.q}, Max: 1})
						return err
					}
					_, err = c.b.Retire(c.ctx, broker.RetireRequest{Now: c.now, Worker: by.id, Queues: []string{c.q}})
					return err
				})
				c.same("verdicts", len(verdicts), 1)
				want := broker.Kept{}
				switch err := verdicts[0].Err; {
				case err == nil:
					want = keptOf(id)
				case !errors.Is(err, broker.ErrLeaseLost):
					c.ok("keep of "+id, err)
				}
				c.kept(fmt.Sprintf("of %s, whose keep answered %v", id, verdicts[0].Err), c.find(id).Kept, want)
				if reclaims && len(taken.Jobs) == 0 { // the keep was working on it
					taken.Jobs = r.reclaim(1)
				}
				for k := range taken.Jobs {
					c.kept("with the reclaimed "+id, taken.Jobs[k].Kept, want)
					r.settle(broker.Complete(nil), &taken.Jobs[k])
				}
				if !reclaims {
					r = c.workerOn(handles[2], fmt.Sprint("r", i))
					r.settle(broker.Complete(nil), r.one(id))
				}
			}
		}},
}
