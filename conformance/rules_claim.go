package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var claimRules = []Rule{
	{"Claim/LeasesToItsWorker", "§6", "A claimed job is active, under a lease of the worker that asked, at the epoch it had.", nil,
		func(c *check) {
			c.add("a")
			created := c.up(c.now)
			c.pass(time.Second)
			got := *c.worker("w").one("a")
			want := broker.Job{Queue: c.q, ID: "a", Body: c.job("a").Body, State: broker.StateActive, CreatedAt: created, Worker: "w"}
			c.same("the claimed job", got, want)
			c.same("the job as another client finds it", *c.must("a", broker.StateActive), want)
		}},
	{"Claim/GivesAJobOnce", "§26", "A claimed job is given to no other worker, on any handle.", nil, func(c *check) {
		other := c.open()
		c.add("a", "b", "c", "d", "e")
		one, two := c.worker("w1"), c.workerOn(other, "w2")
		one.take("a", "b")
		two.take("c")
		one.take("d")
		two.take("e")
		one.nothing()
		two.nothing()
	}},
	{"Claim/GivesAtMostMax", "§14", "A claim gives at most Max jobs, and from each share at most the share's Max.", nil, func(c *check) {
		c.deal(12, c.q, "other")
		w := c.worker("w", c.q, "other")
		for _, want := range []struct{ max, first, second int }{{3, 2, 5}, {2, 5, 5}, {5, 1, 1}, {0, 1, 1}} {
			got, err := c.b.Claim(c.ctx, broker.ClaimRequest{Now: c.now, Worker: "w", Max: want.max,
				Queues: []broker.Share{{Queue: c.q, Max: want.first}, {Queue: "other", Max: want.second}}})
			c.ok("Claim", err)
			c.claimed(w, got, want.max)
			n := map[string]int{}
			for _, j := range got.Jobs {
				n[j.Queue]++
			}
			c.that(n[c.q] <= want.first && n["other"] <= want.second, "claim of at most %+v\ngot  %v\nwant no share exceeded", want, n)
		}

		// Jobs that fall due, which the store may have known before.
		for _, id := range numbered("late", 4) {
			j := c.later(id, time.Minute)
			j.Queue = "due"
			c.accept(j)
		}
		w = c.worker("w", "due")
		w.nothing()
		c.pass(2 * time.Minute)
		for _, most := range []int{1, 2} {
			got, err := c.b.Claim(c.ctx, broker.ClaimRequest{Now: c.now, Worker: "w", Max: 9, Queues: []broker.Share{{Queue: "due",
				Max: most}}})
			c.ok("Claim", err)
			c.same("due jobs in a share", len(got.Jobs), most)
		}
	}},
	{"Claim/ServesSharesInOrder", "§14", "Shares are served in order, and a queue may appear several times.", nil, func(c *check) {
		for i := range 4 {
			for _, q := range []string{c.q, "other"} {
				c.accept(c.jobIn(q, fmt.Sprint(q, i)))
			}
		}
		w := c.worker("w", c.q, "other")
		shares := []broker.Share{{Queue: "other", Max: 1}, {Queue: c.q, Max: 2}, {Queue: "other", Max: 5}}
		c.same("claimed", c.claimShares(w, 6, shares), []string{"other0", "q0", "q1", "other1", "other2", "other3"})
		c.same("claimed", c.claimShares(w, 6, shares), []string{"q2", "q3"})
	}},
	{"Claim/EmptyIsEmpty", "§14", "A claim of queues without claimable jobs gives nothing and no error.", nil, func(c *check) {
		w := c.worker("w", c.q, "never used")
		got := ask(c, "Claim", c.b.Claim, w.request(5))
		c.same("jobs", len(got.Jobs), 0)
		c.that(got.NextDue.IsZero(), "NextDue\ngot  %v\nwant none", got.NextDue)
		c.same("Now", got.Now, c.now)
	}},
	{"Claim/SaysWhatIsLeft", "§14", "A claim that leaves claimable jobs says More.", nil, func(c *check) {
		c.add("a", "b", "c")
		w := c.worker("w")
		got := ask(c, "Claim", c.b.Claim, w.request(1))
		c.that(got.More, "More\ngot  false after %s\nwant true: jobs are left", jobList(got.Jobs))
		c.same("the rest", len(got.Jobs)+len(w.claim(3-len(got.Jobs))), 3)
	}},
	{"Claim/SaysWhenTheNextIsDue", "§17", "NextDue is the earliest due time of the scheduled and retry jobs of the queues asked.", nil,
		func(c *check) {
			w := c.worker("w", c.q, "other")
			late, early := c.job("late"), c.job("early")
			late.Delay, early.Delay, early.Queue = time.Hour, time.Minute, "other"
			c.accept(late, early, c.job("now"))
			got := ask(c, "Claim", c.b.Claim, w.request(5))
			c.same("NextDue", got.NextDue, c.up(c.now.Add(time.Minute)))
			w.settle(broker.Retry(time.Second, failure("once")), refs(got.Jobs)...)
			got = ask(c, "Claim", c.b.Claim, w.request(5))
			c.same("NextDue with a retry", got.NextDue, c.up(c.now.Add(time.Second)))
			got = ask(c, "Claim", c.b.Claim, broker.ClaimRequest{Now: c.now, Worker: "w", Max: 5,
				Queues: []broker.Share{{Queue: "other", Max: 5}}})
			c.same("NextDue of one queue", got.NextDue, c.up(c.now.Add(time.Minute)))
		}},
	{"Claim/SettlesFirst", "§10", "A claim settles what it carries before it claims, and its verdicts answer that.", nil, func(c *check) {
		c.add("a", "b")
		w := c.worker("w")
		held := w.take("a", "b")
		req := w.request(5)
		req.Settle = broker.SettleRequest{Now: c.now, Worker: "w", Number: 1, Items: []broker.Settlement{
			{Job: &held[0], Outcome: broker.Release()}, {Job: &held[1], Outcome: broker.Complete(nil)}}}
		got := ask(c, "Claim", c.b.Claim, req)
		c.ok("its settle", got.SettleErr)
		c.verdicts(req.Settle.Items, got.Verdicts)
		c.that(len(got.Jobs) > 0 || got.More, "claimed\ngot  nothing, and no More\nwant the job that it released")
		c.same("claimed after the settle", append(idsOf(got.Jobs), idsOf(w.claim(1-len(got.Jobs)))...), []string{"a"})
		c.gone("b")
	}},
	{"Claim/RepeatedSettleIsNotRepeated", "§10",
		"A claim that repeats the number of a settle gives the same verdicts as the first time, and still claims.", nil, func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			a := w.one("a")
			w.settle(broker.Release(), a)
			again := w.one("a")
			req := w.request(5)
			req.Settle = broker.SettleRequest{Now: c.now, Worker: "w", Number: 1,
				Items: []broker.Settlement{{Job: again, Outcome: broker.Complete(nil)}}}
			got := ask(c, "Claim", c.b.Claim, req)
			c.same("verdicts", got.Verdicts, []broker.Verdict{{Queue: c.q, ID: "a", State: broker.StatePending}})
			c.same("claimed", append(idsOf(got.Jobs), idsOf(w.claim(1-len(got.Jobs)))...), []string{"b"})
			c.must("a", broker.StateActive)
		}},
	{"Claim/UnknownWorkerGetsNothing", "§6", "A worker that is not registered in the queue gets ErrWorkerGone and no lease.", nil,
		func(c *check) {
			c.add("a")
			w := &worker{c: c, b: c.b, id: "nobody", queues: []string{c.q}}
			got, err := c.b.Claim(c.ctx, w.request(5))
			c.is("Claim", err, broker.ErrWorkerGone)
			c.same("jobs", len(got.Jobs), 0)
			c.must("a", broker.StatePending)
		}},
	{"Claim/FailingQueueWithholdsNothing", "§14", "A claim gives the jobs of one queue beside the error of another.", nil, func(c *check) {
		c.accept(c.job("a"), c.jobIn("other", "b"))
		w := c.worker("w")
		for _, order := range [][]broker.Share{{{Queue: c.q, Max: 5}, {Queue: "other", Max: 5}},
			{{Queue: "other", Max: 5}, {Queue: c.q, Max: 5}}} {
			got, err := c.claimSome(broker.ClaimRequest{Now: c.now, Worker: "w", Max: 5, Queues: order})
			c.is("Claim of a queue the worker is unknown in", err, broker.ErrWorkerGone)
			c.same("jobs of the queue it is known in", idsOf(got.Jobs), []string{"a"})
			w.settle(broker.Release(), refs(got.Jobs)...)
		}
		c.that(c.findIn("other", "b").State == broker.StatePending, "job of the failing queue\ngot  claimed\nwant it pending")
	}},
	{"Claim/SettleSurvivesAFailingClaim", "§10", "The outcomes that a claim carries are settled although the claim is refused.", nil,
		func(c *check) {
			c.add("a", "b")
			w, reclaimer := c.worker("w"), c.worker("reclaimer")
			held := w.take("a", "b")
			c.runOut(reclaimer)
			taken := reclaimer.reclaim(1)
			c.same("reclaimed", len(taken), 1)
			rest := &held[0]
			if taken[0].ID == rest.ID {
				rest = &held[1]
			}
			req := w.request(5)
			req.Settle = broker.SettleRequest{Now: c.now, Worker: "w", Number: 1,
				Items: []broker.Settlement{{Job: rest, Outcome: broker.Complete(nil)}}}
			got, err := c.b.Claim(c.ctx, req)
			c.is("Claim of an ended worker", err, broker.ErrWorkerGone)
			c.ok("its settle", got.SettleErr)
			c.same("verdicts", got.Verdicts, []broker.Verdict{{Queue: c.q, ID: rest.ID, State: broker.StateCompleted}})
			c.gone(rest.ID)
		}},
	{"Claim/RefusesWhatIsInvalid", "§14", "A claim outside the limits is refused with ErrInvalid and leases nothing.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		job := &broker.Job{Queue: c.q, ID: "a"}
		for name, change := range map[string]func(*broker.ClaimRequest){
			"too many":           func(r *broker.ClaimRequest) { r.Max = broker.MaxClaim + 1 },
			"fewer than none":    func(r *broker.ClaimRequest) { r.Max = -1 },
			"bytes below none":   func(r *broker.ClaimRequest) { r.Bytes = -1 },
			"no worker":          func(r *broker.ClaimRequest) { r.Worker = "" },
			"brace in a queue":   func(r *broker.ClaimRequest) { r.Queues[0].Queue = "{q}" },
			"wait with outcomes": func(r *broker.ClaimRequest) { r.Wait = 1; r.Settle = settleOf("w", job) },
			"another's outcomes": func(r *broker.ClaimRequest) { r.Settle = settleOf("v", job) },
		} {
			req := w.request(5)
			change(&req)
			got, err := c.b.Claim(c.ctx, req)
			if !errors.Is(err, broker.ErrInvalid) && !errors.Is(got.SettleErr, broker.ErrInvalid) {
				c.failf("claim with %s\ngot  error %v\nwant %v", name, err, broker.ErrInvalid)
			}
			c.same("jobs", len(got.Jobs), 0)
		}
		c.must("a", broker.StatePending)
	}},
	{"Claim/VirtualTimeNeverWaits", "§15", "A request with Now never waits.", nil, func(c *check) {
		w := c.worker("w")
		req := w.request(1)
		req.Wait = broker.MaxWait // longer than the rule may take
		got := ask(c, "Claim", c.b.Claim, req)
		c.same("jobs", len(got.Jobs), 0)
	}},
	{"Claim/DiscardsManyVoidEntries", "§3",
		"However many pending jobs were deleted or cancelled, the next claims find the jobs behind them.", nil, func(c *check) {
			ids := numbered("void", 900)
			c.add(append(ids, "behind")...)
			c.decide(broker.OpDelete, ids[:450]...)
			c.decide(broker.OpCancel, ids[450:]...)
			c.worker("w").take("behind")
		}},
}

