package workflow

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
	"github.com/seed81422ce9/jobs/internal/reserved"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

const (
	typeWorkflow = "workflow"
	keyWorkflow  = "workflow" // the partition key of workflows: List finds them by it
	keyNested    = "nested"

	runTimeout = 5 * time.Minute

	// A client has startGrace to store a workflow, and startGraceFor more for each
	// node. After that the workflow is given up.
	startGrace    = time.Minute
	startGraceFor = 10 * time.Millisecond
)

// Start stores a workflow and its nodes, and starts it. Nothing runs before all
// of it is stored.
//
// With a client of a transaction (Client.In), all of it belongs to the transaction: the
// workflow starts if and when that commits. If Start returns an error other than
// ErrDuplicate, roll back: what it has stored would never run, and would be removed after
// about a minute. ErrDuplicate can then also mean a workflow that was given up, until its
// retention is over.
//
// Start checks the workflow before it stores anything. It refuses a cycle, a
// duplicate or unknown name, and a task outside the limits; the error names the
// node. The error is ErrDuplicate if a workflow with the ID exists, and only then. If the
// store refuses a node, nothing is left behind: ErrQueueFull, or ErrWrongState because
// another job holds its unique key.
//
// After any other error the workflow may have started. Call Start again with the
// same workflow: it continues where it stopped, and returns ErrDuplicate if the
// workflow had started. Without that call, the stored part is removed after about
// a minute and never runs. Until then, Start refuses a workflow with the same ID and
// other nodes, tasks or times with ErrWrongState.
func Start(ctx context.Context, client *jobs.Client, w *Workflow) error {
	if w == nil {
		return broker.Invalid("workflow", "is nil; make one with New")
	}
	begin := start
	if to := client.Producer(); to != nil && client.Broker() == nil {
		begin = startIn
	}
	return about(begin(ctx, client, w), "start workflow", w.ID)
}

func start(ctx context.Context, client *jobs.Client, w *Workflow) error {
	s, err := open(ctx, client)
	if err != nil {
		return err
	}
	if err := checkName("id", w.ID); err != nil {
		return err
	}
	p, err := planOf(client, w, s.Limits())
	if err != nil {
		return err
	}
	if err := reserved.Repeat(ctx, errAgain, func() error { return s.create(ctx, p) }); err != nil {
		return err
	}
	err = submit(ctx, s, client, p)
	if err == nil {
		err = s.commit(ctx, p)
	}
	if err != nil && !broker.StoreFailed(err) && ctx.Err() == nil {
		// The store refused a node: remove what was stored. If that fails, the first
		// run removes it.
		if s.abort(ctx, p.id, p.graph) == nil && s.owns(ctx, p.id, p.graph.Birth) == nil {
			_ = s.remove(ctx, []broker.Ref{{Queue: Queue, ID: p.id}})
		}
	}
	if err == nil {
		_ = s.nudge(ctx, p.id) // if this fails, it runs when its grace is over
	}
	return err
}

// planOf checks a workflow and returns its plan.
func planOf(client *jobs.Client, w *Workflow, limits broker.Limits) (*plan, error) {
	p, err := builder{client: client, limits: limits, sum: sha256.New()}.plan(w, w.ID)
	if err == nil {
		err = p.checkIDs()
	}
	return p, err
}

// job returns the job of a workflow, without a time to run.
func (p *plan) job() broker.NewJob {
	j := broker.NewJob{ID: p.id, Body: broker.Body{Type: typeWorkflow, TypeVersion: graphVersion, Payload: reserved.Encode(p.graph),
		Key: keyWorkflow, Retention: untilSwept}}
	return j
}

var (
	errStarted = &broker.Error{Field: "id", Err: broker.ErrDuplicate, Hint: "a workflow with this ID was started"}
	errAgain   = errors.New("a workflow that was given up had the ID")
	// errOther is not ErrDuplicate: the other workflow may never start.
	errOther = &broker.Error{Field: "id", Err: broker.ErrWrongState,
		Hint: "another workflow with this ID, of other nodes or tasks, is being started; if its client is gone, it is given up in about a minute"}
)

