package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// halt waits for the nodes that have started, or cancels them, and then begins
// the compensations or ends the workflow.
func (r *run) halt(ctx context.Context) (again bool, err error) {
	if out := r.outstanding(); len(out) > 0 {
		if !r.kills() {
			return false, nil
		}
		return r.kill(ctx, out)
	}
	if missed, err := r.missed(ctx); missed || err != nil {
		return missed, err
	}
	if r.Outcome != StateCompleted {
		if r.Undo = r.toUndo(); len(r.Undo) > 0 {
			r.Phase = phaseUndoing
			r.touch()
			return true, r.x.save(ctx, r.held, broker.MaxDelay) // from here on the order is fixed
		}
	}
	r.over()
	return false, nil
}

// missed finds nodes that an earlier run let go, or redrove for Retry, without storing that: it died, or the store
// was away. They are waited for, or cancelled, like the others. It reports whether there are any.
func (r *run) missed(ctx context.Context) (found bool, err error) {
	var refs []broker.Ref
	place := make(map[string]int)
	for i, e := range r.Ends {
		if e != endWaiting && e != endAgain || r.g.Nodes[i].Queue == 0 {
			continue
		}
		if ready, _ := r.readiness(i); ready {
			ref := r.g.ref(i)
			refs, place[ref.ID] = append(refs, ref), i
		}
	}
	err = r.x.look(ctx, refs, false, func(job *broker.Job) {
		i := place[job.ID]
		still := rests(job) || job.State == broker.StateWaiting // a mover has it
		if e := r.Ends[i]; e == endWaiting && !still || e == endAgain && job.State != broker.StateDead {
			r.end(i, endLetGo)
			found = true
		}
	})
	for i, e := range r.Ends {
		if e == endAgain { // Retry chose it, but it will not run again
			r.end(i, endDead)
		}
	}
	return found, err
}

// over ends the workflow.
func (r *run) over() {
	r.Phase, r.Ended = phaseEnded, r.now
	r.touch()
}

// kill cancels the nodes that have started.
func (r *run) kill(ctx context.Context, out []int) (again bool, err error) {
	var refs []broker.Ref
	for _, i := range out {
		ref := r.g.ref(i)
		if ref.Epoch = broker.AnyEpoch; !r.g.nested(i) {
			refs = append(refs, ref)
			continue
		}
		if err := r.x.cancel(ctx, ref.ID, "its workflow"); broker.StoreFailed(err) {
			return false, err
		}
	}
	err = r.x.operate(ctx, broker.Operation{Kind: broker.OpCancel}, refs, func(_ int, result broker.OperationResult) {
		again = again || result.State.Final() || errors.Is(result.Err, broker.ErrNotFound)
	})
	return again, err
}

// undo runs the compensations, one after another.
func (r *run) undo(ctx context.Context) (again bool, err error) {
	if r.Undone == len(r.Undo) {
		r.over()
		return false, nil
	}
	i := r.Undo[r.Undone]
	ref := r.g.undoRef(i)
	if r.UndoLet == r.Undone {
		op := broker.Operation{Kind: broker.OpReschedule}
		if r.Redo {
			op.Kind, ref.Epoch = broker.OpRedrive, broker.AnyEpoch
		}
		held := false
		err := r.x.letGo(ctx, op, []broker.Ref{ref}, func(_ int, result broker.OperationResult) { held = isHeld(result) })
		if err != nil || held {
			return false, err
		}
		r.UndoLet++
		r.touch()
	}
	state, err := reserved.State(ctx, r.x, ref.Queue, ref.ID)
	if err != nil {
		return false, err
	}
	if state != broker.StateNone && !state.Final() {
		return false, nil
	}
	if state != broker.StateCompleted {
		r.Broken = append(r.Broken, i)
	}
	r.Undone++
	r.touch()
	return true, nil
}

// failed reports whether a workflow that has ended counts as failed.
func (st *state) failed() bool { return st.Outcome == StateFailed || len(st.Broken) > 0 }

