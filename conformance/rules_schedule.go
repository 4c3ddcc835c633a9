package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var scheduleRules = []Rule{
	{"Schedule/NothingRunsEarly", "§15",
		"A scheduled job is claimable from its due time on, without another call that moves it, and not an instant before.", nil, func(c *check) {
			delayed, timed := c.job("delayed"), c.job("timed")
			delayed.Delay = time.Hour
			timed.RunAt = c.now.Add(2 * time.Hour)
			c.accept(delayed, timed)
			for _, id := range []string{"delayed", "timed"} {
				c.pass(time.Hour - c.tick)
				w := c.worker("before " + id)
				w.nothing()
				c.must(id, broker.StateScheduled)
				w.retire()
				c.pass(c.tick)
				c.worker("at " + id).take(id)
			}
		}},
	{"Schedule/DueTimesRoundUp", "§15", "A due time between two instants of the store rounds up, never down.", nil, func(c *check) {
		timed, delayed := c.job("timed"), c.job("delayed")
		timed.RunAt = c.now.Add(time.Second + time.Nanosecond)
		delayed.Delay = 2*time.Second + time.Nanosecond
		w := c.worker("w")
		for i, r := range c.enqueue(timed, delayed) {
			c.ok("Enqueue", r.Err)
			c.same("RunAt of "+r.ID, r.RunAt, c.now.Add(time.Duration(i+1)*time.Second+c.tick))
		}
		for _, id := range []string{"timed", "delayed"} {
			c.pass(time.Second)
			w.nothing()
			c.pass(c.tick)
			w.take(id)
			c.pass(-c.tick)
		}

		// A delay that begins between two steps of the store's time also ends between two.
		c.pass(c.tick / 2)
		c.accept(c.later("half", time.Second))
		c.pass(time.Second - c.tick/4)
		w.nothing()
		c.pass(c.tick - c.tick/4)
		w.take("half")
	}},
	{"Schedule/ManyFallDueAtOnce", "§15", "However many jobs fall due at one instant, all of them can be claimed at it.", nil,
		func(c *check) {
			const n = 2500
			jobs := make([]broker.NewJob, n)
			for i := range jobs {
				jobs[i] = c.job(fmt.Sprint("j", i))
				jobs[i].Delay = time.Minute
			}
			c.accept(jobs...)
			c.pass(time.Minute)
			w := c.worker("w")
			seen := make(map[string]bool)
			for len(seen) < n {
				got := w.claim(broker.MaxClaim)
				c.that(len(got) > 0, "claimed\ngot  %d jobs in all\nwant %d", len(seen), n)
				for _, j := range got {
					seen[j.ID] = true
				}
				w.settle(broker.Complete(nil), refs(got)...)
			}
		}},
	{"Schedule/NoTimeIsTooFar", "§15", "Times up to the end of the calendar are kept to the microsecond, and later ones refused.", nil,
		func(c *check) {
			last, over := c.job("last"), c.job("over")
			last.RunAt = broker.MaxTime.Add(-c.tick)
			over.RunAt = broker.MaxTime
			r := c.enqueue(last, over)
			c.ok("Enqueue", r[0].Err)
			c.is("Enqueue after the end", r[1].Err, broker.ErrInvalid)
			c.same("RunAt", c.must("last", broker.StateScheduled).RunAt, last.RunAt)
			c.now = last.RunAt.Add(-c.tick)
			w := c.worker("w")
			w.nothing()
			c.pass(c.tick)
			w.take("last")
		}},
	{"Schedule/VirtualTimeMayBeLongAgo", "§15", "A whole life of a job works in a time long past, whatever the store's own clock says.",
		nil, func(c *check) {
			c.now = time.Date(1971, 1, 2, 3, 4, 5, 6000, time.UTC)
			c.life()
		}},
	{"Schedule/VirtualTimeMayBeFarAhead", "§15",
		"A whole life of a job works in a time far ahead, whatever the store's own clock says.", nil, func(c *check) {
			c.now = time.Date(2199, 6, 7, 8, 9, 10, 11000, time.UTC)
			c.life()
		}},
	{"Schedule/OwnClockWithoutNow", "§15",
		"Without a Now, the store's clock decides. Every answer that has a Now tells this clock's time, and so does Ping.", nil, func(c *check) {
			c.real()
			w := c.worker("w")
			before := ask(c, "Claim", c.b.Claim, w.request(0))
			c.accept(c.job("a"), c.later("late", time.Hour))
			w.take("a")
			after := w.renew().Now
			created := c.must("a", broker.StateActive).CreatedAt
			c.that(!created.Before(before.Now) && !created.After(after),
				"CreatedAt\ngot  %v\nwant from %v to %v, the store's clock before and after", created, before.Now, after)
			due := c.must("late", broker.StateScheduled).RunAt
			c.that(!due.Before(before.Now.Add(time.Hour)) && !due.After(after.Add(time.Hour+c.tick)),
				"RunAt\ngot  %v\nwant an hour after %v to %v", due, before.Now, after)
			until := c.workers()["w"].Until
			c.that(!until.Before(before.Now.Add(lease)) && !until.After(after.Add(lease+c.tick)),
				"the lease's end\ngot  %v\nwant %v after the renewal, which was at %v or before", until, lease, after)
			page := ask(c, "Find", c.b.Find, broker.Query{Queue: c.q, IDs: []string{"a"}})
			queues := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{})
			c.that(!page.Now.Before(after) && !queues.Now.Before(page.Now),
				"Now of Find and Queues\ngot  %v and %v\nwant the store's clock, after %v", page.Now, queues.Now, after)
			ping, err := c.b.Ping(c.ctx)
			c.ok("Ping", err)
			again := w.renew().Now
			c.that(!ping.Before(queues.Now) && !ping.After(again.Add(c.tick)),
				"Ping\ngot  %v\nwant the store's clock, which was %v before and %v after", ping, queues.Now, again)
		}},
	{"Schedule/AnswersTellTheNowTheyWereGiven", "§15", "Every answer that has a Now has the Now of the request.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		c.pass(time.Second)
		claimed := ask(c, "Claim", c.b.Claim, w.request(1))
		c.same("Now of Claim", claimed.Now, c.now)
		c.same("Now of Renew", w.renew().Now, c.now)
		reclaimed := ask(c, "Reclaim", c.b.Reclaim, broker.ReclaimRequest{Now: c.now, Worker: "w", Queues: []string{c.q}, Max: 1})
		c.same("Now of Reclaim", reclaimed.Now, c.now)
		page := ask(c, "Find", c.b.Find, broker.Query{Now: c.now, Queue: c.q, IDs: []string{"a"}})
		c.same("Now of Find", page.Now, c.now)
		queues := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{Now: c.now})
		c.same("Now of Queues", queues.Now, c.now)
	}},
	{"Schedule/DeadlinesAreTheFrameworks", "§9",
		"A job past its deadline is handed out like any other: the store does not decide about it.", nil, func(c *check) {
			j := c.job("a")
			j.Body.Deadline = c.now.Add(time.Minute)
			late := c.job("late")
			late.Body.Deadline, late.Delay = c.now.Add(time.Minute), 2*time.Minute
			c.accept(j, late)
			c.pass(time.Hour)
			c.prune()
			c.worker("w").take("a", "late")
		}},
	{"Schedule/DelayIsFromTheStoresNow", "§15", "A delay counts from the request's Now, even if an earlier request had a later Now.",
		nil, func(c *check) {
			c.add("a")
			c.pass(-time.Hour)
			r := c.enqueue(c.later("b", time.Minute))[0]
			c.ok("Enqueue", r.Err)
			c.same("RunAt", r.RunAt, c.up(c.now.Add(time.Minute)))
			c.pass(time.Hour)
			c.worker("w").take("a", "b")
		}},
}

