package conformance

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var bytesRules = []Rule{
	{"Claim/EndsWithItsBytes", "§13",
		"A claim gives no further job once the given jobs have Bytes bytes, and says More: the first job is always given.", nil, func(c *check) {
			w := c.worker("w", c.q, "other")
			for _, most := range []int{1, 900, 2_300} {
				w.inParts(c.heavy(0, c.q, c.q, c.q, c.q, c.q), most, c.q)
				w.inParts(c.heavy(0, c.q, c.q, c.q, c.q, c.q), most, c.q, c.q)
				w.inParts(c.heavy(0, c.q, "other", c.q, "other", c.q, "other"), most, c.q, "other")
			}
		}},
	{"Claim/EndsWithItsBytesOfDueJobs", "§13",
		"A claim of jobs that fell due ends at its Bytes, too, whether they come alone or after pending jobs.", nil, func(c *check) {
			w := c.worker("w")
			for _, known := range []bool{false, true} { // a store that knows when the next job is due may take another path
				ids := c.heavy(time.Minute, c.q, c.q, c.q, c.q)
				if known {
					w.nothing()
				}
				c.pass(time.Hour)
				w.inParts(ids, 2_300, c.q)
				late := c.heavy(time.Minute, c.q, c.q, c.q, c.q)
				if known {
					w.nothing()
				}
				ids = c.heavy(0, c.q, c.q, c.q)
				c.pass(time.Hour)
				w.inParts(append(ids, late...), 2_300, c.q)
			}
		}},
	{"Reclaim/EndsWithItsBytes", "§13",
		"A reclaim gives no further job once the given jobs have Bytes bytes, and says More: the first " +
			"job is always given.", nil, func(c *check) {
			ids := c.heavy(0, c.q, c.q, c.q, c.q, c.q, c.q, c.q)
			w, r := c.worker("w"), c.worker("r")
			w.take(ids...)
			c.runOut(r)
			var got []string
			for _, most := range []int{2_300, 1, 900, 2_300} {
				res, err := c.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: "r", Queues: []string{c.q}, Max: 9, Bytes: most})
				c.ok("Reclaim", err)
				c.claimed(r, res, 1+(most-1)/heavy)
				got = append(got, idsOf(res.Jobs)...)
				if len(got) < len(ids) {
					c.that(len(res.Jobs) > 0 && res.More,
						"reclaim with Bytes %d, %d of 7 jobs reclaimed\ngot  %d jobs, More %t\nwant some, and More",
						most, len(got), len(res.Jobs), res.More)
				}
			}
			got = append(got, idsOf(r.reclaim(9))...)
			c.same("reclaimed", sorted(got), ids)
			res, err := c.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: "r", Queues: []string{c.q}, Max: 9, Bytes: -1})
			c.is("Reclaim with Bytes -1", err, broker.ErrInvalid)
			c.same("jobs", len(res.Jobs), 0)
		}},
}

// heavy is the size of jobs in the rules about bytes: half of it is payload, half a header.
const heavy = 900

// heavy enqueues a job of that size into each of the queues. With a delay, they fall due
// one after the other from then on.
func (c *check) heavy(delay time.Duration, queues ...string) (ids []string) {
	c.tb.Helper()
	var jobs []broker.NewJob
	for _, q := range queues {
		j := c.job(fmt.Sprintf("heavy%02d", c.heavyJobs))
		c.heavyJobs++
		j.Queue, j.Delay, j.Body.Payload = q, delay, bytes.Repeat([]byte{7}, heavy/2)
		j.Body.Headers = map[string]string{"h": strings.Repeat("7", heavy/2-1)}
		if delay > 0 {
			delay += time.Second
		}
		jobs, ids = append(jobs, j), append(ids, j.ID)
	}
	c.accept(jobs...)
	return ids
}

// inParts claims these jobs from these queues, at most most bytes at a time. From a
// single queue, they must come in order.
func (w *worker) inParts(ids []string, most int, queues ...string) {
	c := w.c
	c.tb.Helper()
	req := broker.ClaimRequest{Worker: w.id, Max: 9, Bytes: most}
	places := make(map[string]bool)
	for _, q := range queues {
		req.Queues = append(req.Queues, broker.Share{Queue: q, Max: 9})
		places[q] = true
	}
	limit := len(places) + (most-1)/heavy // a store that asks each queue by itself gives the first job of each
	var got []string
	for len(got) < len(ids) {
		req.Now = c.now
		answer := ask(c, "Claim", w.b.Claim, req)
		c.claimed(w, answer, limit)
		if got = append(got, idsOf(answer.Jobs)...); len(got) < len(ids) {
			c.that(len(answer.Jobs) > 0 && answer.More,
				"claim with Bytes %d of jobs with %d each, %d of %d claimed\ngot  %d jobs, More %t\nwant some, and More",
				most, heavy, len(got), len(ids), len(answer.Jobs), answer.More)
		}
	}
	if len(places) > 1 {
		got, ids = sorted(got), sorted(ids)
	}
	c.same("jobs that came in parts", got, ids)
}