// claimSome claims until it gets a job, or no more are left.
func (c *check) claimSome(req broker.ClaimRequest) (got broker.Claimed, err error) {
	for range 10 {
		if got, err = c.b.Claim(c.ctx, req); len(got.Jobs) > 0 || !got.More {
			break
		}
	}
	return got, err
}

func settleOf(worker string, job *broker.Job) broker.SettleRequest {
	return broker.SettleRequest{Worker: worker, Number: 1, Items: []broker.Settlement{{Job: job, Outcome: broker.Complete(nil)}}}
}

// claimShares claims with these shares until it has n jobs or no more are left. If
// the backend gives only a part of them, it asks for the rest of each share.
func (c *check) claimShares(w *worker, n int, shares []broker.Share) []string {
	c.tb.Helper()
	left := slices.Clone(shares)
	return idsOf(w.gather("Claim", n, func(most int) (broker.Claimed, error) {
		got, err := w.b.Claim(c.ctx, broker.ClaimRequest{Now: c.now, Worker: w.id, Max: most, Queues: left})
		for _, j := range got.Jobs {
			i := slices.IndexFunc(left, func(s broker.Share) bool { return s.Queue == j.Queue && s.Max > 0 })
			c.that(i >= 0, "claim of %+v\ngot  %s, of %s\nwant no share exceeded", shares, j.ID, j.Queue)
			left[i].Max--
		}
		return got, err
	}))
}
