package workflow

import (
	"context"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
)

const mover = "a mover"

// resting returns the jobs that wait for their turn in a workflow, or that a mover holds.
func (w *world) resting(state broker.State) (refs []broker.Ref) {
	w.Helper()
	for _, queue := range []string{jobs.DefaultQueue, Queue} {
		page, err := w.store.Find(w.Context(), broker.Query{Queue: queue, State: state})
		if err != nil {
			w.Fatal(err)
		}
		for i := range page.Jobs {
			if page.Jobs[i].RunAt.Equal(parked.Until) {
				refs = append(refs, page.Jobs[i].Ref())
			}
		}
	}
	return refs
}

// moves applies an operation of a mover to jobs.
func (w *world) moves(kind broker.OperationKind, refs []broker.Ref) {
	w.Helper()
	op := broker.Operation{Kind: kind, Holder: mover}
	err := store{w.store}.operate(w.Context(), op, refs, func(_ int, r broker.OperationResult) {
		if r.Err != nil {
			w.Error(r.Err)
		}
	})
	if err != nil {
		w.Fatal(err)
	}
}

// A move holds jobs, and puts back those that the destination refuses. Meanwhile their turn may have come.
func TestWorkflow_WhatAMoverHeldRunsWhenItIsBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("first", func(context.Context, *jobs.Job) error { <-time.After(time.Minute); return nil })
		w.fails("second")
		wf := New("w").Add(undoable("first"), node("second", "nested"),
			Node{Name: "nested", After: []string{"first"}, Workflow: New("").Add(node("inner"))})
		wf.OnEnd = task()
		w.start(wf)
		pass(time.Second)
		for range 6 { // the turns of the nested workflow, its node, the next node, the compensation and the callback
			w.moves(broker.OpHold, w.resting(broker.StateScheduled))
			pass(2 * time.Minute)
			w.moves(broker.OpUnhold, w.resting(broker.StateWaiting))
			pass(pollMax)
		}
		if info := w.info("w"); info.State != StateFailed {
			t.Errorf("it is %s, want failed; %s", info.State, states(info))
		}
		w.once("first", "inner", "second", undoName("first"), whenEnded)
	})
}
