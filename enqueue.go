package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// JobInfo says how a task was stored.
type JobInfo struct {
	ID    string
	Queue string
	State State // pending or scheduled; waiting if it runs after another job (Behind)
	// RunAt is when a scheduled job is due, otherwise zero. If the store's
	// answer was lost and a repetition found the job stored, State and RunAt are
	// estimates by this process's clock.
	RunAt time.Time
	// Replaced says that no job was added: the job with this ID, which held the
	// unique key and had not started, got the payload. See WithUniqueReplace.
	Replaced bool
	// Behind is the ID of the running job that this one waits for, or "". See
	// WithUniqueKeepLast.
	Behind string
}

// Receipt answers one task of EnqueueMany as Enqueue would.
type Receipt struct {
	JobInfo
	Err error
}

// Outgoing is a job on its way to the store, as enqueue middleware sees it.
// Before it calls next, a middleware may change any field of NewJob, which is
// a private copy. It may replace the payload, but must not edit its bytes. If
// it changes the ID, it must also set Body.GivenID. After next has returned,
// Info and Err are the answer, and nothing may be changed.
type Outgoing struct {
	broker.NewJob
	Info JobInfo
	Err  error // a middleware that sets it before next refuses the job: it is not stored

	client      *Client
	chain       *taskChain  // of the task's definition, or nil
	inner       EnqueueFunc // called after chain
	position    int         // in the batch that the client's chain passed on; used with chains of definitions
	config      enqueueConfig
	generatedID string // the ID that this client generated; "" with WithID
	unclear     error  // of an attempt that may have stored the job
}

// SetHeader sets a header of the job. A later value replaces an earlier one.
func (o *Outgoing) SetHeader(key, value string) { setHeader(&o.NewJob, key, value) }

// fill makes o the job that task and the options describe.
func (o *Outgoing) fill(c *Client, task *Task, call []Option) error {
	o.client = c
	if task == nil {
		return errNoTask
	}
	o.chain = task.chain
	o.config.describe(&o.NewJob, task, c.cfg.Defaults, call)
	if !o.Body.GivenID {
		o.FirstSend = true
		o.generatedID = c.ids.next(time.Now())
		o.ID = o.generatedID
	}
	return o.config.finish()
}

// Draft returns the job that Enqueue would store for the task and the options. It
// is for packages that keep a task and enqueue it later. The defaults and the
// middleware of a client are not applied, and the job has an ID only with WithID.
// The job shares the task's payload. The error names the option that is outside its
// limits. Limits of a store are not checked; broker.NewJob.Check does that. A task
// with middleware of Definition.EnqueueWith is refused: the job would be enqueued
// without it.
func (t *Task) Draft(opts ...Option) (broker.NewJob, error) {
	var job broker.NewJob
	if t == nil {
		return job, errNoTask
	}
	if t.chain != nil {
		return job, errChained
	}
	var c enqueueConfig
	c.describe(&job, t, nil, opts)
	return job, cmp.Or(c.finish(), c.complete(&job))
}

// Draft returns the job that Enqueue would store for the task, the options and the
// client's defaults; see Task.Draft. The middleware of the client and of the task's
// definition is not applied.
func (c *Client) Draft(task *Task, opts ...Option) (broker.NewJob, error) {
	var job broker.NewJob
	if c == nil {
		return job, errNoBroker
	}
	if task == nil {
		return job, errNoTask
	}
	var config enqueueConfig
	config.describe(&job, task, c.cfg.Defaults, opts)
	return job, cmp.Or(config.finish(), config.complete(&job))
}

var (
	errNoTask  = broker.Invalid("task", "is nil; make one with NewTask")
	errChained = broker.Invalid("middleware", "belongs to the task's definition (EnqueueWith), and would not run when the job is "+
		"enqueued; use ClientConfig.Middleware of the client that enqueues it, and a definition without EnqueueWith")
)

// describe fills job from a task and the options, in the order of their precedence.
func (c *enqueueConfig) describe(job *broker.NewJob, task *Task, defaults, call []Option) {
	c.job, job.Queue = job, DefaultQueue
	b := &job.Body
	b.Type, b.Payload = task.typ, task.payload
	b.MaxRetries, b.Priority = broker.DefaultMaxRetries, PriorityNormal
	for _, options := range [...][]Option{defaults, task.options, call} {
		for _, option := range options {
			if option != nil {
				option.apply(c)
			}
		}
	}
	if b.Priority == 0 {
		b.Priority = PriorityNormal
	}
}

