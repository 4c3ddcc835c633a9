package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// Retry resumes a failed workflow: the nodes that made it fail run again, with
// fresh retries, and then the rest. The given nodes run again too, if they did
// not complete, and so do nodes that were skipped because of them. If
// compensations failed, Retry runs these again instead.
//
// The error is ErrNotFound if the workflow does not exist. It is ErrWrongState,
// and says why, if the workflow cannot be resumed: it has not failed, it was
// compensated, its deadline passed, or a node's job was cancelled or deleted.
func Retry(ctx context.Context, client *jobs.Client, id string, nodes ...string) error {
	return with(ctx, client, "retry workflow", id, func(s store) error { return s.retry(ctx, id, nodes) })
}

func (s store) retry(ctx context.Context, id string, nodes []string) error {
	return reserved.Repeat(ctx, reserved.ErrOvertaken, func() error { return s.tryRetry(ctx, id, nodes) })
}

func (s store) tryRetry(ctx context.Context, id string, nodes []string) error {
	w, err := s.load(ctx, id)
	if err != nil {
		return err
	}
	if w.job.State != broker.StateDead {
		return refuse("the workflow is %s; only failed ones can be retried", w.whole())
	}
	h, err := s.take(ctx, id, w.graph.Birth, phaseAborted)
	if err != nil {
		return err
	}
	h.fit(len(w.graph.Nodes))
	if h.Phase == phaseEnded { // otherwise an earlier Retry stopped after this step
		err := h.again(w.graph, nodes)
		if err == nil { // a request to cancel that came when the workflow had already failed does not concern this run
			err = s.remove(ctx, []broker.Ref{{Queue: Queue, ID: cancelID(id, h.Birth)}})
		}
		if err == nil {
			err = s.save(ctx, h, broker.MaxDelay)
		}
		if err != nil {
			return err
		}
	}
	var refused error
	err = s.operate(ctx, broker.Operation{Kind: broker.OpRedrive}, []broker.Ref{w.job.Ref()},
		func(_ int, r broker.OperationResult) { refused = r.Err })
	if errors.Is(refused, broker.ErrWrongState) { // another client was first
		refused = nil
	}
	if err == nil && refused == nil && w.graph.Parent != "" {
		_ = s.nudge(ctx, w.graph.Parent)
	}
	return errors.Join(err, refused)
}

func refuse(why string, args ...any) error {
	return &broker.Error{Err: broker.ErrWrongState, Hint: fmt.Sprintf(why, args...)}
}

// again changes the state of a failed workflow so that it continues.
func (h *held) again(g *graph, nodes []string) error {
	if len(h.Broken) > 0 {
		h.Phase, h.Undo, h.Broken, h.Undone, h.UndoLet, h.Redo, h.Changed = phaseUndoing, h.Broken, nil, 0, 0, true, h.now
		return nil
	}
	switch {
	case h.Late:
		return refuse("its deadline passed")
	case len(h.Undo) > 0:
		return refuse("it was compensated; start a new one")
	}
	r := &run{g: g, held: h}
	var chosen []int
	for i := range g.Nodes {
		e := h.Ends[i]
		named := slices.Contains(nodes, g.Nodes[i].Name)
		if !badly(e) || !named && !r.fails(i) {
			continue
		}
		if e == endCancelled || e == endGone {
			return refuse("the job of node %q was cancelled or deleted, so it cannot run again", g.Nodes[i].Name)
		}
		chosen = append(chosen, i)
	}
	for _, name := range nodes {
		i, ok := g.names[name]
		if !ok {
			return &broker.Error{Field: "node", Err: broker.ErrNotFound, Hint: fmt.Sprintf("there is no node %q", name)}
		}
		if !slices.Contains(chosen, i) {
			return refuse("the node %q is %s; only nodes that did not complete run again", name, stateOfNode(h.Ends[i]))
		}
	}
	redo := make(map[int]bool)
	for _, i := range chosen {
		redo[i] = true
		delete(h.Times, i)
		if h.Ends[i] = endAgain; g.Nodes[i].Queue == 0 {
			h.Ends[i] = endWaiting
		}
	}
	for _, i := range g.topo {
		for _, j := range g.Nodes[i].After {
			if h.Ends[i] == endSkipped && redo[j] {
				redo[i], h.Ends[i] = true, endWaiting
			}
		}
	}
	h.Phase, h.Outcome, h.Cause, h.Ended, h.Changed = phaseRunning, "", "", time.Time{}, h.now
	return nil
}

// Delete removes a workflow that has ended, with its nodes and their results.
// The error is ErrNotFound if it does not exist, and ErrWrongState if it has not
// ended: call Cancel first. It is also ErrWrongState if the workflow is a node of
// another one that still exists; a nested workflow that failed outlives one that
// completed nevertheless.
func Delete(ctx context.Context, client *jobs.Client, id string) error {
	return with(ctx, client, "delete workflow", id, func(s store) error {
		w, err := s.load(ctx, id)
		if err != nil {
			return err
		}
		if !w.job.State.Final() {
			return refuse("the workflow is %s; cancel it first", w.whole())
		}
		if there, err := s.parentOf(ctx, w.graph); err != nil {
			return err
		} else if there {
			return refuse("it is a node of the workflow %q; delete that one", w.graph.Parent)
		}
		if err := s.removeWhole(ctx, w, true); err != nil {
			return err
		}
		return s.remove(ctx, []broker.Ref{{Queue: Queue, ID: w.graph.jobID(":sweep")}})
	})
}

// Wait waits until a workflow has ended, or ctx ends. The error is nil if the
// workflow completed, jobs.ErrDead if it failed (the message says why), and
// jobs.ErrCancelled if it was cancelled. It is jobs.ErrGone if there is no such workflow:
// it was not started yet, or its record was removed. The result is that of the
// workflow's last node, if it has a single last node.
func Wait(ctx context.Context, client *jobs.Client, id string) (result []byte, err error) {
	if _, err := open(ctx, client); err != nil {
		return nil, about(err, "wait for workflow", id)
	}
	record, err := client.Wait(ctx, Queue, id)
	if record != nil {
		result = record.Result
	}
	return result, named(err, "wait for workflow")
}

// named returns the error of a wait for the workflow's own job, as one about the workflow.
func named(err error, op string) error {
	e, ok := err.(*broker.Error)
	if !ok {
		return err
	}
	c := *e
	if c.Op, c.Queue = op, ""; errors.Is(err, jobs.ErrGone) {
		c.Hint = "it was not started, or its record was removed"
	}
	return &c
}

// Await waits like Wait and decodes the result, which a handler set with SetResult, into an R. A
// []byte is returned as it is, and is empty if there is no result. The errors are those of
// jobs.Await.
func Await[R any](ctx context.Context, client *jobs.Client, id string) (result R, err error) {
	if _, err := open(ctx, client); err != nil {
		return result, about(err, "await workflow", id)
	}
	if raw, ok := any(&result).(*[]byte); ok {
		*raw, err = Wait(ctx, client, id)
		return result, err
	}
	result, err = jobs.Await[R](ctx, client, Queue, id)
	return result, named(err, "await workflow")
}
