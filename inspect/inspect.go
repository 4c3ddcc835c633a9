// Package inspect is for operators: an [Inspector] shows queues, jobs and workers of
// any backend, and changes them: redrive, cancel, delete, reschedule, pause, edit,
// move, export. The dashboard and the command jobsctl are built on it.
package inspect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/labels"
)

// Query selects jobs of one queue: those of IDs, or else by State, Worker or Key,
// and by the other fields:
//
//	Now        time.Time // leave it zero
//	Queue      string
//	IDs        []string
//	State      broker.State
//	Worker     string // active jobs held by this worker
//	Key        string // of jobs.WithPartitionKey
//	Type       string
//	Reason     broker.DeadReason
//	ErrorText  string    // a part of the last error's message
//	After      time.Time // at or after; the time is: due (scheduled, retry), finished (final states), created (others)
//	Before     time.Time // before
//	Suppressed bool      // include suppressed dead jobs
//	Newest     bool      // of a final state, the latest end first
//	NoPayload  bool      // leave Payload and Result out
//	Cursor     string    // of the page before; empty starts
//	Limit      int       // records examined; 0 means 100, at most 5000
type Query = broker.Query

// Policy is the rules of a queue, or of one of its keys. A key has only the rules from
// Paused to Weight; those that are not zero replace the queue's rules for each key:
//
//	Paused    bool  // claims get nothing
//	MaxDepth  int64 // pending, scheduled and waiting jobs; of a key those in retry too; 0 means no limit
//	MaxActive int64 // active jobs over all workers; 0 means no limit
//	Rate      Rate  // of the jobs that claims take, over all workers
//	Weight    int64 // of a key only: its turns for each turn of a key of weight 1; 0 means 1
//
//	MaxBytes     int64 // of the bodies of pending, scheduled, waiting and retry jobs; 0 means no limit
//	KeyMaxDepth  int64 // MaxDepth of each key
//	KeyMaxActive int64 // MaxActive of each key
//	KeyRate      Rate  // Rate of each key
//	RetryRate    Rate  // of the jobs in retry that become pending
//	Ordered      Order // whether the jobs of a key go one after the other
//
//	RetainCompleted Retention     // and cancelled; the zero value keeps none
//	RetainDead      Retention     // the zero value keeps all
//	DuplicateSpan   time.Duration // how long a caller's own ID is remembered after its job is gone; 0 means an hour
//	PriorityRound   int64         // of so many claimed jobs in a row, at least one is of each priority that waits; 0 means no round
type Policy = broker.Policy

// WorkerInfo describes a live worker:
//
//	ID          string
//	Host        string
//	PID         int
//	Program     string // name and version of the program
//	Concurrency int
//	Queues      []string
//	Types       []string // the patterns its handlers are registered for
//	StartedAt   time.Time
//	Longest     []broker.Running // what it has run for longest, the longest first
//	Until       time.Time        // its leases hold until then
//	Held        int              // leases the store counts for it, or counted up to a minute ago
type WorkerInfo = broker.WorkerInfo

// Package broker documents the fields of these types.
type (
	// Page is one page of a query's answer: Jobs, Cursor.
	Page = broker.Page
	// PolicyRequest changes the fields of a Policy that are not nil.
	PolicyRequest = broker.PolicyRequest
	// Rate bounds how many jobs start.
	Rate = broker.Rate
	// Order says whether the jobs of a key go one after the other.
	Order = broker.Order
	// Retention bounds kept records by age and count.
	Retention = broker.Retention
	// DeadReason says why a job is dead.
	DeadReason = broker.DeadReason
)

// Values for a PolicyRequest; see package broker.
const (
	NoLimit   = broker.NoLimit   // removes a limit
	OrderNone = broker.OrderNone // jobs of a key run in any order, also at the same time
	OrderStop = broker.OrderStop // one after the other; a dead job stops its key
	OrderSkip = broker.OrderSkip // one after the other; a dead job lets the next go
)

// Inspector shows queues, jobs and workers, and changes them. It is safe for concurrent
// use. Each of its calls to the broker takes at most 5 seconds. Operations of many
// calls end with their context, but finish a write that has started, so that the report
// is exact.
//
// After an error that is ErrUnavailable, ErrNotFound, ErrWrongState, ErrInvalid or
// ErrClosed, nothing was changed by the call that failed; after other errors it may have
// taken effect. What an operation of many calls changed before is in its Report. Every
// decision can be repeated without harm.
type Inspector struct {
	broker broker.Broker
	who    string // see As
	why    string // see WithNote
}

