package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// thousands is more than the size at which a store divides its work: a batch, a
// page, the arguments of one command.
const thousands = 2300

// Rules about requests that a store may have to divide into steps, over two queues.
var boundRules = []Rule{
	{"Bound/RetireReleasesThousands", "§12",
		"However many jobs a worker holds, in several queues, they are listed, counted, and released by one Retire.", nil, func(c *check) {
			w := c.holdThousands()
			c.same("listed for the worker", len(c.list(broker.Query{Worker: w.id, Limit: 1000}))+
				len(c.list(broker.Query{Queue: "other", Worker: w.id, Limit: 1000})), thousands)
			held := w.renew().Held
			c.same("counted for the worker", held[c.q]+held["other"], thousands)
			released := make(map[broker.Ref]bool)
			for _, ref := range w.retire().Released {
				released[ref] = true
			}
			c.same("jobs released", len(released), thousands)
			for _, q := range w.queues {
				c.same("pending jobs of "+q, c.counted(q).Counts[broker.StatePending], int64(thousands/2))
			}
		}},
	{"Bound/ReclaimTakesThousands", "§8",
		"However many jobs a worker held when its leases ran out, reclaims of several queues hand out each of them once, and then say no More.",
		nil, func(c *check) {
			w := c.holdThousands()
			r := c.worker("r", w.queues...)
			c.runOut(r)
			seen := make(map[string]bool)
			for calls := 0; ; calls++ {
				got, err := c.b.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: "r", Queues: w.queues, Max: broker.MaxClaim})
				c.ok("Reclaim", err)
				c.claimed(r, got, broker.MaxClaim)
				for _, j := range got.Jobs {
					c.that(!seen[j.ID], "job %s\ngot  reclaimed twice\nwant once", j.ID)
					seen[j.ID] = true
				}
				if !got.More {
					break
				}
				c.that(calls < 100, "reclaims\ngot  More after %d of %d jobs in 100 calls\nwant an end", len(seen), thousands)
			}
			c.same("jobs reclaimed", len(seen), thousands)
		}},
	{"Bound/SettleTakesThousands", "§10",
		"A settle of thousands of items over several queues has a verdict for each, in order, and lost leases harm no other item.", nil,
		func(c *check) {
			c.keepIn(c.q, time.Hour)
			w := c.holdThousands()
			var items []broker.Settlement
			for i, j := range c.heldBy(w) {
				if i%7 == 0 {
					j.Epoch++ // there is no such lease
				}
				items = append(items, broker.Settlement{Job: &j, Outcome: []broker.Outcome{broker.Complete(nil), broker.Retry(time.Hour,
					failure("x")), broker.Release()}[i%3]})
			}
			for range 2 { // a repeat gets the same answer
				for i, v := range w.sendAs(1, items...) {
					want := broker.Verdict{Queue: v.Queue, ID: v.ID, State: items[i].Outcome.State()}
					if i%7 == 0 {
						want.State, want.Err = broker.StateNone, broker.ErrLeaseLost
					}
					c.that(errors.Is(v.Err, want.Err) && (v.Err == nil) == (want.Err == nil) && (v.Err != nil || v.State == want.State),
						"verdict %d, of %s/%s\ngot  %v, error %v\nwant %v, error %v", i, v.Queue, v.ID, v.State, v.Err, want.State, want.Err)
				}
			}
			c.same("jobs still held", len(c.heldBy(w)), (thousands+6)/7)
		}},
	{"Bound/EnqueueTakesTheLargestBatch", "§18",
		"A batch of the largest size, over several queues, is accepted whole, and keeps its order in each.", nil, func(c *check) {
			jobs := make([]broker.NewJob, broker.MaxBatch)
			for i := range jobs {
				jobs[i] = broker.NewJob{Queue: []string{c.q, "other"}[i%2], ID: fmt.Sprint("j", i),
					Body: broker.Body{Type: "work", Priority: broker.PriorityNormal}}
			}
			c.accept(jobs...)
			w := c.worker("w", c.q, "other")
			next := map[string]int{c.q: 0, "other": 1}
			for range 3 {
				for _, j := range w.claim(broker.MaxClaim) {
					c.same("job next in "+j.Queue, j.ID, fmt.Sprint("j", next[j.Queue]))
					next[j.Queue] += 2
				}
			}
			for _, q := range w.queues {
				n := c.counted(q).Counts
				c.same("jobs of "+q, n[broker.StatePending]+n[broker.StateActive], int64(broker.MaxBatch/2))
			}
		}},
	{"Bound/PruneTakesEachQueue", "§23",
		"A prune of several queues prunes each of them, even after one that does not exist, and says More while one has something left.", nil,
		func(c *check) {
			queues := []string{c.q, "unknown", "other", "third"}
			for i, q := range []string{c.q, "other", "third"} {
				c.keepIn(q, time.Minute)
				for n := range 4 * (i + 1) {
					c.accept(c.jobIn(q, fmt.Sprint("j", n)))
				}
				w := c.worker("w", q)
				w.settle(broker.Complete(nil), refs(w.claim(20))...)
				w.retire()
			}
			c.pass(time.Hour)
			sum := 0
			for calls := 0; ; calls++ {
				p := ask(c, "Prune", c.b.Prune, broker.PruneRequest{Now: c.now, Queues: queues, Max: 5})
				c.that(p.Completed <= 15, "records pruned in one call\ngot  %d\nwant at most 5 of each queue", p.Completed)
				if sum += p.Completed; !p.More {
					break
				}
				c.that(calls < 50, "Prune\ngot  More after 50 calls\nwant an end")
			}
			c.same("records pruned", sum, 24)
		}},
	{"Bound/PagesGoOnFromAJobThatIsGone", "§21",
		"A listing of many jobs with the same time shows each job that stays, although the last job of each page is deleted before the next " +
			"page.", nil,
		func(c *check) {
			const n = 14
			w := c.everyState()
			ids := make(map[broker.State][]string)
			outcomes := map[broker.State]broker.Outcome{broker.StateRetry: broker.Retry(time.Hour, failure("x")),
				broker.StateDead:      broker.Die(broker.ReasonRetries, failure("x")),
				broker.StateCompleted: broker.Complete(nil), broker.StateCancelled: broker.Cancel(failure("x"))}
			w.take("pending")
			for state, o := range outcomes {
				ids[state] = c.addMany(state.String()+"-", n)
				w.settle(o, refs(w.take(ids[state]...))...)
			}
			for i := range n {
				j := c.later(fmt.Sprint("scheduled-", i), time.Hour)
				c.accept(j)
				ids[broker.StateScheduled] = append(ids[broker.StateScheduled], j.ID)
			}
			for state, all := range ids {
				seen, gone := make(map[string]bool), 0
				c.pages(broker.Query{State: state, Limit: 3}, func(jobs []broker.Job) {
					for _, j := range jobs {
						seen[j.ID] = true
					}
					if len(jobs) > 0 {
						c.decide(broker.OpDelete, jobs[len(jobs)-1].ID)
						gone++
					}
				})
				for _, id := range all {
					c.that(seen[id],
						"%v job %s, which has the same time as others\ngot  not listed (the jobs deleted meanwhile: %d)\nwant it listed",
						state, id, gone)
				}
			}
		}},
}

// holdThousands registers worker w and has it claim thousands of jobs, half of them
// from each of two queues.
func (c *check) holdThousands() *worker {
	c.tb.Helper()
	w := c.worker("w", c.q, "other")
	c.deal(thousands, w.queues...)
	held := 0
	for held < thousands {
		got := len(w.claim(min(broker.MaxClaim, thousands-held)))
		c.that(got > 0, "claimed\ngot  %d jobs in all\nwant %d", held, thousands)
		held += got
	}
	return w
}

// heldBy lists what a worker holds in all its queues.
func (c *check) heldBy(w *worker) (jobs []broker.Job) {
	c.tb.Helper()
	for _, q := range w.queues {
		jobs = append(jobs, c.list(broker.Query{Queue: q, Worker: w.id, Limit: 1000})...)
	}
	return jobs
}
