package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// Examine finds workflows that have stopped, and jobs of workflows that are gone: if
// somebody deletes a workflow's own job instead of calling Delete, nothing starts or
// removes its nodes. `jobsctl doctor` shows its findings beside those of the store. With
// fix, Examine repairs what it can; it reports every finding either way. It reads, page by
// page, the records of jobs that completed or were cancelled more than a day ago. An error
// comes with a zero finding and ends the examination.
func Examine(ctx context.Context, client *jobs.Client, fix bool) iter.Seq2[broker.Finding, error] {
	return func(yield func(broker.Finding, error) bool) {
		s, err := open(ctx, client)
		if errors.Is(err, broker.ErrUnsupported) { // the store cannot have workflows
			return
		}
		if err == nil {
			e := examination{store: s, fix: fix, yield: yield}
			err = e.run(ctx)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(broker.Finding{}, about(err, "examine workflows", ""))
		}
	}
}

// recordAge is how old a record is before the examination looks at it: most stores keep few that are older.
const recordAge = 24 * time.Hour

type examination struct {
	store
	fix   bool
	yield func(broker.Finding, error) bool
}

var errEnough = errors.New("the caller wants no more findings")

func (e *examination) report(f broker.Finding) error {
	if !e.yield(f, nil) {
		return errEnough
	}
	return nil
}

