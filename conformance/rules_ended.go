package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules about what a store remembers of jobs and workers that are gone, for how long,
// and that nothing is left afterwards.
var endedRules = []Rule{
	{"Lease/EndedIDIsRememberedForADay", "§6",
		"The ID of an ended worker is refused for a day after its end, and as long as it has leases; then Prune forgets it.", nil,
		func(c *check) {
			c.add("a", "b")
			retired, found, r := c.worker("retired"), c.worker("found"), c.worker("r")
			found.take("a", "b")
			c.runOut(r)
			retired.retire()
			taken := r.reclaim(1)
			c.same("jobs reclaimed", len(taken), 1)
			r.settle(broker.Complete(nil), &taken[0])
			register := func(w *worker, lost bool, when string) {
				c.tb.Helper()
				c.same("Lost of "+w.id+", registered "+when, w.renewAs(lease, true).Lost, lost)
			}
			c.pass(broker.EndedWorkerSpan - c.tick)
			c.prune()
			register(retired, true, "within a day of its end")
			register(found, true, "within a day of its end")
			c.pass(c.tick)
			c.prune()
			register(retired, false, "a day after its end")
			register(found, true, "while it has a lease that nobody reclaimed")
			s := c.worker("s")
			taken = s.reclaim(5)
			c.same("jobs reclaimed", len(taken), 1)
			s.settle(broker.Complete(nil), &taken[0])
			c.pass(broker.EndedWorkerSpan)
			c.prune()
			register(found, false, "a day after its last look")
		}},
	{"Lease/UnknownWorkerRetires", "§12",
		"Retire of an ID that was never registered ends it in the queues that exist, so that a registration which comes late is refused.", nil,
		func(c *check) {
			c.add("a")
			w := &worker{c: c, b: c.b, id: "w", queues: []string{c.q, "unknown"}}
			c.same("jobs released", len(w.retire().Released), 0)
			w.queues = w.queues[:1]
			c.deadForGood(w)
			reply := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{Now: c.now, Names: []string{"unknown"}})
			c.same("queues that the Retire made", len(reply.Queues), 0)
		}},
	{"Lease/RetireListsWhatItReleased", "§12",
		"Retire lists the jobs that went back to their queues, with their new epochs, and none that it cancelled.", nil,
		func(c *check) {
			c.add("a", "b", "c")
			w := c.worker("w")
			w.take("a", "b", "c")
			c.decide(broker.OpCancel, "b")
			listed := make(map[broker.Ref]bool)
			for _, ref := range w.retire().Released {
				listed[ref] = true
			}
			c.same("jobs released", listed, map[broker.Ref]bool{
				c.must("a", broker.StatePending).Ref(): true, c.must("c", broker.StatePending).Ref(): true})
		}},
	{"Lease/RegistersItsQueue", "§1",
		"A worker that registers makes its queue known; looking, claiming, retiring and reading a policy do not.", nil, func(c *check) {
			queues := func() int {
				reply := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{Now: c.now, Names: []string{"new"}})
				return len(reply.Queues)
			}
			w := &worker{c: c, b: c.b, id: "w", queues: []string{"new"}}
			w.renew()
			_, err := c.b.Claim(c.ctx, w.request(1))
			c.is("Claim", err, broker.ErrWorkerGone)
			_, err = c.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: w.id, Queues: w.queues, Max: 1})
			c.is("Reclaim", err, broker.ErrWorkerGone)
			w.retire()
			ask(c, "Prune", c.b.Prune, broker.PruneRequest{Now: c.now, Queues: w.queues, Max: 1})
			c.policy(broker.PolicyRequest{Queue: "new"})
			c.same("queues before a worker registers", queues(), 0)
			c.worker("v", "new").nothing()
			c.same("queues after a worker registered", queues(), 1)
		}},
	{"Reclaim/FailingQueueWithholdsNothing", "§8",
		"A reclaim gives the jobs of the queues where its caller is alive, together with the error of " +
			"those where it is not.", nil, func(c *check) {
			for _, q := range []string{c.q, "other"} {
				c.accept(c.jobIn(q, "a"))
			}
			w, r := c.worker("w", c.q, "other"), c.worker("r")
			c.same("claimed", len(w.claim(2)), 2)
			c.runOut(r)
			got, err := c.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: "r", Queues: []string{"other", c.q}, Max: 5})
			c.is("Reclaim over a queue that does not know the caller", err, broker.ErrWorkerGone)
			c.claimed(r, got, 5)
			c.that(len(got.Jobs) == 1 && got.Jobs[0].Queue == c.q, "jobs reclaimed\ngot  %s\nwant that of the queue that knows the caller",
				jobList(got.Jobs))
			c.same("holder in the other queue", c.findIn("other", "a").Worker, "w")
		}},
	{"Retention/PruneForgetsWhatLapsed", "§23",
		"Prune forgets remembered IDs, lapsed windows and ended workers at their time, and counts them as Other.", nil, func(c *check) {
			other := func(when string, want int) {
				c.tb.Helper()
				c.same("other things pruned "+when, c.prune().Other, want)
			}
			w, v := c.worker("w"), c.worker("v")
			var jobs []broker.NewJob
			for _, id := range []string{"completed", "dead", "deleted"} {
				j := c.job(id)
				j.Body.GivenID = true
				jobs = append(jobs, j)
			}
			c.accept(jobs...)
			held := w.take("completed", "dead")
			w.settle(broker.Complete(nil), &held[0])
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), &held[1])
			c.decide(broker.OpDelete, "dead", "deleted")
			windows := 1
			if c.limits.NoUnique {
				windows = 0
			} else {
				c.accept(c.uniqueJob("u", "key", window, 2*time.Hour))
				w.settle(broker.Complete(nil), w.one("u"))
			}
			v.retire()
			other("at once", 0)
			c.pass(broker.DefaultDuplicateSpan - c.tick)
			other("before the IDs lapse", 0)
			c.pass(c.tick)
			other("when the IDs lapse", 3)
			c.pass(2*time.Hour - broker.DefaultDuplicateSpan)
			other("when the window lapses", windows)
			c.pass(broker.EndedWorkerSpan - 2*time.Hour)
			other("a day after a worker's end", max(1, c.limits.Shards)) // each shard had it
			other("again", 0)
		}},
	{"Retention/OtherCountsNothingElse", "§23",
		"Other does not count what a store keeps for itself, such as counts of rates, or a unique key whose TTL has passed.", nil,
		func(c *check) {
			c.add("first of the queue")
			w := c.worker("w")
			if !c.limits.NoFlow {
				c.policy(broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: time.Second}})
				c.addTo("k", "a")
			}
			w.settle(broker.Complete(nil), refs(w.claim(9))...)
			if !c.limits.NoUnique {
				c.accept(c.uniqueJob("holds its key for a minute", "key", untilDone, time.Minute))
			}
			c.pass(2 * time.Hour)
			c.same("pruned", c.prune(), broker.Pruned{})
		}},
	{"Find/ByKeyForgetsWhatIsGone", "§21",
		"A job leaves the listing of its key when its record goes, in whatever way, and leaves nothing behind that later pages must pass.", nil,
		func(c *check) {
			const n = 6
			w := c.worker("w")
			add := func(prefix string, delay time.Duration) (ids []string) {
				for i := range n {
					j := c.job(prefix + string(rune('0'+i)))
					j.Body.Key, j.Delay = "tenant", delay
					c.accept(j)
					ids = append(ids, j.ID)
				}
				return ids
			}
			w.settle(broker.Complete(nil), refs(w.take(add("completed", 0)...))...)
			w.settle(broker.Cancel(failure("x")), refs(w.take(add("cancelled", 0)...))...)
			c.decide(broker.OpCancel, add("scheduled", time.Hour)...)
			retry := add("retry", 0)
			w.settle(broker.Retry(time.Hour, failure("x")), refs(w.take(retry...))...)
			c.decide(broker.OpDelete, retry...)
			dead := add("dead", 0)
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), refs(w.take(dead...))...)
			c.decide(broker.OpDelete, dead...)
			asked := add("asked", 0)
			w.take(asked...)
			c.decide(broker.OpCancel, asked...)
			w.retire()
			c.keep(time.Minute)
			v := c.worker("v")
			v.settle(broker.Complete(nil), refs(v.take(add("pruned", 0)...))...)
			c.pass(time.Hour)
			c.same("pruned", c.prune().Completed, n)
			q := broker.Query{Now: c.now, Queue: c.q, Key: "tenant", Limit: 1}
			for pages := 1; ; pages++ {
				page := ask(c, "Find", c.b.Find, q)
				c.same("jobs of the key", idsOf(page.Jobs), []string{})
				if q.Cursor = page.Cursor; q.Cursor == "" {
					break
				}
				c.that(pages < n, "pages of a key whose jobs are gone\ngot  %d, with a cursor\nwant an end", pages)
			}
		}},
	{"Unique/FreedByEveryRarerEnd", "§19",
		"A key is free after its job ended, even if the job was scheduled, in retry, held, released by a retire, reclaimed, redriven " +
			"or restored before.", unique,
		func(c *check) {
			w, n := c.worker("w"), 0
			for _, mode := range []broker.UniqueMode{untilDone, untilStarted} {
				for _, kind := range []broker.OperationKind{broker.OpCancel, broker.OpDelete} {
					ways := []func(broker.NewJob){
						func(j broker.NewJob) { // scheduled
							j.Delay = time.Hour
							c.accept(j)
						},
						func(j broker.NewJob) { // in retry
							c.accept(j)
							w.settle(broker.Retry(time.Hour, failure("x")), w.one(j.ID))
						},
						func(j broker.NewJob) { // released by a worker that retired
							c.accept(j)
							v := c.worker("v of " + j.ID)
							v.one(j.ID)
							v.retire()
						},
						func(j broker.NewJob) { // reclaimed
							c.accept(j)
							c.worker("v of " + j.ID).one(j.ID)
							c.runOut(w)
							taken := w.reclaim(5)
							c.same("reclaimed", idsOf(taken), []string{j.ID})
							w.settle(broker.Crash(0, failure("x")), &taken[0])
						},
						func(j broker.NewJob) { // redriven
							c.accept(j)
							w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one(j.ID))
							c.decide(broker.OpRedrive, j.ID)
						},
					}
					if !c.limits.NoMove {
						ways = append(ways, func(j broker.NewJob) { // held
							c.accept(j)
							c.hold(j.ID)
						}, func(j broker.NewJob) { // restored
							j.Restore = &broker.Restored{State: broker.StateRetry, Head: broker.Head{Epoch: 3}}
							j.Delay = time.Hour
							c.accept(j)
						})
					}
					for _, before := range ways {
						w.renew()
						n++
						j := c.uniqueJob(string(rune('A'+n)), "key", mode, 0)
						before(j)
						c.decide(kind, j.ID)
						c.gone(j.ID)
					}
				}
			}
			c.accept(c.uniqueJob("last", "key", untilDone, 0))
		}},
}
