package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A store need not look into a queue for each claim, above all if there are many. These rules
// require that it finds all jobs nevertheless.
var manyRules = []Rule{
	{"Many/FindsWhatBecameClaimable", "§14",
		"A claim of one queue, or of a hundred, finds a job in a queue that had nothing at the last claim, however the job became claimable.",
		nil, func(c *check) {
			for _, n := range []int{1, manyQueues} {
				c.becomesClaimable(c.among(n))
			}
		}},
	{"Many/FindsWhatWasHeld", "§14", "A claim of one queue, or of a hundred, finds a job that was unheld, and one that was restored.", moves,
		func(c *check) {
			for _, n := range []int{1, manyQueues} {
				m := c.among(n)
				c.add("held")
				c.hold("held")
				m.finds("held", func() { c.decide(broker.OpUnhold, "held") })
				j := c.job("restored")
				j.Restore = &broker.Restored{State: broker.StateRetry}
				m.finds("restored", func() { c.accept(j) })
				j.Restore, j.ID, j.RunAt = &broker.Restored{State: broker.StateScheduled}, "restored for later", c.now.Add(time.Minute)
				m.finds(j.ID, func() {
					c.accept(j)
					c.pass(time.Minute)
				})
			}
		}},
	{"Many/FindsWhatMetAKey", "§40", "A claim of one queue, or of a hundred, finds a debounced job whose time was moved forward, and a job " +
		"that waited behind another.", meets, func(c *check) {
		v := c.worker("v")
		for _, n := range []int{1, manyQueues} {
			m := c.among(n)
			debounced := func(id string, d time.Duration) string {
				id = fmt.Sprint(id, n)
				j := c.debounced(id, d)
				c.accept(j)
				return id
			}
			m.finds(debounced("debounced", 30*time.Minute), func() {
				debounced("sooner", time.Minute)
				c.pass(time.Minute)
			})
			before := v.one(debounced("before", 0))
			m.finds(debounced("behind", 0), func() { v.settle(broker.Complete(nil), before) })
		}
	}},
	{"Many/FindsWhatALimitKeptBack", "§37",
		"A claim of a hundred queues finds the job that a limit of its queue or its key kept back, once there is room.", flow,
		func(c *check) {
			m := c.among(manyQueues)
			v := c.worker("v")
			for i, r := range []struct{ set, remove broker.PolicyRequest }{
				{broker.PolicyRequest{MaxActive: new(int64(1))}, broker.PolicyRequest{MaxActive: new(int64(broker.NoLimit))}},
				{broker.PolicyRequest{KeyMaxActive: new(int64(1))}, broker.PolicyRequest{KeyMaxActive: new(int64(broker.NoLimit))}},
				{broker.PolicyRequest{Ordered: new(broker.OrderStop)}, broker.PolicyRequest{Ordered: new(broker.OrderNone)}},
			} {
				c.policy(r.set)
				for _, by := range []string{"an end", "a change"} {
					id := fmt.Sprint("limit ", i, " opened by ", by)
					c.addTo("k", id+": before", id)
					before := v.one(id + ": before")
					m.finds(id, func() {
						if by == "an end" {
							v.settle(broker.Complete(nil), before)
						} else {
							c.policy(r.remove)
						}
					})
				}
				for _, j := range c.list(broker.Query{Worker: "v"}) {
					v.settle(broker.Complete(nil), &j)
				}
			}
			c.addTo("k", "of a paused key")
			c.policy(broker.PolicyRequest{Key: "k", Paused: new(true)})
			m.finds("of a paused key", func() { c.policy(broker.PolicyRequest{Key: "k", Paused: new(false)}) })
			for i, rate := range []broker.PolicyRequest{{Rate: &broker.Rate{Jobs: 1, Per: time.Minute}},
				{KeyRate: &broker.Rate{Jobs: 1, Per: time.Minute}}} {
				c.policy(rate)
				id := fmt.Sprint("rate ", i)
				c.addTo("r", id+": before", id)
				v.settle(broker.Complete(nil), v.one(id+": before"))
				m.finds(id, func() { c.pass(time.Minute) })
				c.policy(broker.PolicyRequest{Rate: &broker.Rate{Jobs: broker.NoLimit}})
			}
		}},
	{"Many/SaysWhenTheNextIsDue", "§17", "A claim of a hundred queues knows when the next job of any of them is due, each time.", nil,
		func(c *check) {
			m := c.among(manyQueues)
			c.accept(c.later("later", time.Minute))
			due := c.up(c.now.Add(time.Minute))
			for range 3 {
				got := ask(c, "Claim", c.b.Claim, m.w.request(1))
				c.same("NextDue", got.NextDue, due)
				c.pass(time.Second)
			}
		}},
	{"Many/ServesSharesInOrder", "§14", "If a hundred queues have a job each, claims of a few jobs give those of the first queues, " +
		"and say More.", nil,
		func(c *check) {
			m := c.among(manyQueues)
			jobs, ids := make([]broker.NewJob, len(m.w.queues)), make([]string, len(m.w.queues))
			for i, queue := range m.w.queues {
				ids[i] = "of " + queue
				jobs[i] = c.job(ids[i])
				jobs[i].Queue = queue
			}
			c.accept(jobs...)
			var given []string
			for claims := 0; len(given) < len(ids); claims++ {
				got := ask(c, "Claim", c.b.Claim, m.w.request(20))
				given = append(given, idsOf(got.Jobs)...)
				c.same("claimed so far", given, ids[:len(given)])
				c.that(got.More || len(given) == len(ids), "More\ngot  false after %d of %d jobs\nwant true: the rest can be claimed",
					len(given), len(ids))
				c.that(claims < 50, "claims of 20 jobs each\ngot  %d for %d jobs\nwant the other %d soon", claims, len(given), len(ids)-len(given))
			}
			m.w.nothing()
		}},
}