// New returns an inspector of b. The caller closes b.
func New(b broker.Broker) *Inspector {
	if guard.IsNil(b) {
		b = nil // calls say that the inspector has no broker
	}
	return &Inspector{broker: b}
}

// call makes one call to the broker, of a method such as broker.Broker.Find, with a timeout.
func call[Request, Reply any](ctx context.Context, i *Inspector,
	method func(broker.Broker, context.Context, Request) (Reply, error), req Request) (reply Reply, err error) {
	if err := i.check(ctx); err != nil {
		return reply, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return method(i.broker, ctx, req)
}

// callTimeout limits one call to the broker: longer than a busy store needs, and short
// enough for a person at a terminal.
const callTimeout = 5 * time.Second

// check returns an error if calls are not possible.
func (i *Inspector) check(ctx context.Context) error {
	switch {
	case i == nil || i.broker == nil:
		return broker.Invalid("inspector", "has no broker; make it with New and give it one")
	case ctx == nil:
		return broker.Invalid("context", "is nil; use context.Background()")
	}
	return nil
}

// QueueInfo describes a queue at the time Now of the store's clock.
type QueueInfo struct {
	broker.QueueInfo
	Now time.Time
}

// Age returns how long the oldest job of a state has been in it, by the store's clock;
// see broker.QueueInfo.
func (q QueueInfo) Age(state broker.State) time.Duration { return q.QueueInfo.Age(state, q.Now) }

// AgePending returns the age of the next pending job of a priority, by the store's
// clock; see broker.QueueInfo.
func (q QueueInfo) AgePending(p broker.Priority) time.Duration {
	return q.QueueInfo.AgePending(p, q.Now)
}

// Queues describes the named queues, or all, sorted by name. Queues that do not exist
// are left out, and so are the framework's queues (broker.Reserved), unless they are
// named. The name "images+*" stands for images and all its queues of jobs that require
// labels, such as images+gpu.
func (i *Inspector) Queues(ctx context.Context, names ...string) ([]QueueInfo, error) {
	return i.queues(ctx, broker.QueuesRequest{Names: names})
}

// Overview is like Queues, with the live workers of each queue. Like Queues, it makes
// one call to the broker.
func (i *Inspector) Overview(ctx context.Context, names ...string) ([]QueueInfo, error) {
	return i.queues(ctx, broker.QueuesRequest{Names: names, Workers: true})
}

// wanted reports whether names select a queue. Without names, all queues but those of the
// framework are selected.
func wanted(queue string, names []string) bool {
	if len(names) == 0 {
		return !broker.Reserved(queue)
	}
	return slices.ContainsFunc(names, func(name string) bool { return labels.Means(name, queue) })
}

// Queue describes one queue with its live workers. The error is ErrNotFound if the
// queue does not exist. A queue exists from its first job, server or change of policy
// until it is removed.
func (i *Inspector) Queue(ctx context.Context, name string) (QueueInfo, error) {
	err := broker.CheckQueue(name)
	if err == nil && labels.Pattern(name) {
		err = broker.Invalid("queue", "%q means several queues; name one", name)
	}
	if err == nil {
		var queues []QueueInfo
		queues, err = i.Overview(ctx, name)
		if len(queues) > 0 {
			return queues[0], nil
		}
	}
	if err == nil {
		err = broker.ErrNotFound
	}
	return QueueInfo{}, broker.About(err, "queues", name, "")
}

func (i *Inspector) queues(ctx context.Context, req broker.QueuesRequest) (queues []QueueInfo, err error) {
	names := req.Names
	if slices.ContainsFunc(names, labels.Pattern) {
		req.Names = nil
	}
	reply, err := call(ctx, i, broker.Broker.Queues, req)
	for _, q := range reply.Queues {
		if wanted(q.Name, names) {
			queues = append(queues, QueueInfo{QueueInfo: q, Now: reply.Now})
		}
	}
	return queues, err
}

// Workers lists the live workers of the named queues, or of all, sorted by ID. Held is
// the number of jobs that a worker holds in these queues. To list the jobs, use Select
// with Query.Worker for each queue.
func (i *Inspector) Workers(ctx context.Context, queues ...string) ([]WorkerInfo, error) {
	infos, err := i.Overview(ctx, queues...)
	return WorkersOf(infos), err
}

// WorkersOf lists the workers of queues that Overview returned, each once, sorted by
// ID. Held is the number of jobs that a worker holds in these queues.
func WorkersOf(queues []QueueInfo) []WorkerInfo {
	workers := make(map[string]WorkerInfo)
	for _, q := range queues {
		for _, w := range q.Workers {
			if known, ok := workers[w.ID]; ok {
				w.Held += known.Held
			}
			workers[w.ID] = w
		}
	}
	return slices.SortedFunc(maps.Values(workers), func(a, b WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
}

// Job returns one job with all its data, or ErrNotFound.
func (i *Inspector) Job(ctx context.Context, queue, id string) (*broker.Job, error) {
	page, err := i.List(ctx, Query{Queue: queue, IDs: []string{id}, Suppressed: true})
	if err == nil && len(page.Jobs) == 0 {
		err = broker.ErrNotFound
	}
	if err != nil {
		return nil, broker.About(err, "find", queue, id)
	}
	return &page.Jobs[0], nil
}

// List returns one page of the jobs that q selects. For the next page set Query.Cursor
// to the Cursor of this one; an empty Cursor ends the listing. Selection.Jobs lists all
// pages.
func (i *Inspector) List(ctx context.Context, q Query) (Page, error) {
	return call(ctx, i, broker.Broker.Find, q)
}

// Watch sends the events of the named queues until ctx ends, and then closes the
// channel. When it returns, it is listening. Events are hints: each is sent at most
// once. If the reader is too slow, an event of kind broker.EventMissed says how many
// were lost. Watching costs the store a little for each job that ends: on Postgres one
// notification per settle.
func (i *Inspector) Watch(ctx context.Context, queues ...string) (<-chan broker.Event, error) {
	if err := i.check(ctx); err != nil {
		return nil, err
	}
	return i.broker.Watch(ctx, broker.WatchRequest{Queues: queues})
}

// Pause stops claims from a queue at once. Running jobs continue, and producers can
// still enqueue. Pausing a paused queue does nothing. As with SetPolicy, a queue that
// does not exist yet is created, so check a name that a person typed with Queue.
func (i *Inspector) Pause(ctx context.Context, queue string) error {
	_, err := i.SetPolicy(ctx, PolicyRequest{Queue: queue, Paused: new(true)})
	return err
}

// Resume ends a pause.
func (i *Inspector) Resume(ctx context.Context, queue string) error {
	_, err := i.SetPolicy(ctx, PolicyRequest{Queue: queue, Paused: new(false)})
	return err
}

// Policy returns a queue's policy.
func (i *Inspector) Policy(ctx context.Context, queue string) (Policy, error) {
	return i.SetPolicy(ctx, PolicyRequest{Queue: queue})
}

// SetPolicy changes the fields of a queue's policy that change sets, atomically, for
// all workers and clients. It returns the whole policy. A queue that does not exist
// yet is created, so that its first job meets its limits. The error is ErrInvalid if a
// value is outside its limits, and ErrUnsupported if the store does not have the rule
// (broker.Limits.NoFlow); see Inspector.
func (i *Inspector) SetPolicy(ctx context.Context, change PolicyRequest) (policy Policy, err error) {
	for _, rate := range []*Rate{change.Rate, change.KeyRate, change.RetryRate} {
		if rate != nil && rate.Per > 0 && rate.Per < time.Millisecond { // a number that lacks its unit would limit nothing
			return policy, broker.About(broker.Invalid("rate per", "is %v; use 1ms or more", rate.Per), "policy", change.Queue, "")
		}
	}
	noted := change.Paused != nil && change.Key == ""
	if noted {
		before, err := i.Policy(ctx, change.Queue)
		if err != nil {
			return before, err
		}
		noted = before.Paused != *change.Paused
	}
	policy, err = call(ctx, i, broker.Broker.Policy, change)
	if err == nil && noted {
		i.notePause(context.WithoutCancel(ctx), change.Queue, policy.Paused)
	}
	return policy, err
}

// RemoveQueue removes an empty queue and its policy. It is refused with
// ErrWrongState while the queue has jobs, in any state, or live workers.
func (i *Inspector) RemoveQueue(ctx context.Context, queue string) error {
	results, err := i.operate(ctx, broker.Operation{Kind: broker.OpRemoveQueue, Refs: []broker.Ref{{Queue: queue, Epoch: broker.AnyEpoch}}})
	if err == nil && len(results) > 0 {
		err = results[0].Err
	}
	return broker.About(err, broker.OpRemoveQueue.String(), queue, "")
}

func (i *Inspector) operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	return call(ctx, i, broker.Broker.Operate, op)
}
