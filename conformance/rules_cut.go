package conformance

import (
	"bytes"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// More of the group Fault: answers that are cut, and calls whose context ends while
// the store is working on them.
var cutRules = []Rule{
	{"Fault/JobsBesideAnErrorAreLeased", "§14",
		"When the context of a claim or a reclaim ends while the store is at work, jobs come with the error only if they are leased.",
		nil, func(c *check) {
			const n = 10
			lives := 0
			c.addLarge(n, c.q, "other")
			f := faulty.Wrap(c.open(), nil)
			w, dead := c.workerOn(f, "w", c.q, "other"), c.worker("dead", c.q, "other")
			c.expiring(f, "Claim", func() {
				got, _ := f.Claim(c.ctx, w.request(n))
				c.leasedTo(w, got.Jobs)
			}, func() { c.releaseHeld(w) })
			c.expiring(f, "Reclaim", func() {
				got, _ := f.Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: "w", Queues: w.queues, Max: n})
				c.leasedTo(w, got.Jobs)
			}, func() {
				c.releaseHeld(w)
				dead.retire()
				dead = c.workerOn(c.b, fmt.Sprint("dead", lives), c.q, "other")
				lives++
				dead.claim(n)
				c.runOut(w)
			})
			dead.retire()
			c.drain(w, 2*n)
		}},
	{"Fault/TimedOutEnqueueTellsTheTruth", "§2",
		"When the context of an enqueue ends while the store is at work, no receipt says what is not true, and a repeat makes no second job.",
		nil, func(c *check) {
			f := faulty.Wrap(c.open(), nil)
			w := c.worker("w", c.q, "other")
			n := 0
			absent := make(map[broker.Ref]error)
			c.expiring(f, "Enqueue", func() {
				var jobs []broker.NewJob
				for k := range 6 {
					j := c.jobIn([]string{c.q, "other"}[k%2], fmt.Sprint("j", n))
					if k%3 == 0 && !c.limits.NoUnique {
						j.Body.Unique = broker.Unique{Key: j.ID, Mode: untilDone}
					}
					j.Body.GivenID = k > 3
					jobs = append(jobs, j)
					n++
				}
				receipts, err := f.Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: jobs})
				var again []broker.NewJob
				for i, j := range jobs {
					e := err
					if i < len(receipts) && err == nil {
						e = receipts[i].Err
					}
					switch {
					case e == nil:
						c.that(c.findIn(j.Queue, j.ID) != nil, "job %s, whose enqueue was answered with nil\ngot  no job\nwant it", j.ID)
					case broker.MayHaveApplied(e):
						again = append(again, j)
					default:
						absent[broker.Ref{Queue: j.Queue, ID: j.ID}] = e
					}
				}
				if len(again) > 0 {
					for _, r := range c.enqueue(again...) {
						if r.Err != nil {
							c.is("repeated enqueue of "+r.ID, r.Err, broker.ErrDuplicate)
							c.same("holder of "+r.ID, r.Holder, r.ID)
						}
					}
				}
			}, func() {})
			for ref, e := range absent {
				c.that(c.findIn(ref.Queue, ref.ID) == nil,
					"job %s, whose enqueue was answered with %q, which means not applied\ngot  the job\nwant none", ref.ID, e)
			}
			c.drain(w, n-len(absent))
		}},
	{"Fault/TimedOutSettleChargesOnce", "§10",
		"When the context of a settle ends while the store is at work, its repeat gets every verdict, and each outcome is charged once.", nil,
		func(c *check) {
			c.addLarge(3, c.q, "other")
			f := faulty.Wrap(c.open(), nil)
			w := c.workerOn(f, "w", c.q, "other")
			charged := 0
			c.expiring(f, "Settle", func() {
				var held []broker.Job
				c.eventually("claiming 6 jobs", func() error { // the call that timed out may still be in progress
					if held = append(held, w.claim(6-len(held))...); len(held) < 6 {
						return fmt.Errorf("%d are claimed: %w", len(held), errNotYet)
					}
					return nil
				})
				var items []broker.Settlement
				for i := range held {
					c.same("failures of "+held[i].ID, held[i].Failures, charged)
					items = append(items, broker.Settlement{Job: &held[i], Outcome: broker.Retry(0, failure("x"))})
				}
				w.number++
				req := broker.SettleRequest{Now: c.now, Worker: w.id, Number: w.number, Items: items}
				first, err := f.Settle(c.ctx, req)
				for _, v := range first {
					if err == nil && v.Err == nil {
						c.same("verdict on "+v.ID, v.State, broker.StatePending)
					}
				}
				verdicts, err := c.b.Settle(c.ctx, req)
				c.ok("the repeated settle", err)
				for _, v := range verdicts {
					c.ok("the repeated settle of "+v.ID, v.Err)
					c.same("verdict on "+v.ID, v.State, broker.StatePending)
				}
				charged++
			}, func() {})
			f.Set(nil)
			c.drain(w, 6)
		}},
	{"Fault/HalfAnAnswerLosesNothing", "§7",
		"A caller that lost half of an answer asks again: it repeats an enqueue or a settle, and finds a claim by what its worker holds.", nil,
		func(c *check) {
			f := faulty.Wrap(c.open(), faulty.Plan{{Method: "Enqueue", Call: 1, Fault: faulty.ReplyCut}, {Method: "Claim", Call: 1,
				Fault: faulty.ReplyCut},
				{Method: "Settle", Call: 1, Fault: faulty.ReplyCut}, {Method: "Operate", Call: 1, Fault: faulty.ReplyCut}})
			jobs := []broker.NewJob{c.job("a"), c.job("b"), c.job("c"), c.job("d")}
			req := broker.EnqueueRequest{Now: c.now, Jobs: jobs}
			receipts, err := f.Enqueue(c.ctx, req)
			c.ok("Enqueue", err)
			for i, r := range receipts {
				c.that((r.Err == nil) == (i < 2), "receipt %d of an answer that was cut\ngot  error %v\nwant the first half known", i, r.Err)
			}
			for _, r := range c.enqueue(jobs[2:]...) {
				c.is("repeated enqueue", r.Err, broker.ErrDuplicate)
				c.same("holder", r.Holder, r.ID)
			}
			w := c.workerOn(f, "w")
			got, err := f.Claim(c.ctx, w.request(4))
			c.is("Claim", err, faulty.ErrReplyLost)
			c.leasedTo(w, got.Jobs)
			held := c.list(broker.Query{Worker: "w"})
			c.same("held", w.renew().Held[c.q], len(held))
			held = append(held, w.claim(4-len(held))...) // a claim may give less than Max
			c.same("leased in all", sorted(idsOf(held)), []string{"a", "b", "c", "d"})
			var items []broker.Settlement
			for i := range held {
				items = append(items, broker.Settlement{Job: &held[i], Outcome: broker.Complete(nil)})
			}
			w.number++
			_, err = f.Settle(c.ctx, broker.SettleRequest{Now: c.now, Worker: "w", Number: w.number, Items: items})
			c.ok("Settle", err)
			for _, v := range w.sendAs(w.number, items...) {
				c.ok("repeated settle of "+v.ID, v.Err)
			}
			c.nothingLeft()
		}},
}