// becomesClaimable makes a job claimable in each way.
func (c *check) becomesClaimable(m many) {
	c.tb.Helper()
	v := c.worker(fmt.Sprint("v", len(m.w.queues)))
	held := func(id string) *broker.Job { c.add(id); return v.one(id) }
	m.finds("enqueued", func() { c.add("enqueued") })
	later := c.later("due", time.Minute)
	c.accept(later)
	m.finds("due", func() { c.pass(time.Minute) })
	for _, id := range []string{"resumed", "due while paused"} {
		j := c.job(id)
		if id != "resumed" {
			j.Delay = time.Second
		}
		c.pause(c.q, true)
		c.accept(j)
		c.pass(time.Second)
		m.finds(id, func() { c.pause(c.q, false) })
	}
	j := held("retried at once")
	m.finds(j.ID, func() { v.settle(broker.Retry(0, failure("x")), j) })
	j = held("retried later")
	v.settle(broker.Retry(time.Minute, failure("x")), j)
	m.finds(j.ID, func() { c.pass(time.Minute) })
	j = held("released")
	m.finds(j.ID, func() { v.settle(broker.Release(), j) })
	for _, id := range []string{"scheduled", "retried", "rescheduled"} {
		later, sooner := c.job("after what is "+id), held(id+" sooner")
		later.Delay = time.Hour
		c.accept(later)
		m.finds(sooner.ID, func() {
			switch id {
			case "scheduled":
				v.settle(broker.Complete(nil), sooner)
				c.accept(c.later(sooner.ID, time.Minute))
			case "retried":
				v.settle(broker.Retry(time.Minute, failure("x")), sooner)
			case "rescheduled":
				v.settle(broker.Retry(2*time.Hour, failure("x")), sooner)
				c.reschedule(time.Minute, sooner.ID)
			}
			c.pass(time.Minute)
		})
		c.decide(broker.OpDelete, later.ID)
	}
	j = held("redriven")
	v.settle(broker.Die(broker.ReasonRetries, failure("x")), j)
	m.finds(j.ID, func() { c.decide(broker.OpRedrive, j.ID) })
	later = c.job("rescheduled")
	later.Delay = time.Hour
	c.accept(later)
	m.finds(later.ID, func() { c.decide(broker.OpReschedule, later.ID) })
	j = held("of one that retired")
	m.finds(j.ID, func() { v.retire() })
	dead := c.worker(fmt.Sprint("dead", len(m.w.queues)))
	c.add("reclaimed")
	dead.one("reclaimed")
	v = c.worker(fmt.Sprint("next v", len(m.w.queues)))
	c.runOut(m.w, v)
	j = &v.reclaim(1)[0]
	m.finds(j.ID, func() { v.settle(broker.Snooze(0, failure("")), j) })
}

// many is a worker of some queues, with the rule's in the middle.
type many struct{ w *worker }

const manyQueues = 100

func (c *check) among(n int) many {
	c.tb.Helper()
	queues := make([]string, n)
	for i := range queues {
		queues[i] = fmt.Sprintf("queue-%03d", i)
	}
	queues[n/2] = c.q
	return many{c.worker(fmt.Sprint("w", n), queues...)}
}

// finds requires that the job can be claimed only after cause, and completes it.
func (m many) finds(id string, cause func()) {
	m.w.c.tb.Helper()
	m.w.nothing()
	m.w.nothing() // now the store may know that each queue is empty
	cause()
	m.w.settle(broker.Complete(nil), m.w.one(id))
}