// life takes a job through every step that depends on time.
func (c *check) life() {
	c.tb.Helper()
	c.now = c.up(c.now)
	c.add("first of the queue")
	c.decide(broker.OpDelete, "first of the queue")
	c.keep(time.Hour)
	j := c.later("a", time.Minute)
	if !c.limits.NoUnique {
		j.Body.Unique = broker.Unique{Key: "key", TTL: time.Hour}
	}
	c.accept(j)
	c.same("CreatedAt", c.must("a", broker.StateScheduled).CreatedAt, c.now)
	w := c.worker("w")
	w.nothing()
	c.pass(time.Minute)
	w.settle(broker.Retry(time.Second, failure("x")), w.one("a"))
	w.nothing()
	c.pass(time.Second)
	w.one("a")
	r := c.worker("r")
	c.runOut(r)
	taken := r.reclaim(1)
	c.same("reclaimed", idsOf(taken), []string{"a"})
	if !c.limits.NoUnique {
		c.refuse(c.uniqueJob("b", "key", broker.UniqueUntilDone, 0), broker.ErrDuplicate)
	}
	r.settle(broker.Complete(nil), &taken[0])
	if !c.limits.NoMark {
		c.that(c.mark(broker.MarkRequest{Action: broker.MarkTake, Name: "m", Owner: "o", TTL: time.Minute}).Held,
			"mark\ngot  not held\nwant held")
		c.pass(time.Minute - c.tick)
		c.that(c.readMark("m").Held, "mark before its time\ngot  lapsed\nwant held")
	}
	c.must("a", broker.StateCompleted)
	c.pass(2 * time.Hour)
	c.prune()
	c.gone("a")
}