// resumable reports whether Retry can run the nodes of a failed workflow again.
func (st *state) resumable() bool {
	return st.Outcome == StateFailed && !st.Late && len(st.Undo) == 0 && len(st.Broken) == 0
}

// finish stores that the workflow has ended, starts its callbacks, and removes
// the jobs that will not run. Each step can be repeated.
func (r *run) finish(ctx context.Context) error {
	if err := r.x.save(ctx, r.held, broker.MaxDelay); err != nil {
		return err
	}
	when := map[string]bool{whenEnded: true, whenSuccess: r.Outcome == StateCompleted && !r.failed()}
	when[whenFailure] = !when[whenSuccess]
	var start, drop []broker.Ref
	for _, c := range r.g.Calls {
		ref := broker.Ref{Queue: r.g.Queues[c.Queue-1], ID: r.g.jobID(c.When)}
		if when[c.When] {
			start = append(start, ref)
		} else {
			drop = append(drop, ref)
		}
	}
	var held error
	err := r.x.letGo(ctx, broker.Operation{Kind: broker.OpReschedule}, start, func(i int, result broker.OperationResult) {
		if isHeld(result) {
			held = broker.About(result.Err, "start the callback", start[i].Queue, start[i].ID)
		}
	})
	if err = cmp.Or(err, held); err != nil {
		return err
	}
	if r.resumable() {
		return nil
	}
	undone := make(map[int]bool)
	for _, i := range r.Undo {
		undone[i] = true
	}
	for i := range r.g.Nodes {
		v := &r.g.Nodes[i]
		if v.Undo > 0 && !undone[i] {
			drop = append(drop, r.g.undoRef(i))
		}
		if e := r.Ends[i]; v.Queue == 0 || e != endWaiting && e != endSkipped {
			continue
		}
		if r.g.nested(i) {
			if err := r.x.removeNested(ctx, r.g.jobID(v.Name), true); err != nil {
				return err
			}
			continue
		}
		drop = append(drop, r.g.ref(i))
	}
	if err := r.x.remove(ctx, drop); err != nil || r.failed() {
		return err
	}
	if there, err := r.x.parentOf(ctx, r.g); there || err != nil {
		return err // the sweep of that workflow removes this one
	}
	return r.x.planSweep(ctx, r.id, r.g)
}

// parentOf reports whether a workflow is a node of another one that exists.
func (s store) parentOf(ctx context.Context, g *graph) (there bool, err error) {
	if g.Parent == "" {
		return false, nil
	}
	state, err := reserved.State(ctx, s, Queue, g.Parent)
	return state != broker.StateNone, err
}

// outcome returns the error with which the workflow's own job ends. The job's
// result is that of the last node, if there is a single last node.
func (r *run) outcome(ctx context.Context, job *jobs.Job) error {
	if r.failed() {
		cause := r.Cause
		for _, i := range r.Broken {
			cause += fmt.Sprintf("; the compensation of node %q did not complete", r.g.Nodes[i].Name)
		}
		return jobs.Classified(fmt.Errorf("%w: %s", jobs.SkipRetry, cause), jobs.Classification{Class: jobs.ClassPermanent, As: jobs.SkipRetry})
	}
	if r.Outcome == StateCancelled {
		return jobs.Cancel(errors.New(r.Cause))
	}
	last := -1
	for i := range r.g.Nodes {
		switch {
		case len(r.g.kids[i]) > 0 || r.g.more[i] > 0:
		case last >= 0:
			return nil
		default:
			last = i
		}
	}
	if last < 0 || r.Ends[last] != endCompleted {
		return nil
	}
	result, err := r.x.result(ctx, r.id, r.g, last)
	if broker.StoreFailed(err) && !errors.Is(err, ErrNoResult) {
		return jobs.Snooze(retryPause)
	}
	job.SetResult(result)
	return nil
}
