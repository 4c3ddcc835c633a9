package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/handworker"
)

// meanwhile is a store that calls a test right before or after a call.
type meanwhile struct {
	broker.Broker
	beforeOperate func(broker.Operation)
	afterEnqueue  func()
}

func (m *meanwhile) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	if m.beforeOperate != nil {
		m.beforeOperate(op)
	}
	return m.Broker.Operate(ctx, op)
}

func (m *meanwhile) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	receipts, err := m.Broker.Enqueue(ctx, req)
	if m.afterEnqueue != nil {
		m.afterEnqueue()
	}
	return receipts, err
}

func waitingJob(id string, payload int) broker.NewJob {
	return broker.NewJob{Queue: "default", ID: id, Body: broker.Body{Type: "t", Priority: 2, Payload: make([]byte, payload)}}
}

func TestMoveRace_ADeadJobThatIsRedrivenMeanwhileStays(t *testing.T) {
	t.Parallel()
	from, to := newPlace(membroker.New()), newPlace(membroker.New())
	from.put(t, pasts()...)
	racing := &meanwhile{Broker: from.Broker, beforeOperate: func(op broker.Operation) {
		if op.Kind == broker.OpDelete {
			if _, err := from.Select(Query{Queue: "default", IDs: []string{"job-dead"}}).Redrive(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}}
	report, err := New(racing).Select(Query{Queue: "default", State: broker.StateDead, Suppressed: true}).Move(t.Context(),
		Destination{Broker: to.Broker})
	if err != nil || report.Done != 0 || report.Refused != 1 || !errors.Is(report.Refusals[0].Err, broker.ErrWrongState) {
		t.Errorf("Move: %+v, %v", report, err)
	}
	if here, there := from.all(t, "default")["job-dead"], to.all(t, "default"); here.State != broker.StatePending || len(there) != 0 {
		t.Errorf("it is %v here, and at the destination is %v", here.State, there)
	}
}

// The moving process died after it had sent two jobs. One of them ran at the destination
// and left no record.
func TestMoveRace_ACopyThatRanDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	for _, undo := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			from, to := newPlace(membroker.New()), newPlace(membroker.New())
			from.put(t, waitingJob("ran", 1), waitingJob("waits", 1))
			worker := handworker.New(t, to.Broker, "w", "default")
			d := &death{}
			dying := &meanwhile{Broker: mortal{to.Broker, d}, afterEnqueue: func() {
				worker.Settle(worker.Claim(), broker.Complete(nil))
				d.dead = true
			}}
			if _, err := New(mortal{from.Broker, d}).Select(Query{Queue: "default", State: broker.StatePending}).Move(t.Context(),
				Destination{Broker: dying}); err == nil {
				t.Fatal("the process did not die")
			}
			finish := from.FinishMove
			if undo {
				finish = from.UndoMove
			}
			report, err := finish(t.Context(), "default", Destination{Broker: to.Broker})
			if err != nil || report.Done != 2 || report.Repeated != 2 {
				t.Errorf("undo %v: %+v, %v", undo, report, err)
			}
			if here, there := from.all(t, "default"), to.all(t, "default"); len(here) != 0 || len(there) != 1 || there["waits"].ID == "" {
				t.Errorf("undo %v: left are %v here and %v there", undo, here, there)
			}
		})
	}
}

// A job that never arrived is put back, and the destination does not remember that it was
// asked for it.
func TestMoveRace_AnUndoneJobCanBeMovedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, to := newPlace(membroker.New()), newPlace(membroker.New())
		from.put(t, waitingJob("a", 1))
		m, err := from.mover(t.Context(), "default", Destination{Broker: to.Broker}, true)
		if err != nil {
			t.Fatal(err)
		}
		hold := broker.Operation{Kind: broker.OpHold, Holder: m.holder, Refs: []broker.Ref{{Queue: "default", ID: "a", Epoch: broker.AnyEpoch}}}
		if _, err := from.Operate(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
		report, err := from.UndoMove(t.Context(), "default", Destination{Broker: to.Broker})
		if here, there := from.all(t, "default"), to.all(t, "default"); err != nil || report.Repeated != 0 ||
			here["a"].State != broker.StatePending || len(there) != 0 {
			t.Errorf("UndoMove: %+v, %v; here are %v, and there %v", report, err, here, there)
		}
		report, err = from.Select(Query{Queue: "default", State: broker.StatePending}).Move(t.Context(), Destination{Broker: to.Broker})
		if err != nil || report.Done != 1 || report.Repeated != 0 {
			t.Errorf("Move: %+v, %v", report, err)
		}
	})
}

