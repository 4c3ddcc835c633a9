package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// The steps that rules are written in: each is one call (or a short loop of
// calls, where the contract lets a backend do a part at a time) whose answer
// is checked for form.

// job is a plain job of the rule's queue; a rule changes what it is about.
func (c *check) job(id string) broker.NewJob {
	return broker.NewJob{Queue: c.q, ID: id, Body: broker.Body{
		Type: "work", Payload: []byte("payload of " + id), Priority: broker.PriorityNormal, MaxRetries: 3,
	}}
}

// uniqueJob is a job that holds a unique key.
func (c *check) uniqueJob(id, key string, mode broker.UniqueMode, ttl time.Duration) broker.NewJob {
	j := c.job(id)
	j.Body.Unique = broker.Unique{Key: key, Mode: mode, TTL: ttl}
	return j
}

// enqueue asks for jobs and returns a receipt for each.
func (c *check) enqueue(jobs ...broker.NewJob) []broker.Receipt {
	c.tb.Helper()
	receipts, err := c.b.Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: jobs})
	c.ok("Enqueue", err)
	c.same("number of receipts", len(receipts), len(jobs))
	return receipts
}

// accept enqueues jobs all of which must be accepted.
func (c *check) accept(jobs ...broker.NewJob) {
	c.tb.Helper()
	for i, r := range c.enqueue(jobs...) {
		c.ok("Enqueue of "+jobs[i].ID, r.Err)
	}
}

// refuse enqueues one job, which must be refused with this error.
func (c *check) refuse(job broker.NewJob, target error) broker.Receipt {
	c.tb.Helper()
	r := c.enqueue(job)[0]
	c.is("Enqueue of "+job.ID, r.Err, target)
	return r
}

// add enqueues plain jobs.
func (c *check) add(ids ...string) {
	c.tb.Helper()
	jobs := make([]broker.NewJob, len(ids))
	for i, id := range ids {
		jobs[i] = c.job(id)
	}
	c.accept(jobs...)
}

// find looks at one job of the rule's queue; nil when there is none.
func (c *check) find(id string) *broker.Job {
	c.tb.Helper()
	return c.findIn(c.q, id)
}

func (c *check) findIn(queue, id string) *broker.Job {
	c.tb.Helper()
	page, err := c.b.Find(c.ctx, broker.Query{Now: c.now, Queue: queue, IDs: []string{id}})
	c.ok("Find of "+id, err)
	switch {
	case len(page.Jobs) == 0:
		return nil
	case len(page.Jobs) > 1 || page.Jobs[0].ID != id || page.Jobs[0].Queue != queue:
		c.failf("Find of %s\ngot  %s\nwant that job alone", id, jobList(page.Jobs))
	}
	return &page.Jobs[0]
}

// must is find of a job that has to be there, in this state.
func (c *check) must(id string, state broker.State) *broker.Job {
	c.tb.Helper()
	j := c.find(id)
	if j == nil {
		c.failf("Find of %s\ngot  no job\nwant it %v", id, state)
	}
	if j.State != state {
		c.failf("state of %s\ngot  %v\nwant %v", id, j.State, state)
	}
	return j
}

// gone requires that no record of a job exists.
func (c *check) gone(id string) {
	c.tb.Helper()
	if j := c.find(id); j != nil {
		c.failf("Find of %s\ngot  %v\nwant no record", id, j.State)
	}
}

