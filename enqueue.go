package jobs

import (
	"cmp"
	"errors"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// JobInfo says how a task was stored.
type JobInfo struct {
	ID    string
	Queue string
	State State // pending or scheduled; waiting if it runs after another one (Behind)
	// RunAt is when a scheduled job is due, otherwise zero. If the store's
	// answer was lost and a repetition found the job stored, State and RunAt are
	// estimates by this process's clock.
	RunAt time.Time
	// Replaced says that nothing new was stored: the job ID, which held the unique
	// key and had not started, has the payload now. See WithUniqueReplace.
	Replaced bool
	// Behind is the ID of the running job after which this one runs, if it waits for
	// that. See WithUniqueKeepLast.
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
	Err  error // set before next, it refuses the job: nothing of it is stored

	client    *Client
	chain     *taskChain  // of the task's definition; nil without
	inner     EnqueueFunc // what follows that
	position  int         // in the batch that the client's chain passed on; used with definitions' chains
	config    enqueueConfig
	generated string // the ID that this client generated
	unclear   error  // of an attempt that may have stored the job
}

// SetHeader sets a header of the job.
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
		o.generated = c.ids.next(time.Now())
		o.ID = o.generated
	}
	return o.config.finish()
}

// Draft returns the job that Enqueue would store of the task with these
// options, for packages that keep a task in order to enqueue it later. It
// knows no client, so the client's defaults and its middleware are not in it,
// and it has an ID only if an option gives one. It shares the task's payload.
// The error says which option is outside its limits; those that depend on the
// store are not checked (broker.NewJob.Check does that).
func (t *Task) Draft(opts ...Option) (broker.NewJob, error) {
	var job broker.NewJob
	if t == nil {
		return job, errNoTask
	}
	var c enqueueConfig
	c.describe(&job, t, nil, opts)
	return job, cmp.Or(c.finish(), c.place(&job))
}

// Draft returns the job that Enqueue would store of the task with these options
// and the client's defaults; see Task.Draft. The client's middleware is not in it.
func (c *Client) Draft(task *Task, opts ...Option) (broker.NewJob, error) {
	var job broker.NewJob
	if task == nil {
		return job, errNoTask
	}
	var config enqueueConfig
	config.describe(&job, task, c.cfg.Defaults, opts)
	return job, cmp.Or(config.finish(), config.place(&job))
}

var errNoTask = broker.Invalid("task", "is nil; make one with NewTask")

// describe makes job what a task and its options ask for.
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

// finish refuses what no store can check, derives the unique key, and notes when the job
// is first to run.
func (c *enqueueConfig) finish() error {
	c.job.Body.DueAfter = max(c.job.Delay, 0)
	if at := c.job.RunAt; !at.IsZero() {
		c.job.Body.DueAfter = min(max(time.Until(at), 0), broker.MaxDelay)
	}
	if err := broker.CheckUnreserved(c.job.Queue); err != nil {
		return err
	}
	return c.finishUnique()
}

// answer records what the store said of the job.
func (o *Outgoing) answer(r *broker.Receipt) {
	switch {
	case r.Err == nil:
		o.Err, o.Info = nil, JobInfo{ID: o.ID, Queue: o.Queue, State: r.State, RunAt: r.RunAt, Replaced: r.Replaced}
		if r.Replaced {
			o.Info.ID = r.ID
		} else {
			o.Info.Behind = r.Holder
		}
	case broker.MayHaveApplied(r.Err):
		o.Err, o.unclear = r.Err, r.Err
	case errors.Is(r.Err, broker.ErrDuplicate) && r.Holder == o.ID && o.unclear != nil:
		// An attempt whose answer was lost had stored the job. A given ID may
		// also have been stored by somebody else: the caller must know.
		o.unclear, o.Info = nil, o.reckoned()
		if o.Err = nil; o.Body.GivenID {
			o.Err = r.Err
		}
	case errors.Is(r.Err, broker.ErrDuplicate):
		o.Err, o.Info = r.Err, JobInfo{ID: r.Holder, Queue: o.Queue}
	default:
		o.Err = r.Err
	}
}

// reckoned is the answer that was lost, as far as it can be told from here.
func (o *Outgoing) reckoned() JobInfo {
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

// conclude gives the job's error its final words: a job that any attempt may
// have stored stays unclear, whatever a later attempt met.
func (o *Outgoing) conclude() {
	if o.Err != nil && o.unclear != nil {
		o.Info = JobInfo{ID: o.ID, Queue: o.Queue}
		o.Err = &unknownOutcome{cause: o.unclear}
	}
	o.Err = broker.About(o.Err, "enqueue", o.Queue, o.ID)
}

// check looks at what the whole chain made of the job.
func (o *Outgoing) check() {
	if o.Err == nil && o.Info.Queue == "" {
		o.Err = errUnanswered
	}
	o.Err = broker.About(o.Err, "enqueue", o.Queue, o.ID)
}

// errUnanswered is a middleware's fault.
var errUnanswered = errors.New("an enqueue middleware neither passed the job on nor refused it; nothing was stored")

// unknownOutcome is ErrOutcomeUnknown with its cause.
type unknownOutcome struct{ cause error }

func (e *unknownOutcome) Error() string   { return ErrOutcomeUnknown.Error() + ": " + e.cause.Error() }
func (e *unknownOutcome) Unwrap() []error { return []error{ErrOutcomeUnknown, e.cause} }