// create stores the workflow's own job, or finds that an earlier call stored it.
func (s store) create(ctx context.Context, p *plan) error {
	j := p.job()
	j.Delay = startGrace + time.Duration(len(p.graph.Nodes))*startGraceFor
	err := put(ctx, s, j)
	if !errors.Is(err, broker.ErrDuplicate) {
		return err
	}
	job, err := reserved.Find(ctx, s, Queue, p.id)
	if errors.Is(err, broker.ErrNotFound) {
		return errAgain
	}
	if err != nil {
		return err
	}
	g, err := decode(job.Payload)
	if err != nil {
		return err
	}
	st, ok, err := s.peek(ctx, p.id, g.Birth)
	switch {
	case err != nil:
		return err
	case ok && st.Phase == phaseAborted && job.State != broker.StateActive:
		err := s.abort(ctx, p.id, g)
		if err == nil {
			err = s.owns(ctx, p.id, g.Birth) // another client may have taken the ID meanwhile
		}
		if err == nil {
			err = s.operate(ctx, broker.Operation{Kind: broker.OpDelete}, []broker.Ref{job.Ref()}, nil)
		}
		if err != nil && !errors.Is(err, broker.ErrNotFound) {
			return err
		}
		return errAgain
	case ok && st.Phase != phaseStarting || job.State.Final():
		return errStarted
	}
	begun, err := reserved.State(ctx, s, Queue, beginID(p.id, g.Birth))
	if err != nil {
		return err
	}
	if begun != broker.StateNone { // it was started in a transaction, and has not run yet
		return errStarted
	}
	same := p.graph.digest() == g.digest()
	if p.give(g.Birth); !same || !bytes.Equal(reserved.Encode(p.graph), job.Payload) {
		return errOther
	}
	return nil
}

// startIn stores a workflow in the transaction of a client. Nobody sees a part of it, so its own job needs no
// delay. If the caller commits after an error, there is no letter that says that all of it is stored, and its
// first run gives it up.
func startIn(ctx context.Context, client *jobs.Client, w *Workflow) error {
	to := client.Producer()
	switch {
	case ctx == nil:
		return broker.Invalid("context", "is nil; use context.Background()")
	case to.Limits().NoMark:
		return errNoMarks
	}
	if err := checkName("id", w.ID); err != nil {
		return err
	}
	p, err := planOf(client, w, to.Limits())
	if err != nil {
		return err
	}
	if err := put(ctx, to, p.job()); errors.Is(err, broker.ErrDuplicate) { // nothing was stored
		return errStarted
	} else if err != nil {
		return err
	}
	if err := submit(ctx, to, client, p); err != nil {
		return err
	}
	return letter(ctx, to, p.id, beginID(p.id, p.graph.Birth), typeBegin, nil)
}

// submit stores the nodes of a workflow, and the workflows nested in it. to is what the client enqueues into.
func submit(ctx context.Context, to broker.Producer, client *jobs.Client, p *plan) error {
	for name, inner := range p.nested {
		j := inner.job()
		j.RunAt, j.Body.Key, j.Body.Source = parked.Until, keyNested, p.id
		j.Body.Headers = map[string]string{HeaderWorkflow: p.id, HeaderNode: name}
		if err := put(ctx, to, j); err != nil && !errors.Is(err, broker.ErrDuplicate) { // the birth is in the ID: it is this one
			return inNode(name, err)
		}
		if err := submit(ctx, to, client, inner); err != nil {
			return inNode(name, err)
		}
	}
	return enqueue(ctx, client, p)
}

// maxSend is how many nodes go to the client at once: more would only take more
// memory.
const maxSend = 1000