func (e *examination) run(ctx context.Context) error {
	for _, key := range []string{keyWorkflow, keyNested} {
		err := e.each(ctx, broker.Query{Key: key, NoPayload: true, Limit: maxLook}, func(page []broker.Job) error {
			return e.workflows(ctx, page)
		})
		if err != nil {
			return err
		}
	}
	all, err := e.Queues(ctx, broker.QueuesRequest{})
	if err != nil {
		return err
	}
	names := []string{Queue} // first: to remove a nested workflow is to remove its nodes
	for i := range all.Queues {
		if name := all.Queues[i].Name; !broker.Reserved(name) {
			names = append(names, name)
		}
	}
	for _, queue := range names {
		queries := []broker.Query{{State: broker.StateScheduled, After: parked.Until}}
		if queue != Queue {
			for _, state := range []broker.State{broker.StateCompleted, broker.StateCancelled} {
				queries = append(queries, broker.Query{State: state, Before: all.Now.Add(-recordAge)})
			}
		}
		for _, q := range queries {
			q.Queue, q.NoPayload, q.Limit = queue, true, maxLook
			if err := reserved.Each(ctx, e, q, func(page []broker.Job) error { return e.nodes(ctx, page) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// unreadable reports a workflow that this program cannot read.
func (e *examination) unreadable(id string, err error) error {
	return e.report(broker.Finding{FindingKind: kinds.Of("workflow-unreadable"), Queue: Queue, ID: id, What: err.Error()})
}

// workflows reports those workflows of a page that cannot be read or have stopped.
func (e *examination) workflows(ctx context.Context, page []broker.Job) error {
	var live []broker.Ref
	for i := range page {
		if !page[i].State.Final() {
			live = append(live, page[i].Ref())
		}
	}
	bad := make(map[string]error)
	err := e.look(ctx, live, true, func(job *broker.Job) {
		g, err := decode(job.Payload)
		if err = cmp.Or(job.Broken, err); err == nil {
			err = g.link()
		}
		if err != nil {
			bad[job.ID] = err
		}
	})
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(bad)) {
		if err := e.unreadable(id, bad[id]); err != nil {
			return err
		}
	}
	page = slices.DeleteFunc(page, func(j broker.Job) bool {
		return j.State != broker.StateDead && j.State != broker.StateCancelled && j.State != broker.StateWaiting
	})
	states, unread := make([]state, len(page)), make([]error, len(page))
	err = reserved.All(len(page), func(i int) error {
		_, err := e.states().Peek(ctx, page[i].ID, &states[i])
		if errors.Is(err, broker.ErrMalformed) || errors.Is(err, broker.ErrNewerForm) {
			unread[i], err = err, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range page {
		job := &page[i]
		f := broker.Finding{FindingKind: kinds.Of("workflow-stopped"), Queue: Queue, ID: job.ID, What: "its job is " + job.State.String()}
		switch phase := states[i].Phase; {
		case unread[i] != nil:
			if err := e.unreadable(job.ID, unread[i]); err != nil {
				return err
			}
			continue
		case job.State == broker.StateWaiting:
			f.What = "its job is held by " + job.Holder
		case phase == phaseEnded || phase == phaseAborted:
			continue
		}
		now, err := reserved.Find(ctx, e, Queue, job.ID)
		if now == nil || now.Epoch != job.Epoch { // it has changed since
			if err != nil && !errors.Is(err, broker.ErrNotFound) {
				return err
			}
			continue
		}
		if message := job.Errors.Last().Message; job.State == broker.StateDead {
			f.What += ": " + job.Reason.String() + ": " + message
		}
		if e.fix {
			if f.Left = f.What; job.State == broker.StateDead {
				f.Left = ""
				f.Fixed, f.Left, err = e.decideOn(ctx, broker.Operation{Kind: broker.OpRedrive}, job)
			}
			if err != nil {
				return err
			}
		}
		if err := e.report(f); err != nil {
			return err
		}
	}
	return nil
}

// decideOn carries out an operation on a job that has not changed since it was read. left says why that was not possible.
func (e *examination) decideOn(ctx context.Context, op broker.Operation, job *broker.Job) (done bool, left string, err error) {
	err = e.operate(ctx, op, []broker.Ref{job.Ref()}, func(_ int, r broker.OperationResult) {
		if done = r.Err == nil; !done {
			left = "it changed meanwhile"
		}
	})
	return done, left, err
}

// owned returns the ID of the workflow that a job says it belongs to, and the prefix that the workflow has then. ok is
// false if the job is none of a workflow, or if nothing keeps it.
func owned(j *broker.Job) (id, prefix string, ok bool) {
	id = j.Headers[HeaderWorkflow]
	prefix, ok = strings.CutSuffix(j.ID, "/"+j.Headers[HeaderNode])
	ok = ok && id != "" && (prefix == id || strings.HasPrefix(prefix, id+"."))
	return id, prefix, ok && (j.State == broker.StateScheduled || j.Retention == untilSwept)
}

// nodes reports those jobs of a page whose workflow is gone.
func (e *examination) nodes(ctx context.Context, page []broker.Job) error {
	var owners []broker.Ref
	known := make(map[string]bool)
	page = slices.DeleteFunc(page, func(j broker.Job) bool {
		id, _, ok := owned(&j)
		if ok && !known[id] {
			known[id] = true
			owners = append(owners, broker.Ref{Queue: Queue, ID: id})
		}
		return !ok
	})
	prefixes := make(map[string]string, len(owners)) // of the workflows that exist
	err := e.look(ctx, owners, true, func(job *broker.Job) {
		g, err := decode(job.Payload)
		if cmp.Or(job.Broken, err) != nil {
			prefixes[job.ID] = "" // it exists, and nothing more is known
			return
		}
		prefixes[job.ID] = g.Prefix
	})
	if err != nil {
		return err
	}
	var left []broker.Ref
	for i := range page {
		id, prefix, _ := owned(&page[i])
		if now, exists := prefixes[id]; !exists || now != "" && now != prefix { // another workflow has its ID by now
			left = append(left, page[i].Ref())
		}
	}
	var still []broker.Job // not removed together with the workflow meanwhile
	if err := e.look(ctx, left, false, func(job *broker.Job) { still = append(still, *job) }); err != nil {
		return err
	}
	for i := range still {
		if err := e.node(ctx, &still[i]); err != nil {
			return err
		}
	}
	return nil
}

// node reports a job whose workflow is gone.
func (e *examination) node(ctx context.Context, job *broker.Job) (err error) {
	if _, _, ok := owned(job); !ok || job.State == broker.StateScheduled && !job.RunAt.Equal(parked.Until) {
		return nil
	}
	f := broker.Finding{FindingKind: kinds.Of("workflow-record-left"), Queue: job.Queue, ID: job.ID,
		What: fmt.Sprintf("it is the node %q of the workflow %s, which is gone", job.Headers[HeaderNode], job.Headers[HeaderWorkflow])}
	if job.State == broker.StateScheduled {
		f.FindingKind = kinds.Of("workflow-node-left")
	}
	switch {
	case !e.fix:
	case job.Queue == Queue:
		err = e.removeNested(ctx, job.ID, true)
		if f.Fixed = err == nil; errors.Is(err, broker.ErrMalformed) || errors.Is(err, broker.ErrNewerForm) {
			f.Left, err = err.Error(), nil
		}
	default:
		f.Fixed, f.Left, err = e.decideOn(ctx, broker.Operation{Kind: broker.OpDelete}, job)
	}
	if err != nil {
		return err
	}
	return e.report(f)
}
