package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/handworker"
)

// A move was interrupted after one of two jobs had arrived, which then ran. The undo asks
// each kind of store whether it remembers the job.
func TestProgram_AnUndoneMoveRunsNoJobAgain(t *testing.T) {
	onBrokers(t, func(t *testing.T, there broker.Broker) {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		here := membroker.New()
		defer here.Close()
		queue := "moved"
		store, err := inspect.New(there).StoreID(ctx)
		if err != nil {
			t.Fatal(err)
		}
		hold := broker.Operation{Kind: broker.OpHold, Holder: "move:" + store + "/" + queue}
		for _, id := range []string{"ran", "waits"} {
			accept(t, here, broker.NewJob{Queue: queue, ID: id, Body: broker.Body{Type: "t", Priority: broker.PriorityNormal, GivenID: true}})
			hold.Refs = append(hold.Refs, broker.Ref{Queue: queue, ID: id, Epoch: broker.AnyEpoch})
		}
		if _, err := here.Operate(ctx, hold); err != nil {
			t.Fatal(err)
		}
		ran, err := inspect.New(here).Job(ctx, queue, "ran")
		if err != nil {
			t.Fatal(err)
		}
		accept(t, there, ran.Copy())
		worker := handworker.New(t, there, "w", queue)
		worker.Settle(worker.Claim(), broker.Complete(nil))

		report, err := inspect.New(here).UndoMove(ctx, queue, inspect.Destination{Broker: there})
		if err != nil || report.Repeated != 1 || report.Done != 2 {
			t.Errorf("UndoMove: %+v, %v; want one job put back, and the other not", report, err)
		}
		if _, err := inspect.New(here).Job(ctx, queue, "ran"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("the job that ran is still here: %v", err)
		}
		if _, err := inspect.New(there).Job(ctx, queue, "waits"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("the job that never left is at the destination: %v", err)
		}
		report, err = inspect.New(here).Select(inspect.Query{Queue: queue, State: broker.StatePending}).
			Move(ctx, inspect.Destination{Broker: there})
		if err != nil || report.Done != 1 || report.Repeated != 0 {
			t.Errorf("the job that was put back cannot be moved: %+v, %v", report, err)
		}
	})
}

func accept(t *testing.T, b broker.Broker, job broker.NewJob) {
	t.Helper()
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job}})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
}
