package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// lease is how long a rule's workers hold their jobs without renewing.
const lease = 30 * time.Second

// worker is one run of a server, on a handle.
type worker struct {
	c      *check
	b      broker.Broker
	id     string
	queues []string
	number int64
}

// worker registers a worker on the first handle, for the rule's queue if none is
// named.
func (c *check) worker(id string, queues ...string) *worker {
	c.tb.Helper()
	return c.workerOn(c.b, id, queues...)
}

func (c *check) workerOn(b broker.Broker, id string, queues ...string) *worker {
	c.tb.Helper()
	if len(queues) == 0 {
		queues = []string{c.q}
	}
	w := &worker{c: c, b: b, id: id, queues: queues}
	if r := w.renewAs(lease, true); r.Lost {
		c.failf("registering worker %s\ngot  Lost\nwant it registered", id)
	}
	return w
}

func (w *worker) renewAs(lease time.Duration, register bool) broker.Renewed {
	w.c.tb.Helper()
	r, err := w.b.Renew(w.c.ctx, broker.RenewRequest{Now: w.c.now, Worker: w.id, Queues: w.queues, Lease: lease, Register: register})
	w.c.ok("Renew of "+w.id, err)
	return r
}

// renew extends the worker's leases.
func (w *worker) renew() broker.Renewed {
	w.c.tb.Helper()
	return w.renewAs(lease, false)
}

// request returns a claim of up to n jobs, from the worker's queues in order.
func (w *worker) request(n int) broker.ClaimRequest {
	req := broker.ClaimRequest{Now: w.c.now, Worker: w.id, Max: n}
	for _, q := range w.queues {
		req.Queues = append(req.Queues, broker.Share{Queue: q, Max: n})
	}
	return req
}

// claim claims until it has n jobs or no more are left.
func (w *worker) claim(n int) []broker.Job {
	w.c.tb.Helper()
	return w.gather("Claim", n, func(most int) (broker.Claimed, error) { return w.b.Claim(w.c.ctx, w.request(most)) })
}

// gather calls take until it has given n jobs, or none is left.
func (w *worker) gather(what string, n int, take func(most int) (broker.Claimed, error)) (jobs []broker.Job) {
	w.c.tb.Helper()
	for empty := 0; len(jobs) < n && empty < 10; {
		got, err := take(n - len(jobs))
		w.c.ok(what+" by "+w.id, err)
		w.c.claimed(w, got, n-len(jobs))
		jobs = append(jobs, got.Jobs...)
		if !got.More {
			break
		}
		if len(got.Jobs) == 0 {
			empty++
		}
	}
	return jobs
}

// claimed requires that a claim or reclaim gave at most most jobs, all leased to w.
func (c *check) claimed(w *worker, got broker.Claimed, most int) {
	c.tb.Helper()
	if len(got.Jobs) > most {
		c.failf("jobs given to %s\ngot  %d\nwant at most %d", w.id, len(got.Jobs), most)
	}
	for _, j := range got.Jobs {
		if j.State != broker.StateActive || j.Worker != w.id {
			c.failf("job %s given to %s\ngot  state %v of worker %q\nwant it active, of that worker", j.ID, w.id, j.State, j.Worker)
		}
	}
}

// take claims exactly these jobs, in this order.
func (w *worker) take(ids ...string) []broker.Job {
	w.c.tb.Helper()
	jobs := w.claim(len(ids))
	w.c.same("jobs claimed by "+w.id, idsOf(jobs), ids)
	return jobs
}

// one claims one job, which must have this ID.
func (w *worker) one(id string) *broker.Job {
	w.c.tb.Helper()
	return &w.take(id)[0]
}

// nothing requires that there is nothing to claim.
func (w *worker) nothing() {
	w.c.tb.Helper()
	w.c.same("jobs claimed by "+w.id, idsOf(w.claim(10)), []string{})
}

// try settles jobs with an outcome and returns the verdicts.
func (w *worker) try(o broker.Outcome, jobs ...*broker.Job) []broker.Verdict {
	w.c.tb.Helper()
	items := make([]broker.Settlement, len(jobs))
	for i, j := range jobs {
		items[i] = broker.Settlement{Job: j, Outcome: o}
	}
	return w.send(items...)
}

// send settles items under the worker's next number.
func (w *worker) send(items ...broker.Settlement) []broker.Verdict {
	w.c.tb.Helper()
	w.number++
	return w.sendAs(w.number, items...)
}

func (w *worker) sendAs(number int64, items ...broker.Settlement) []broker.Verdict {
	w.c.tb.Helper()
	verdicts, err := w.b.Settle(w.c.ctx, broker.SettleRequest{Now: w.c.now, Worker: w.id, Number: number, Items: items})
	w.c.ok("Settle by "+w.id, err)
	w.c.verdicts(items, verdicts)
	return verdicts
}

// verdicts requires one verdict for each item, in order.
func (c *check) verdicts(items []broker.Settlement, verdicts []broker.Verdict) {
	c.tb.Helper()
	c.same("number of verdicts", len(verdicts), len(items))
	for i, v := range verdicts {
		if v.ID != items[i].Job.ID || v.Queue != items[i].Job.Queue {
			c.failf("verdicts\ngot  one for %s/%s at position %d\nwant %s/%s: they are in the order of the request", v.Queue, v.ID, i,
				items[i].Job.Queue, items[i].Job.ID)
		}
	}
}

// settle settles jobs, each of which must be held.
func (w *worker) settle(o broker.Outcome, jobs ...*broker.Job) {
	w.c.tb.Helper()
	for _, v := range w.try(o, jobs...) {
		w.c.ok(o.Kind().String()+" of "+v.ID, v.Err)
	}
}

// settleEach settles each job with an outcome of its own, in one request.
func (w *worker) settleEach(jobs []broker.Job, outcomes ...broker.Outcome) []broker.Verdict {
	w.c.tb.Helper()
	items := make([]broker.Settlement, len(outcomes))
	for i, o := range outcomes {
		items[i] = broker.Settlement{Job: &jobs[i], Outcome: o}
	}
	return w.send(items...)
}

// lost settles jobs, none of which is held any more.
func (w *worker) lost(jobs ...*broker.Job) {
	w.c.tb.Helper()
	for _, v := range w.try(broker.Complete(nil), jobs...) {
		w.c.is("settle of "+v.ID+" by "+w.id, v.Err, broker.ErrLeaseLost)
	}
}

// retire ends the worker.
func (w *worker) retire() broker.Retired {
	w.c.tb.Helper()
	r, err := w.b.Retire(w.c.ctx, broker.RetireRequest{Now: w.c.now, Worker: w.id, Queues: w.queues})
	w.c.ok("Retire of "+w.id, err)
	return r
}

// reclaim takes over up to n jobs of workers whose leases ran out.
func (w *worker) reclaim(n int) []broker.Job {
	w.c.tb.Helper()
	return w.gather("Reclaim", n, func(most int) (broker.Claimed, error) {
		return w.b.Reclaim(w.c.ctx, broker.ReclaimRequest{Now: w.c.now, Worker: w.id, Queues: w.queues, Max: most})
	})
}

// runOut advances time until every lease has run out, except those of the live
// workers, which renew.
func (c *check) runOut(live ...*worker) {
	c.tb.Helper()
	c.pass(lease / 2)
	for _, w := range live {
		w.renew()
	}
	c.pass(lease/2 + time.Second)
}