// finish derives the unique key and sets the delay of a debounce, before enqueue middleware
// sees the job.
func (c *enqueueConfig) finish() error {
	if c.noKey && !c.keySet {
		WithoutUnique().apply(c)
	}
	if c.job.Body.Unique.Conflict == broker.ConflictDebounce {
		c.job.Delay, c.job.RunAt = c.quiet, time.Time{}
	}
	if !c.job.RunAt.After(time.Unix(0, 0)) { // in the past by every clock; stores keep no such times
		c.job.RunAt = time.Time{}
	}
	if err := broker.CheckUnreserved(c.job.Queue); err != nil {
		return err
	}
	return c.finishUnique()
}

// complete sets and checks what depends on fields that enqueue middleware may have changed.
func (c *enqueueConfig) complete(job *broker.NewJob) error {
	job.Body.DueAfter = max(job.Delay, 0)
	if at := job.RunAt; !at.IsZero() {
		job.Body.DueAfter = min(max(time.Until(at), 0), broker.MaxDelay)
	}
	if t := job.Body.Timeout; t > 0 && t < minDuration { // each run would end at once
		return broker.Invalid("timeout", "is %v; use %v or more, or 0 for the server's", t, minDuration)
	}
	if t := job.Body.Retention; t > 0 && t < minDuration { // the record would be gone before anybody could read it
		return broker.Invalid("retention", "is %v; use %v or more, or 0 for the queue's policy", t, minDuration)
	}
	if t := job.Body.Unique.TTL; t > 0 && t < minDuration { // no second job would meet the key
		return broker.Invalid("unique ttl", "is %v; use %v or more, or, other than for a window, 0 for no limit", t, minDuration)
	}
	if b := job.Body.Backoff; b.Kind == broker.BackoffDefault && b != (Backoff{}) {
		return broker.Invalid("backoff kind", "is not set, although a base or a max is; use BackoffExponential, BackoffLinear or BackoffConstant")
	}
	return c.place(job)
}

// answer records the store's receipt for the job.
func (o *Outgoing) answer(r *broker.Receipt) {
	switch {
	case r.Err == nil:
		o.Err, o.Info = nil, JobInfo{ID: o.ID, Queue: o.Queue, State: r.State, RunAt: r.RunAt, Replaced: r.Replaced}
		switch {
		case r.Replaced && r.State == broker.StateNone: // the repetition of a call whose answer was lost
			o.Info = o.estimate()
			o.Info.ID, o.Info.Replaced = r.ID, true
		case r.Replaced:
			o.Info.ID = r.ID
		default:
			o.Info.Behind = r.Holder
		}
	case broker.MayHaveApplied(r.Err):
		o.Err, o.unclear = r.Err, r.Err
	case errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == o.ID && o.unclear != nil:
		// An earlier attempt, whose answer was lost, stored the job. If the caller
		// chose the ID, another client may have stored that job: then the caller
		// must get the error.
		o.unclear, o.Info = nil, o.estimate()
		if o.Err = nil; o.Body.GivenID {
			o.Err = r.Err
		}
	case errors.Is(r.Err, broker.ErrDuplicate):
		o.Err, o.Info = r.Err, JobInfo{ID: r.Holder, Queue: o.Queue}
	default:
		o.Err = r.Err
	}
}

// estimate returns the info for a lost answer, by this process's clock.
func (o *Outgoing) estimate() JobInfo {
	info := JobInfo{ID: o.ID, Queue: o.Queue, State: StatePending}
	now := time.Now()
	runAt := o.RunAt
	if o.Delay > 0 {
		runAt = now.Add(o.Delay)
	}
	if runAt.After(now) {
		info.State, info.RunAt = StateScheduled, runAt
	}
	return info
}

// conclude sets the job's final error. If some attempt may have stored the job, the
// error is ErrOutcomeUnknown, whatever later attempts returned.
func (o *Outgoing) conclude() {
	if o.Err != nil && o.unclear != nil {
		o.Info = JobInfo{ID: o.ID, Queue: o.Queue}
		o.Err = &unknownOutcome{cause: o.unclear}
	}
	o.Err = broker.About(o.Err, "enqueue", o.Queue, o.ID)
}