// expiring makes calls of a method whose contexts end at various moments, from before
// the store has seen the call until after its answer. before prepares each call. It
// repeats for the time of stressing.
func (c *check) expiring(f *faulty.Broker, method string, call, before func()) {
	c.tb.Helper()
	const rounds = 16
	f.Set(nil)
	took := time.Millisecond // at least; calls of a store in memory end sooner
	for range 2 {
		before()
		start := time.Now()
		call()
		took = max(took, time.Since(start))
	}
	end := time.Now().Add(stressing)
	for i := 0; i < rounds || time.Now().Before(end); i++ {
		before()
		f.Set(faulty.Plan{{Method: method, Fault: faulty.Expire(took * time.Duration(i%rounds+1) / (rounds - 4))}})
		call()
		f.Set(nil)
	}
	before()
}

// addLarge enqueues n jobs in each of the queues, so large that an answer may arrive
// in several pieces.
func (c *check) addLarge(n int, queues ...string) {
	c.tb.Helper()
	size := 10_000
	if c.limits.MaxPayload > 0 {
		size = min(size, c.limits.MaxPayload)
	}
	var jobs []broker.NewJob
	for i := range n {
		for _, q := range queues {
			j := c.job(fmt.Sprint("j", i))
			j.Queue, j.Body.Payload = q, bytes.Repeat([]byte("x"), size)
			jobs = append(jobs, j)
		}
	}
	c.accept(jobs...)
}

// releaseHeld releases the jobs that a worker holds.
func (c *check) releaseHeld(w *worker) {
	c.tb.Helper()
	for _, q := range w.queues {
		if held := c.list(broker.Query{Queue: q, Worker: w.id}); len(held) > 0 {
			w.try(broker.Release(), refs(held)...)
		}
	}
}

// leasedTo requires that jobs are active under these leases.
func (c *check) leasedTo(w *worker, jobs []broker.Job) {
	c.tb.Helper()
	for _, j := range jobs {
		stored := c.findIn(j.Queue, j.ID)
		c.that(stored != nil && stored.State == broker.StateActive && stored.Worker == w.id && stored.Epoch == j.Epoch,
			"job %s, which a call that failed gave\ngot  %s\nwant it leased to %s at epoch %d", j.ID, show(stored), w.id, j.Epoch)
	}
}

// drain claims and completes jobs until it has completed n. Calls that timed out may
// still take effect and lease jobs to the worker, so it first releases what the worker holds.
func (c *check) drain(w *worker, n int) {
	c.tb.Helper()
	done := 0
	c.eventually(fmt.Sprintf("completing %d jobs", n), func() error {
		c.releaseHeld(w)
		jobs := w.claim(n)
		if len(jobs) > 0 {
			w.settle(broker.Complete(nil), refs(jobs)...)
		}
		if done += len(jobs); done < n {
			return fmt.Errorf("%d are done: %w", done, errNotYet)
		}
		return nil
	})
	c.same("jobs completed", done, n)
}

// nothingLeft requires that the rule's queue has no job.
func (c *check) nothingLeft() {
	c.tb.Helper()
	for _, state := range broker.States() {
		c.same(fmt.Sprintf("%v jobs", state), idsOf(c.list(broker.Query{State: state})), []string{})
	}
}
