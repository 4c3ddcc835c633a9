package conformance

import (
	"errors"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules are written in the steps below. Each makes one call, or a short loop of
// calls where the contract lets a backend do a part at a time, and checks that the
// answer is well formed.

// job returns a job of the rule's queue, without options that a rule can add.
func (c *check) job(id string) broker.NewJob {
	return broker.NewJob{Queue: c.q, ID: id, Body: broker.Body{
		Type: "work", Payload: []byte("payload of " + id), Priority: broker.PriorityNormal, MaxRetries: 3,
	}}
}

// jobIn returns a job of another queue.
func (c *check) jobIn(queue, id string) broker.NewJob {
	j := c.job(id)
	j.Queue = queue
	return j
}

// later returns a job that falls due after a delay.
func (c *check) later(id string, delay time.Duration) broker.NewJob {
	j := c.job(id)
	j.Delay = delay
	return j
}

// uniqueJob returns a job with a unique key.
func (c *check) uniqueJob(id, key string, mode broker.UniqueMode, ttl time.Duration) broker.NewJob {
	j := c.job(id)
	j.Body.Unique = broker.Unique{Key: key, Mode: mode, TTL: ttl}
	return j
}

// enqueue sends jobs and returns a receipt for each.
func (c *check) enqueue(jobs ...broker.NewJob) []broker.Receipt {
	c.tb.Helper()
	receipts, err := c.b.Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: jobs})
	c.ok("Enqueue", err)
	c.same("number of receipts", len(receipts), len(jobs))
	return receipts
}

// late enqueues jobs as a first send that reaches the store after its own repeat.
func (c *check) late(jobs ...broker.NewJob) []broker.Receipt {
	c.tb.Helper()
	c.calls.setLate(true)
	defer c.calls.setLate(false)
	return c.enqueue(jobs...)
}

// accept enqueues jobs, all of which must be accepted.
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

// deal enqueues n jobs in one request, in turn into these queues, and returns their IDs.
func (c *check) deal(n int, queues ...string) []string {
	c.tb.Helper()
	ids, jobs := numbered("j", n), make([]broker.NewJob, n)
	for i, id := range ids {
		jobs[i] = c.jobIn(queues[i%len(queues)], id)
	}
	c.accept(jobs...)
	return ids
}

// errs requires the errors of receipts; nil means accepted.
func (c *check) errs(receipts []broker.Receipt, want ...error) {
	c.tb.Helper()
	for i, r := range receipts {
		c.that(errors.Is(r.Err, want[i]), "error of receipt %d, of %s\ngot  %v\nwant %v", i, r.ID, r.Err, want[i])
	}
}

// add enqueues jobs without options.
func (c *check) add(ids ...string) {
	c.tb.Helper()
	jobs := make([]broker.NewJob, len(ids))
	for i, id := range ids {
		jobs[i] = c.job(id)
	}
	c.accept(jobs...)
}

// find returns one job of the rule's queue, or nil if there is none.
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
		c.failf("Find of %s\ngot  %s\nwant only that job", id, jobList(page.Jobs))
	}
	return &page.Jobs[0]
}

// must returns a job, which has to exist in this state.
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
	if j := c.find(id); j != nil && !c.keeps(j) {
		c.failf("Find of %s\ngot  %v\nwant no record", id, j.State)
	}
}

// list returns every matching job once, over all pages.
func (c *check) list(q broker.Query) []broker.Job {
	c.tb.Helper()
	var jobs []broker.Job
	seen := make(map[string]bool)
	c.pages(q, func(page []broker.Job) {
		for _, j := range page {
			if !seen[j.ID] {
				seen[j.ID] = true
				jobs = append(jobs, j)
			}
		}
	})
	return jobs
}

