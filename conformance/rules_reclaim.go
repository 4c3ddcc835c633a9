package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var reclaimRules = []Rule{
	{"Reclaim/TakesOverWhatRanOut", "§8",
		"Reclaim hands out the jobs of a worker whose leases ran out, under leases of the caller, with nothing changed but the epoch.", nil,
		func(c *check) {
			j := c.job("a")
			j.Body.Headers = map[string]string{"k": "v"}
			c.accept(j, c.job("b"))
			w, r := c.worker("w"), c.worker("r")
			w.settle(broker.Retry(0, failure("once")), w.one("a"))
			held := w.take("b", "a")
			c.runOut(r)
			got := make(map[string]broker.Job)
			for _, j := range r.reclaim(5) {
				got[j.ID] = j
			}
			c.same("reclaimed", len(got), 2)
			for _, before := range held {
				want := before
				want.Worker, want.Epoch = "r", before.Epoch+1
				c.same("reclaimed "+want.ID, got[want.ID], want)
				c.same("found "+want.ID, *c.must(want.ID, broker.StateActive), want)
			}
		}},
	{"Reclaim/LeavesTheLivingAlone", "§8", "Reclaim takes nothing of a worker whose leases hold.", nil, func(c *check) {
		c.add("a", "b", "c")
		alive, dead, r := c.worker("alive"), c.worker("dead"), c.worker("r")
		held := alive.take("a", "b")
		dead.take("c")
		c.runOut(r, alive)
		c.same("reclaimed", idsOf(r.reclaim(5)), []string{"c"})
		c.that(!alive.renew().Lost, "Renew of the living\ngot  Lost\nwant alive")
		alive.settle(broker.Complete(nil), refs(held)...)
	}},
	{"Reclaim/VoidsTheOldLease", "§8", "From the reclaim on, the old lease is void and the new one settles the job.", nil, func(c *check) {
		c.add("a")
		w, r := c.worker("w"), c.worker("r")
		old := w.one("a")
		c.runOut(r)
		taken := r.reclaim(5)
		c.same("reclaimed", idsOf(taken), []string{"a"})
		w.lost(old)
		c.must("a", broker.StateActive)
		r.settle(broker.Crash(0, failure("crashed")), &taken[0])
		c.same("crashes", c.must("a", broker.StatePending).Crashes, 1)
		c.worker("v").take("a")
	}},
	{"Reclaim/GoesOverSeveralCalls", "§8",
		"Reclaim gives at most Max jobs and says More; the worker is ended by the first call, its other jobs are handed out by later ones.", nil,
		func(c *check) {
			ids := c.addMany("j", 7)
			w, r := c.worker("w"), c.worker("r")
			w.take(ids...)
			c.runOut(r)
			var got []string
			for range 20 {
				res := ask(c, "Reclaim", c.b.Reclaim, broker.ReclaimRequest{Now: c.now, Worker: "r", Queues: []string{c.q}, Max: 3})
				c.claimed(r, res, 3)
				got = append(got, idsOf(res.Jobs)...)
				c.that(w.renew().Lost, "Renew after the first Reclaim\ngot  not lost\nwant Lost")
				if len(got) < len(ids) {
					c.that(res.More, "More\ngot  false with %d of 7 jobs reclaimed\nwant true", len(got))
				} else if !res.More {
					break
				}
			}
			c.same("reclaimed", sorted(got), ids)
		}},
	{"Reclaim/RenewSaysWhen", "§8",
		"Renew says when the first leases run out, and that jobs of ended workers are left.", nil,
		func(c *check) {
			c.add("a", "b")
			r := c.workerOn(c.b, "r", c.q, "other")
			dead, brief := c.worker("dead"), c.worker("brief")
			dead.take("a", "b")
			brief.renewAs(lease/3, false)
			lapse := func(who string, got broker.Renewed, want time.Time) {
				c.that(got.NextLapse.Equal(want), "NextLapse while %s is the next to run out\ngot  %v\nwant %v", who, got.NextLapse, want)
			}
			began := c.now
			lapse("brief", r.renew(), began.Add(lease/3))
			c.pass(lease / 4)
			brief.renew()
			lapse("dead", r.renew(), began.Add(lease))
			brief.retire()
			c.pass(lease / 2)
			r.renew()
			c.pass(lease / 3)
			got := r.renew()
			c.that(!got.NextLapse.IsZero() && !got.NextLapse.After(c.now), "NextLapse when a worker ran out\ngot  %v\nwant %v at most",
				got.NextLapse, c.now)
			r.reclaim(1)
			got = r.renew()
			c.that(!got.NextLapse.IsZero() && !got.NextLapse.After(c.now),
				"NextLapse while an ended worker's job is left\ngot  %v\nwant %v at most", got.NextLapse, c.now)
			r.reclaim(5)
			lapse("the caller", r.renew(), c.now.Add(lease))
		}},
	{"Reclaim/CallerMustBeRegistered", "§6", "A Reclaim by an unknown worker only answers ErrWorkerGone.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		w.take("a")
		c.pass(2 * lease)
		c.reclaimRefused("nobody")
		c.that(!w.renew().Lost, "Renew of the worker that ran out\ngot  Lost\nwant it found by nobody")
	}},
	{"Reclaim/CallerMustNotHaveRunOut", "§8", "A Reclaim by a worker whose own leases ran out only answers ErrWorkerGone.", nil,
		func(c *check) {
			c.add("a")
			w, r := c.worker("w"), c.worker("r")
			w.take("a")
			c.pass(2 * lease)
			c.reclaimRefused("r")
			c.that(!w.renew().Lost, "Renew of the worker that ran out\ngot  Lost\nwant it found by nobody")
			c.that(!r.renew().Lost, "Renew of the caller\ngot  Lost\nwant it found by nobody")
		}},
	{"Reclaim/HealsItsOwnCrash", "§8", "A reclaimed job is reclaimed again when its new worker runs out.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		w.take("a")
		for i := range 3 {
			r := c.worker(fmt.Sprint("r", i))
			c.runOut(r)
			taken := r.reclaim(5)
			c.same("reclaimed", idsOf(taken), []string{"a"})
			c.same("epoch", taken[0].Epoch, int64(i+1))
		}
	}},
	{"Reclaim/OnlyInTheQueuesNamed", "§8", "Reclaim takes jobs only from the queues that it names.", nil, func(c *check) {
		c.accept(c.job("a"), c.jobIn("other", "b"))
		w, r := c.worker("w", c.q, "other"), c.worker("r", c.q, "other")
		w.claim(2)
		c.runOut(r)
		got := ask(c, "Reclaim", c.b.Reclaim, broker.ReclaimRequest{Now: c.now, Worker: "r", Queues: []string{"other"}, Max: 5})
		c.same("reclaimed", idsOf(got.Jobs), []string{"b"})
		c.same("worker of a", c.must("a", broker.StateActive).Worker, "w")
		c.same("reclaimed of both queues", idsOf(r.reclaim(5)), []string{"a"})
	}},
	{"Reclaim/IsNotInTheQueue", "§8", "A reclaimed job is given to no claim until it is settled.", nil, func(c *check) {
		c.add("a")
		w, r := c.worker("w"), c.worker("r")
		w.take("a")
		c.runOut(r)
		taken := r.reclaim(5)
		c.same("reclaimed", len(taken), 1)
		r.nothing()
		v := c.worker("v")
		v.nothing()
		c.same("reclaimed again, while its worker lives", len(v.reclaim(5)), 0)
		r.settle(broker.Release(), &taken[0])
		v.take("a")
	}},
	{"Reclaim/KeepsTheWishToCancel", "§22",
		"A request to cancel survives the reclaim: the new worker sees it, and the request decides the outcome.", nil, func(c *check) {
			c.add("a")
			w, r := c.worker("w"), c.worker("r")
			w.take("a")
			c.decide(broker.OpCancel, "a")
			c.runOut(r)
			taken := r.reclaim(5)
			c.same("reclaimed", idsOf(taken), []string{"a"})
			c.that(taken[0].CancelRequested, "CancelRequested of the reclaimed job\ngot  false\nwant true")
			c.same("cancel", r.renew().Cancel, []broker.Ref{taken[0].Ref()})
			v := r.try(broker.Crash(0, failure("crashed")), &taken[0])[0]
			c.ok("settle", v.Err)
			c.same("state", v.State, broker.StateCancelled)
			r.nothing()
		}},
	{"Reclaim/CountsForTheCaller", "§7", "Reclaimed leases count for the caller, and no longer for the worker that lost them.", nil,
		func(c *check) {
			c.add("a", "b")
			w, r := c.worker("w"), c.worker("r")
			w.take("a", "b")
			c.runOut(r)
			c.same("reclaimed", len(r.reclaim(5)), 2)
			c.same("held by the caller", r.renew().Held[c.q], 2)
			c.same("listed for the caller", len(c.list(broker.Query{Worker: "r"})), 2)
			c.same("listed for the ended worker", len(c.list(broker.Query{Worker: "w"})), 0)
			c.same("active jobs", c.counted(c.q).Counts[broker.StateActive], int64(2))
		}},
	{"Reclaim/EndsOnlyWhoRanOut", "§8", "A reclaim ends every worker whose leases ran out, whether it held jobs or not, and no other worker.",
		nil, func(c *check) {
			r := c.worker("r")
			var dead []*worker
			for i := range 5 {
				dead = append(dead, c.worker(fmt.Sprint("dead", i)))
			}
			c.add("a")
			dead[3].take("a")
			c.runOut(r)
			late := c.worker("late")
			c.same("reclaimed", idsOf(r.reclaim(5)), []string{"a"})
			for _, w := range dead {
				c.that(w.renew().Lost, "Renew of %s\ngot  not lost\nwant Lost", w.id)
			}
			c.that(!late.renew().Lost && !r.renew().Lost, "Renew of the living\ngot  Lost\nwant alive")
			c.same("workers described", len(c.workers()), 2)
		}},
	{"Reclaim/CrashesAreOnlyCharged", "§9",
		"However often its workers die, a job is reclaimed; only an outcome decides what happens to it.", nil, func(c *check) {
			j := c.job("a")
			j.Body.MaxRetries, j.Body.CrashBudget = 0, 1
			c.accept(j)
			for i := range 4 {
				w, r := c.worker(fmt.Sprint("w", i)), c.worker(fmt.Sprint("r", i))
				w.take("a")
				c.pass(lease / 2)
				r.renew()
				c.pass(lease/2 + time.Second)
				taken := r.reclaim(1)
				c.same("reclaimed", idsOf(taken), []string{"a"})
				r.settle(broker.Crash(0, failure("crashed")), &taken[0])
				r.retire()
			}
			c.same("crashes", c.must("a", broker.StatePending).Crashes, 4)
		}},
}

// reclaimRefused requires that a worker may not reclaim, and that worker w keeps job
// a.
func (c *check) reclaimRefused(worker string) {
	c.tb.Helper()
	got, err := c.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: worker, Queues: []string{c.q}, Max: 5})
	c.is("Reclaim by "+worker, err, broker.ErrWorkerGone)
	c.same("jobs reclaimed", len(got.Jobs), 0)
	c.same("worker of a", c.must("a", broker.StateActive).Worker, "w")
}
