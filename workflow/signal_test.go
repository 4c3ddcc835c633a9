package workflow

import (
	"errors"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// approved is a workflow that waits for a signal.
func approved() *Workflow {
	return brief(Chain(Node{Name: "approval", Signal: "approve"}, node("pay")))
}

// A signal that comes after its workflow was removed does not reach the next workflow with that ID.
func TestSignal_ToARemovedWorkflowReachesNoOther(t *testing.T) {
	for name, remove := range map[string]func(w *world){
		"swept":   func(*world) { pass(time.Hour + time.Minute) },
		"deleted": func(w *world) { w.errors(nil, Delete(w.Context(), w.client, "w")) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				w.start(approved())
				w.errors(nil, Signal(w.Context(), w.client, "w", "approve", nil))
				w.ends("w", StateCompleted)
				w.errors(broker.ErrWrongState, Signal(w.Context(), w.client, "w", "late", nil))
				remove(w)
				w.errors(broker.ErrNotFound, Cancel(w.Context(), w.client, "w", "ada"))
				w.errors(broker.ErrWrongState, Signal(w.Context(), w.client, "w", "approve", nil))
				w.start(approved())
				pass(time.Minute)
				if got := states(w.info("w")); got != "approval waiting, pay waiting" {
					t.Errorf("the next workflow has %s", got)
				}
				w.errors(nil, Signal(w.Context(), w.client, "w", "approve", nil))
				w.ends("w", StateCompleted)
				w.errors(nil, Delete(w.Context(), w.client, "w"))
				pass(time.Hour + time.Minute) // as long again as it was kept
				w.errors(nil, Signal(w.Context(), w.client, "w", "approve", nil))
				w.run(approved(), StateCompleted)
			})
		})
	}
}

// A start that the store refused leaves nothing that would refuse signals.
func TestSignal_AfterAStartThatWasRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		depth := func(most int64) {
			_, err := w.store.Policy(w.Context(), broker.PolicyRequest{Queue: "default", MaxDepth: &most})
			w.errors(nil, err)
		}
		depth(1)
		w.errors(broker.ErrQueueFull, Start(w.Context(), w.client, approved().Add(node("other"))))
		w.errors(nil, Signal(w.Context(), w.client, "w", "approve", nil))
		depth(broker.NoLimit)
		w.up()
		w.run(approved().Add(node("other")), StateCompleted)
	})
}

// errors checks an error.
func (w *world) errors(want, err error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("the error is %v, want %v", err, want)
	}
}
