package workflow

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// A run let a node go but could not store that, so the next run lets it go again.
// By then the node has failed: its retry does not run earlier.
func TestWorkflow_LettingGoAgainDoesNotBringARetryForward(t *testing.T) {
	inWorld(t, func(w *world) {
		var failed atomic.Int64
		bad := broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if r, ok := c.Request.(*broker.MarkRequest); ok && r.Action == broker.MarkSet && failed.Add(1) <= 3 {
				return broker.ErrUnavailable
			}
			return next(ctx)
		})
		var began []time.Time
		w.on("a", func(context.Context, *jobs.Job) error {
			if began = append(began, time.Now()); len(began) == 1 {
				return jobs.RetryAfter(time.Hour, errors.New("later"))
			}
			return nil
		})
		w.serve(bad, jobs.Config{})
		w.run(New("w").Add(node("a")), StateCompleted)
		if failed.Load() < 4 {
			t.Fatalf("the state was written %d times: nothing failed", failed.Load())
		}
		if len(began) != 2 || began[1].Sub(began[0]) < time.Hour {
			t.Errorf("the node ran at %v, want it twice, an hour apart", began)
		}
	})
}

// A handler adds nodes and ends during a run of its workflow. The run that sees
// the end also sees the added nodes.
func TestScope_WhatIsAddedIsSeenNoLaterThanTheEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		running, proceed := make(chan struct{}), make(chan struct{})
		w.on("adds", func(ctx context.Context, j *jobs.Job) error {
			close(running)
			<-proceed
			return adds(ctx, j)
		})
		var met atomic.Bool
		between := broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			err := next(ctx)
			if q, ok := c.Request.(*broker.Query); ok && q.Key == letterKey("w") {
				select {
				case <-running:
				default:
					return err
				}
				if met.CompareAndSwap(false, true) { // this run has just read its letters
					close(proceed)
					time.Sleep(time.Second) // the handler adds the nodes, and its job is settled
				}
			}
			return err
		})
		w.serve(between, jobs.Config{})
		w.run(New("w").Add(Chain(node("adds"), node("after"))), StateCompleted)
		if !met.Load() || w.began() != "adds new0 new1 after" && w.began() != "adds new1 new0 after" {
			t.Errorf("%s ran, want what was added before what waits for it", w.began())
		}
	})
}