// The moving process died after it had sent the job. Then a producer replaced its content
// at the destination.
func TestMoveRace_ACopyThatWasReplacedIsNotPutBack(t *testing.T) {
	t.Parallel()
	for _, undo := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			from, to := newPlace(membroker.New()), newPlace(membroker.New())
			job := waitingJob("a", 1)
			job.Body.Headers = map[string]string{"trace": "1"}
			job.Body.Unique = broker.Unique{Key: "u", Conflict: broker.ConflictReplace}
			from.put(t, job)
			d := &death{}
			dying := &meanwhile{Broker: mortal{to.Broker, d}, afterEnqueue: func() { d.dead = true }}
			if _, err := New(mortal{from.Broker, d}).Select(Query{Queue: "default", State: broker.StatePending}).Move(t.Context(),
				Destination{Broker: dying}); err == nil {
				t.Fatal("the process did not die")
			}
			job.ID, job.Body.Headers, job.Body.CorrelationID = "b", map[string]string{"trace": "2"}, "c"
			to.put(t, job)
			finish := from.FinishMove
			if undo {
				finish = from.UndoMove
			}
			report, err := finish(t.Context(), "default", Destination{Broker: to.Broker})
			if err != nil || report.Refused != 0 || report.Repeated != 1 {
				t.Errorf("undo %v: %+v, %v", undo, report, err)
			}
			if here, there := from.all(t, "default"), to.all(t, "default"); len(here) != 0 || there["a"].Headers["trace"] != "2" {
				t.Errorf("undo %v: here are %v, and there %v", undo, here, there)
			}
		})
	}
}

// A queue also remembers IDs that the library generated.
func TestMoveRace_AnImportedJobThatRanIsNotStoredAgain(t *testing.T) {
	t.Parallel()
	b := newPlace(membroker.New())
	worker := handworker.New(t, b.Broker, "w", "default")
	file := `{"v":1,"queue":"default","id":"a","type":"t","state":"pending","priority":2,"max_retries":0}`
	for _, gone := range []int{0, 1} {
		report, err := b.Import(t.Context(), strings.NewReader(file), ImportConfig{})
		if err != nil || report.Gone != gone || report.Done+report.Gone != 1 {
			t.Errorf("Import: %+v, %v; want %d gone", report, err, gone)
		}
		if gone == 0 {
			worker.Settle(worker.Claim(), broker.Complete(nil))
		}
	}
}

func TestMoveRace_AnInterruptionLetsTheStepEnd(t *testing.T) {
	t.Parallel()
	for _, state := range []broker.State{broker.StatePending, broker.StateDead} {
		from, to := newPlace(membroker.New()), newPlace(membroker.New())
		for n := range 2 * movePage {
			j := waitingJob(fmt.Sprint("p", n), 1)
			j.Restore = &broker.Restored{State: state}
			from.put(t, j)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopping := &meanwhile{Broker: to.Broker, afterEnqueue: cancel}
		report, err := from.Select(Query{Queue: "default", State: state}).Move(ctx, Destination{Broker: stopping})
		if !errors.Is(err, context.Canceled) || report.Done != movePage {
			t.Errorf("Move: %+v, %v", report, err)
		}
		here, there := from.all(t, "default"), to.all(t, "default")
		for id, j := range here {
			if _, twice := there[id]; twice || j.State != state {
				t.Errorf("%s is %v, and at the destination: %v", id, j.State, twice)
			}
		}
		if len(here)+len(there) != 2*movePage {
			t.Errorf("%d are here and %d there", len(here), len(there))
		}
	}
}

// Only the first of several calls of a step reached the store.
func TestMoveRace_AStepThatGotHalfwayIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := newPlace(membroker.New()), newPlace(membroker.New())
		for n := range 10 {
			from.put(t, waitingJob(fmt.Sprint("p", n), 1<<20))
		}
		pending := from.Select(Query{Queue: "default", State: broker.StatePending})
		if _, err := pending.Move(t.Context(), Destination{Broker: &away{to.Broker, 1}}); err == nil || errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("nobody knows what was applied, and the error is %v", err)
		}
		here, there := from.all(t, "default"), to.all(t, "default")
		if len(there) == 0 || len(there) == 10 {
			t.Errorf("%d jobs are at the destination: the test does not get halfway", len(there))
		}
		for id, j := range here {
			if _, twice := there[id]; twice && j.State != broker.StateWaiting {
				t.Errorf("%s can be claimed in both stores", id)
			}
		}
		if report, err := pending.Move(t.Context(), Destination{Broker: to.Broker}); err != nil || report.Done != 10 ||
			report.Repeated != len(there) {
			t.Errorf("the second move: %+v, %v", report, err)
		}
	})
}

func TestMoveRace_AJobThatIsClaimedMeanwhileIsLeftAlone(t *testing.T) {
	t.Parallel()
	from, to := newPlace(membroker.New()), newPlace(membroker.New())
	from.put(t, waitingJob("a", 1), waitingJob("b", 1))
	worker := handworker.New(t, from.Broker, "w", "default")
	racing := &meanwhile{Broker: from.Broker, beforeOperate: func(op broker.Operation) {
		if op.Kind == broker.OpHold {
			worker.Claim()
		}
	}}
	report, err := New(racing).Select(Query{Queue: "default", State: broker.StatePending}).Move(t.Context(), Destination{Broker: to.Broker})
	if err != nil || report.Done != 1 || report.Newer != 1 || report.Refused != 0 {
		t.Errorf("Move: %+v, %v", report, err)
	}
	if here, there := from.all(t, "default"), to.all(t, "default"); len(here) != 1 || here["a"].State != broker.StateActive ||
		len(there) != 1 {
		t.Errorf("here are %v, there %v", here, there)
	}
}