func enqueue(ctx context.Context, client *jobs.Client, p *plan) error {
	g := p.graph
	for from := 0; from < len(p.parcels); from += maxSend {
		parcels := p.parcels[from:min(len(p.parcels), from+maxSend)]
		tasks := make([]*jobs.Task, len(parcels))
		for i, c := range parcels {
			retention := untilSwept
			switch c.name {
			case whenSuccess, whenFailure, whenEnded: // the workflow does not need their records
				retention = time.Duration(g.Retention)
			}
			tasks[i] = c.task.With(jobs.WithID(g.jobID(c.name)), jobs.WithRunAt(parked.Until), jobs.WithRetention(retention),
				jobs.WithHeader(HeaderWorkflow, p.id), jobs.WithHeader(HeaderNode, c.name))
		}
		receipts, err := client.EnqueueMany(ctx, tasks)
		if len(receipts) < len(tasks) {
			return err
		}
		for i, r := range receipts {
			id := g.jobID(parcels[i].name)
			switch {
			case errors.Is(r.Err, broker.ErrDuplicate) && r.ID == id: // stored by an earlier call
			case errors.Is(r.Err, broker.ErrDuplicate): // of Start, ErrDuplicate says that the workflow exists
				return &broker.Error{Field: "node " + parcels[i].name, Err: broker.ErrWrongState,
					Hint: fmt.Sprintf("job %q holds its unique key; let that job end first, or use another key", r.ID)}
			case r.Err != nil:
				return inNode(parcels[i].name, r.Err)
			case r.ID != id || r.Queue != parcels[i].queue:
				return inNode(parcels[i].name, broker.Invalid("middleware",
					"of the client moved the job to %q in %q; it must leave ID and queue as they are", r.ID, r.Queue))
			}
		}
	}
	return nil
}

// commit sets the phase of a workflow that is completely stored.
func (s store) commit(ctx context.Context, p *plan) error {
	for attempt := 0; ; attempt++ {
		h, err := s.take(ctx, p.id, p.graph.Birth, phaseRunning)
		if err == nil && h.Phase == phaseStarting {
			h.Phase = phaseRunning
			err = s.save(ctx, h, broker.MaxDelay)
		}
		if err == nil && h.Phase == phaseAborted || errors.Is(err, broker.ErrNotFound) {
			return &broker.Error{Field: "workflow", Err: broker.ErrWrongState, Hint: "it took too long to store, and was given up; start it again"}
		}
		if !broker.StoreFailed(err) || attempt >= 5 {
			return err
		}
		if err := sleep.For(ctx, time.Duration(attempt+1)*10*time.Millisecond); err != nil {
			return err
		}
	}
}

// abort gives up a workflow that was not completely stored, and removes its nodes. The error is ErrNotFound if another
// workflow has the ID by now.
func (s store) abort(ctx context.Context, id string, g *graph) error {
	h, err := s.take(ctx, id, g.Birth, phaseAborted)
	if errors.Is(err, broker.ErrNotFound) {
		return cmp.Or(s.clear(ctx, g), err)
	}
	if err != nil {
		return err
	}
	switch h.Phase {
	case phaseAborted:
	case phaseStarting:
		h.Phase = phaseAborted
	default:
		return fmt.Errorf("%w: the workflow has started", broker.ErrWrongState)
	}
	if err := s.save(ctx, h, abortedFor); err != nil {
		return err
	}
	return s.clear(ctx, g)
}

// abortedFor is how long the state of a workflow that was given up is kept when its job is removed, for
// another client that is still starting it.
const abortedFor = 2 * time.Hour

// nudge makes a workflow run now. If it is running, nudge tries again after a
// pause. The error is that of the store.
func (s store) nudge(ctx context.Context, id string) error {
	for pause := time.Millisecond; ; pause *= 2 {
		var busy bool
		err := s.operate(ctx, broker.Operation{Kind: broker.OpReschedule}, []broker.Ref{{Queue: Queue, ID: id, Epoch: broker.AnyEpoch}},
			func(_ int, r broker.OperationResult) { busy = r.Err != nil && r.State == broker.StateActive })
		if err != nil || !busy || pause > nudgeFor {
			return err
		}
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
	}
}

// nudgeFor is the longest pause after which nudge tries again: runs of large
// workflows take a few tenths of a second. After that, the workflow's poll
// replaces the nudge.
const nudgeFor = 500 * time.Millisecond

func about(err error, op, id string) error { return broker.About(err, op, "", id) }