// pages calls each with the jobs of every page.
func (c *check) pages(q broker.Query, each func(jobs []broker.Job)) {
	c.tb.Helper()
	q.Now = c.now
	if q.Queue == "" {
		q.Queue = c.q
	}
	for range 1000 {
		page := ask(c, "Find", c.b.Find, q)
		c.that(q.Limit == 0 || len(page.Jobs) <= q.Limit, "jobs on one page\ngot  %d\nwant at most the limit of %d", len(page.Jobs), q.Limit)
		each(page.Jobs)
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return
		}
	}
	c.failf("listing %+v\ngot  a cursor after 1000 pages\nwant an end", q)
}

// queue returns the description of a queue, which must be known.
func (c *check) queue(name string) broker.QueueInfo {
	c.tb.Helper()
	reply := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{Now: c.now, Names: []string{name}, Workers: true})
	if len(reply.Queues) != 1 || reply.Queues[0].Name != name {
		c.failf("Queues(%s)\ngot  %d queues\nwant that one", name, len(reply.Queues))
	}
	return reply.Queues[0]
}

// ref names a job of the rule's queue, at any epoch.
func (c *check) ref(id string) broker.Ref {
	return broker.Ref{Queue: c.q, ID: id, Epoch: broker.AnyEpoch}
}

// operate applies an operation to jobs of the rule's queue, at any epoch.
func (c *check) operate(op broker.Operation, ids ...string) []broker.OperationResult {
	c.tb.Helper()
	op.Now = c.now
	for _, id := range ids {
		op.Refs = append(op.Refs, c.ref(id))
	}
	results, err := c.b.Operate(c.ctx, op)
	c.ok("Operate "+op.Kind.String(), err)
	c.same("number of results", len(results), len(op.Refs))
	for i, r := range results {
		if r.Ref.Queue != op.Refs[i].Queue || r.Ref.ID != op.Refs[i].ID {
			c.failf("results of Operate\ngot  %v at position %d\nwant %v: they are in the order of the request", r.Ref, i, op.Refs[i])
		}
	}
	return results
}

// decide applies an operation that every job must allow.
func (c *check) decide(kind broker.OperationKind, ids ...string) {
	c.tb.Helper()
	for _, r := range c.operate(broker.Operation{Kind: kind}, ids...) {
		c.ok(kind.String()+" of "+r.Ref.ID, r.Err)
	}
}

// reschedule moves the time of a job, which must be allowed.
func (c *check) reschedule(delay time.Duration, id string) {
	c.tb.Helper()
	c.ok("reschedule of "+id, c.operate(broker.Operation{Kind: broker.OpReschedule, Delay: delay}, id)[0].Err)
}

// removeQueue removes a queue, or returns why it is not removed.
func (c *check) removeQueue(name string) error {
	c.tb.Helper()
	return c.operate(broker.Operation{Kind: broker.OpRemoveQueue, Refs: []broker.Ref{{Queue: name}}})[0].Err
}

// policy changes the policy of the rule's queue.
func (c *check) policy(change broker.PolicyRequest) broker.Policy {
	c.tb.Helper()
	if change.Queue == "" {
		change.Queue = c.q
	}
	return ask(c, "Policy", c.b.Policy, change)
}

func (c *check) pause(queue string, paused bool) {
	c.tb.Helper()
	c.policy(broker.PolicyRequest{Queue: queue, Paused: &paused})
}

// prune prunes until nothing is left, and returns the sums.
func (c *check) prune() broker.Pruned {
	c.tb.Helper()
	var sum broker.Pruned
	for range 100 {
		p := ask(c, "Prune", c.b.Prune, broker.PruneRequest{Now: c.now, Queues: []string{c.q}, Max: 100})
		sum.Completed, sum.Cancelled, sum.Dead = sum.Completed+p.Completed, sum.Cancelled+p.Cancelled, sum.Dead+p.Dead
		sum.Other += p.Other
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
	return ask(c, "Mark", c.b.Mark, req)
}

// readMark reads a mark.
func (c *check) readMark(name string) broker.Marked {
	c.tb.Helper()
	return c.mark(broker.MarkRequest{Action: broker.MarkRead, Name: name})
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
