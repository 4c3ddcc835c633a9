package workflow

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
)

// stopping starts a workflow, one node of which fails while another one runs until its context ends.
func (w *world) stopping(deadline time.Time) (ended *bool) {
	w.Helper()
	w.up()
	w.fails("bad")
	ended = new(bool)
	w.on("slow", func(ctx context.Context, _ *jobs.Job) error {
		select {
		case <-ctx.Done():
			*ended = errors.Is(context.Cause(ctx), jobs.ErrCancelled)
			return context.Cause(ctx)
		case <-time.After(300 * time.Hour):
			return nil
		}
	})
	wf := New("wf").Add(Node{Name: "slow", Task: task(jobs.WithTimeout(jobs.NoTimeout)), Compensate: task()}, node("bad"))
	wf.Deadline = deadline
	w.start(wf)
	pass(time.Minute)
	if info := w.info("wf"); info.State != StateStopping {
		w.Fatalf("it is %s, want stopping", info.State)
	}
	return ended
}

func TestCancel_OfAWorkflowThatStopsEndsWhatRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		ended := w.stopping(time.Time{})
		if err := Cancel(w.Context(), w.client, "wf", "ada"); err != nil {
			t.Fatal(err)
		}
		info := w.ends("wf", StateCancelled)
		if want := `cancelled by ada; before that node "bad" is dead: skip retry for this job: bad is broken`; info.Cause != want {
			t.Errorf("the cause is %q, want %q", info.Cause, want)
		}
		if !*ended || w.runs[undoName("slow")] != 1 {
			t.Errorf("the context of the running node ended: %t; compensations ran: %v", *ended, w.began())
		}
	})
}

func TestWorkflow_TheDeadlineOfOneThatStopsEndsWhatRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		deadline := time.Now().Add(time.Hour)
		ended := w.stopping(deadline)
		info := w.ends("wf", StateFailed)
		if late := info.Ended.Sub(deadline); late < 0 || late > time.Minute || !*ended || w.runs[undoName("slow")] != 1 {
			t.Errorf("it ended %v after its deadline; the context of the running node ended: %t; ran: %v", late, *ended, w.began())
		}
	})
}
