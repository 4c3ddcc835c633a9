package inspect

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// interruptedStore is a store whose caller gives up during an operation.
type interruptedStore struct {
	*membroker.Broker
	giveUp context.CancelFunc
}

func (s *interruptedStore) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	s.giveUp()
	results, err := s.Broker.Operate(context.WithoutCancel(ctx), op)
	if ctx.Err() != nil {
		return nil, ctx.Err() // the answer is lost
	}
	return results, err
}

func TestInterrupt_AnInterruptedDecisionKnowsWhatItDid(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	store := &interruptedStore{membroker.New(), cancel}
	t.Cleanup(func() { _ = store.Close() })
	c := newTestClient(t, store, jobs.ClientConfig{})
	for range 3 {
		mustEnqueue(t, c, jobs.NewTask("mail", nil))
	}
	all := New(store).Select(Query{Queue: "default", State: broker.StatePending})
	report, err := all.PerSecond(1).Delete(ctx)
	if !errors.Is(err, context.Canceled) || report.Done != 1 {
		t.Errorf("an interrupted deletion reports %+v, %v; want one job done", report, err)
	}
	if report, err := all.Delete(ctx); !errors.Is(err, context.Canceled) || report.Done != 0 {
		t.Errorf("a deletion that was interrupted before it began reports %+v, %v", report, err)
	}
	if left, err := New(store).Queue(t.Context(), "default"); err != nil || left.Counts[broker.StatePending] != 2 {
		t.Errorf("there are %d jobs, %v; want 2 of 3", left.Counts[broker.StatePending], err)
	}
}

// An import that is repeated looks at each job that exists already. Who interrupts it there interrupted it, too.
func TestInterrupt_AnImportOfJobsThatExistSaysThatItWasInterrupted(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	mustEnqueue(t, newTestClient(t, store, jobs.ClientConfig{}), jobs.NewTask("mail", nil))
	var lines bytes.Buffer
	if _, err := New(store).Select(Query{Queue: "default", State: broker.StatePending}).Export(t.Context(), &lines); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := broker.Wrap(store, func(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
		if _, ok := call.Request.(*broker.Query); ok {
			cancel()
		}
		return next(ctx)
	})
	report, err := New(interrupted).Import(ctx, &lines, ImportConfig{})
	if !errors.Is(err, context.Canceled) || report.Lines != 1 || report.Done != 0 {
		t.Errorf("an interrupted import reports %+v, %v", report, err)
	}
}