// check sets an error if the enqueue chain dropped the job.
func (o *Outgoing) check() {
	if o.Err == nil && o.Info.Queue == "" {
		o.Err = errUnanswered
	}
	o.Err = broker.About(o.Err, "enqueue", o.Queue, o.ID)
}

var errUnanswered = errors.New("an enqueue middleware neither passed the job on nor refused it; nothing was stored")

// unknownOutcome is ErrOutcomeUnknown with its cause.
type unknownOutcome struct{ cause error }

func (e *unknownOutcome) Error() string   { return ErrOutcomeUnknown.Error() + ": " + e.cause.Error() }
func (e *unknownOutcome) Unwrap() []error { return []error{ErrOutcomeUnknown, e.cause} }

// EnqueueFunc stores jobs and sets Info and Err of each.
type EnqueueFunc func(ctx context.Context, batch []*Outgoing)

// EnqueueMiddleware wraps enqueueing: to add headers, encode payloads,
// validate or trace. It is called once per client, or once per definition; see
// Definition.EnqueueWith. The function that it returns is called for every
// Enqueue, with one job, and for every EnqueueMany, with all its jobs, from any
// number of goroutines at once. It calls next at most once, with the batch or a
// part of it, and sets Err of the other jobs itself. If a call fails in the store,
// only the call is repeated: the middleware does not run again. NewClient and
// EnqueueWith panic if it returns nil.
type EnqueueMiddleware func(next EnqueueFunc) EnqueueFunc

func chainEnqueue(chain []EnqueueMiddleware, last EnqueueFunc) EnqueueFunc {
	for i := len(chain) - 1; i >= 0; i-- {
		if chain[i] == nil {
			continue
		}
		if last = chain[i](last); last == nil {
			panic(fmt.Sprintf("jobs: enqueue middleware %d (from 0) of a chain returned a nil EnqueueFunc", i))
		}
	}
	return last
}

// taskChain is the enqueue middleware of a definition.
type taskChain struct {
	all []EnqueueMiddleware
	run EnqueueFunc // calls all of them, and then Outgoing.inner
}

// with returns a chain in which further middleware runs inside that of c. c may be nil.
func (c *taskChain) with(inner []EnqueueMiddleware) *taskChain {
	all := inner
	if c != nil {
		all = slices.Concat(c.all, inner)
	}
	return &taskChain{all: all, run: chainEnqueue(all, callInner)}
}

// callInner is the end of the chain of a definition.
func callInner(ctx context.Context, batch []*Outgoing) {
	if len(batch) > 0 && batch[0].inner != nil {
		batch[0].inner(ctx, batch)
	}
}

// storeBatch is the end of a client's chain. All jobs of a batch belong to one client.
func storeBatch(ctx context.Context, batch []*Outgoing) {
	if len(batch) == 0 || batch[0].client == nil {
		return
	}
	if !slices.ContainsFunc(batch, func(o *Outgoing) bool { return o.chain != nil }) {
		batch[0].client.store(ctx, batch)
		return
	}
	for i, o := range batch {
		o.position = i
	}
	storeNested(ctx, batch)
}

// storeNested calls the middleware of the definitions in a batch. The middleware of each
// runs inside that of the one before, so that all jobs are stored in one call and in
// their order.
func storeNested(ctx context.Context, batch []*Outgoing) {
	i := slices.IndexFunc(batch, func(o *Outgoing) bool { return o.chain != nil })
	if i < 0 {
		slices.SortFunc(batch, func(a, b *Outgoing) int { return a.position - b.position })
		batch[0].client.store(ctx, batch)
		return
	}
	chain := batch[i].chain
	var same, others []*Outgoing
	for _, o := range batch {
		if o.chain == chain {
			same = append(same, o)
		} else {
			others = append(others, o)
		}
	}
	for _, o := range same {
		o.chain, o.inner = nil, func(ctx context.Context, passed []*Outgoing) {
			all := slices.Concat(passed, others)
			others = nil
			storeNested(ctx, all)
		}
	}
	chain.run(ctx, same)
	if len(others) > 0 { // the chain passed none of its jobs on
		storeNested(ctx, others)
	}
}
