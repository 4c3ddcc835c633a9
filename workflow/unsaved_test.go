package workflow

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// unsaved returns a store that refuses the first write of a workflow's state after an operation on a node.
func (w *world) unsaved(kind broker.OperationKind, node string) (b broker.Broker, failed *atomic.Bool) {
	var done atomic.Bool
	failed = new(atomic.Bool)
	return broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		switch r := c.Request.(type) {
		case *broker.Operation:
			if r.Kind == kind && strings.HasSuffix(r.Refs[0].ID, node) {
				done.Store(true)
			}
		case *broker.MarkRequest:
			if r.Action == broker.MarkSet && done.Load() && failed.CompareAndSwap(false, true) {
				return broker.ErrUnavailable
			}
		}
		return next(ctx)
	}), failed
}

// A run that could let a node go but not store that is followed by one that stops the workflow: the node is
// waited for, or cancelled, and compensated, as every node that has begun.
func TestWorkflow_StopsAfterARunThatCouldNotStoreWhatItLetGo(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprintf("cancelled %v", cancelled), func(t *testing.T) {
			inWorld(t, func(w *world) {
				b, failed := w.unsaved(broker.OpReschedule, "/second")
				began := make(chan struct{})
				w.on("second", func(ctx context.Context, _ *jobs.Job) error {
					close(began)
					if cancelled {
						w.errors(nil, Cancel(context.WithoutCancel(ctx), w.client, "w", "ada"))
					}
					select {
					case <-ctx.Done():
						return context.Cause(ctx)
					case <-time.After(time.Minute):
						return nil
					}
				})
				w.on("other", func(context.Context, *jobs.Job) error {
					<-began
					if cancelled {
						return nil
					}
					return fmt.Errorf("%w: it is broken", jobs.SkipRetry)
				})
				w.serve(b, jobs.Config{})
				state := map[bool]State{false: StateFailed, true: StateCancelled}[cancelled]
				w.run(New("w").Add(Chain(node("first"), undoable("second")), node("other")), state)
				if !failed.Load() {
					t.Fatal("every write worked")
				}
				w.once("first", "second", "other", ":undo:second")
				if got := w.began(); !strings.HasSuffix(got, " :undo:second") {
					t.Errorf("the nodes began as %s", got)
				}
			})
		})
	}
}

// The same for a node that Retry runs again.
func TestRetry_ThenCancelAfterARunThatCouldNotStoreWhatItRedrove(t *testing.T) {
	inWorld(t, func(w *world) {
		b, failed := w.unsaved(broker.OpRedrive, "/a")
		var ended error
		w.on("a", func(ctx context.Context, j *jobs.Job) error {
			if j.Delivery() == 0 {
				return fmt.Errorf("%w: it is broken", jobs.SkipRetry)
			}
			w.errors(nil, Cancel(context.WithoutCancel(ctx), w.client, "w", "ada"))
			select {
			case <-ctx.Done():
				ended = context.Cause(ctx)
			case <-time.After(time.Minute):
			}
			return ended
		})
		w.serve(b, jobs.Config{})
		w.run(New("w").Add(node("a")), StateFailed)
		w.errors(nil, Retry(w.Context(), w.client, "w"))
		w.ends("w", StateCancelled)
		if !failed.Load() {
			t.Fatal("every write worked")
		}
		w.errors(jobs.ErrCancelled, ended)
	})
}