// list returns every job that matches, over all pages, each once.
func (c *check) list(q broker.Query) []broker.Job {
	c.tb.Helper()
	q.Now = c.now
	if q.Queue == "" {
		q.Queue = c.q
	}
	var jobs []broker.Job
	seen := make(map[string]bool)
	for range 1000 {
		page, err := c.b.Find(c.ctx, q)
		c.ok("Find", err)
		if limit := max(q.Limit, 1); q.Limit > 0 && len(page.Jobs) > limit {
			c.failf("jobs on one page\ngot  %d\nwant at most the limit of %d", len(page.Jobs), limit)
		}
		for _, j := range page.Jobs {
			if !seen[j.ID] {
				seen[j.ID] = true
				jobs = append(jobs, j)
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return jobs
		}
	}
	c.failf("listing %+v\ngot  a cursor after 1000 pages\nwant an end", q)
	return nil
}

// queue describes one queue, which must be known.
func (c *check) queue(name string) broker.QueueInfo {
	c.tb.Helper()
	reply, err := c.b.Queues(c.ctx, broker.QueuesRequest{Now: c.now, Names: []string{name}, Workers: true})
	c.ok("Queues", err)
	if len(reply.Queues) != 1 || reply.Queues[0].Name != name {
		c.failf("Queues(%s)\ngot  %d queues\nwant that one", name, len(reply.Queues))
	}
	return reply.Queues[0]
}

// operate applies a decision to jobs of the rule's queue, at whatever epoch.
func (c *check) operate(op broker.Operation, ids ...string) []broker.OperationResult {
	c.tb.Helper()
	op.Now = c.now
	for _, id := range ids {
		op.Refs = append(op.Refs, broker.Ref{Queue: c.q, ID: id, Epoch: broker.AnyEpoch})
	}
	results, err := c.b.Operate(c.ctx, op)
	c.ok("Operate "+op.Kind.String(), err)
	c.same("number of results", len(results), len(op.Refs))
	for i, r := range results {
		if r.Ref.Queue != op.Refs[i].Queue || r.Ref.ID != op.Refs[i].ID {
			c.failf("results of Operate\ngot  %v at place %d\nwant %v: they stand in the order of the request", r.Ref, i, op.Refs[i])
		}
	}
	return results
}

// decide is operate where every job must allow it.
func (c *check) decide(kind broker.OperationKind, ids ...string) {
	c.tb.Helper()
	for _, r := range c.operate(broker.Operation{Kind: kind}, ids...) {
		c.ok(kind.String()+" of "+r.Ref.ID, r.Err)
	}
}

// policy changes the policy of the rule's queue.
func (c *check) policy(change broker.PolicyRequest) broker.Policy {
	c.tb.Helper()
	if change.Queue == "" {
		change.Queue = c.q
	}
	p, err := c.b.Policy(c.ctx, change)
	c.ok("Policy", err)
	return p
}

func (c *check) pause(queue string, paused bool) {
	c.tb.Helper()
	c.policy(broker.PolicyRequest{Queue: queue, Paused: &paused})
}

// prune prunes until nothing is left to prune, and adds up.
func (c *check) prune() broker.Pruned {
	c.tb.Helper()
	var sum broker.Pruned
	for range 100 {
		p, err := c.b.Prune(c.ctx, broker.PruneRequest{Now: c.now, Queues: []string{c.q}, Max: 100})
		c.ok("Prune", err)
		sum.Completed, sum.Cancelled, sum.Dead = sum.Completed+p.Completed, sum.Cancelled+p.Cancelled, sum.Dead+p.Dead
		if !p.More {
			return sum
		}
	}
	c.failf("Prune\ngot  More after 100 calls\nwant an end")
	return sum
}

// mark sends a request for a mark.
func (c *check) mark(req broker.MarkRequest) broker.Marked {
	c.tb.Helper()
	req.Now = c.now
	m, err := c.b.Mark(c.ctx, req)
	c.ok("Mark", err)
	return m
}

// lease is how long a rule's workers hold their jobs without renewing.
const lease = 30 * time.Second

// worker is one run of a server process, on a handle.
type worker struct {
	c      *check
	b      broker.Broker
	id     string
	queues []string
	number int64
}

// worker registers a worker on the first handle, for the rule's queue when
// none is named.
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

// request is a claim of up to n jobs of each of the worker's queues in order.
func (w *worker) request(n int) broker.ClaimRequest {
	req := broker.ClaimRequest{Now: w.c.now, Worker: w.id, Max: n}
	for _, q := range w.queues {
		req.Queues = append(req.Queues, broker.Share{Queue: q, Max: n})
	}
	return req
}

// claim claims until it has n jobs or there are no more.
func (w *worker) claim(n int) []broker.Job {
	w.c.tb.Helper()
	var jobs []broker.Job
	for empty := 0; len(jobs) < n && empty < 10; {
		got, err := w.b.Claim(w.c.ctx, w.request(n-len(jobs)))
		w.c.ok("Claim by "+w.id, err)
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

// claimed requires that what a claim or a reclaim gave are leases of w.
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

// one claims one job, which must be this.
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
			c.failf("verdicts\ngot  one for %s/%s at place %d\nwant %s/%s: they stand in the order of the request", v.Queue, v.ID, i, items[i].Job.Queue, items[i].Job.ID)
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

// reclaim takes over up to n jobs of workers that ran out.
func (w *worker) reclaim(n int) []broker.Job {
	w.c.tb.Helper()
	var jobs []broker.Job
	for empty := 0; len(jobs) < n && empty < 10; {
		got, err := w.b.Reclaim(w.c.ctx, broker.ReclaimRequest{Now: w.c.now, Worker: w.id, Queues: w.queues, Max: n - len(jobs)})
		w.c.ok("Reclaim by "+w.id, err)
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

// runOut lets so much time pass that every lease has run out, except those of
// the workers named, which renew.
func (c *check) runOut(live ...*worker) {
	c.tb.Helper()
	c.pass(lease / 2)
	for _, w := range live {
		w.renew()
	}
	c.pass(lease/2 + time.Second)
}

func idsOf(jobs []broker.Job) []string {
	ids := make([]string, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	return ids
}

func refs(jobs []broker.Job) []*broker.Job {
	out := make([]*broker.Job, len(jobs))
	for i := range jobs {
		out[i] = &jobs[i]
	}
	return out
}

func failure(message string) broker.Failure { return broker.Failure{Message: message} }
