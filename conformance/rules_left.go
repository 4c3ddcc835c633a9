package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules about More: an answer that ends at Max says whether something is left, in
// whatever structure.
var leftRules = []Rule{
	{"Claim/SaysMoreOfDueJobs", "§14",
		"A claim that ends at Max and leaves jobs that fell due says More, whether they were scheduled or in retry.", nil, func(c *check) {
			w := c.worker("w")
			for round, toldBefore := range []bool{false, true} {
				ids := c.addMany(fmt.Sprint("retry", round), 3)
				w.settle(broker.Retry(time.Minute, failure("x")), refs(w.claim(3))...)
				for i := range 2 {
					j := c.later(fmt.Sprint("scheduled", round, i), time.Hour)
					c.accept(j)
					ids = append(ids, j.ID)
				}
				if toldBefore { // a store that knows when the next is due may take a fast path
					w.nothing()
				}
				c.pass(2 * time.Minute)
				w.renew()
				c.untilNoMore(ids[:3], 1, c.claims(w, c.q))
				c.pass(time.Hour)
				w.renew()
				c.untilNoMore(ids[3:], 1, c.claims(w, c.q))
			}
		}},
	{"Claim/SaysMoreOfEveryQueue", "§14",
		"A claim that ends at Max says More for jobs that are left in any of its queues, even in one that it did not reach.", nil,
		func(c *check) {
			queues := []string{c.q, "other", "third"}
			w := c.worker("w", queues...)
			for _, most := range []int{1, 2, 4} {
				var jobs []broker.NewJob
				ids := numbered(fmt.Sprint("j", most, "-"), 9)
				for i, id := range ids {
					j := c.jobIn(queues[i%3], id)
					if i > 5 { // some fall due
						j.Delay = time.Minute
					}
					jobs = append(jobs, j)
				}
				c.accept(jobs...)
				c.pass(time.Minute)
				w.renew()
				c.untilNoMore(ids, most, c.claims(w, queues...))
			}
		}},
	{"Reclaim/SaysMoreOfEveryQueue", "§8",
		"A reclaim that ends at Max says More for jobs that are left in any of its queues, of any worker that ran out.", nil,
		func(c *check) {
			queues := []string{c.q, "other", "third"}
			v, w, r := c.worker("v", queues...), c.worker("w", queues...), c.worker("r", queues...)
			ids := c.deal(10, queues...)
			c.same("claimed", len(v.claim(4))+len(w.claim(6)), len(ids))
			c.runOut(r)
			c.untilNoMore(ids, 2, func(most int) broker.Claimed {
				got := ask(c, "Reclaim", c.b.Reclaim, broker.ReclaimRequest{Now: c.now, Worker: r.id, Queues: queues, Max: most})
				c.claimed(r, got, most)
				return got
			})
		}},
}

// claims returns a function that claims once, from these queues in order.
func (c *check) claims(w *worker, queues ...string) func(most int) broker.Claimed {
	return func(most int) broker.Claimed {
		c.tb.Helper()
		req := broker.ClaimRequest{Now: c.now, Worker: w.id, Max: most}
		for _, q := range queues {
			req.Queues = append(req.Queues, broker.Share{Queue: q, Max: most})
		}
		got := ask(c, "Claim", w.b.Claim, req)
		c.claimed(w, got, most)
		return got
	}
}

// untilNoMore calls next until it has given these jobs. It requires that answers say
// More as long as one of them is left, and soon stop after the last.
func (c *check) untilNoMore(ids []string, most int, next func(most int) broker.Claimed) {
	c.tb.Helper()
	var got []string
	for empty := 0; ; {
		answer := next(most)
		got = append(got, idsOf(answer.Jobs)...)
		if len(got) < len(ids) {
			c.that(answer.More, "More after %d of %d jobs, in calls of at most %d\ngot  false\nwant true", len(got), len(ids), most)
		} else if !answer.More {
			break
		}
		if len(answer.Jobs) == 0 {
			empty++
		}
		c.that(empty < 10, "jobs in %d calls that said More\ngot  none\nwant some, or no More", empty)
	}
	c.same("jobs given", sorted(got), sorted(slices.Clone(ids)))
}
