package pgbroker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// A redrive waits for a unique key that an open transaction has taken no longer than an enqueue does, and sends the other jobs back.
func TestRedrive_WaitsForAUniqueKeyAsLongAsAnEnqueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, aJob("a", withKey("taken", broker.UniqueUntilDone)), aJob("b"), aJob("c", withKey("free", broker.UniqueUntilDone)))
	f.settle(f.claim(3, time.Minute), broker.Die(broker.ReasonSkipRetry, broker.Failure{}))
	tx := f.begin(pgx.TxOptions{})
	f.store(f.Tx(tx), aJob("d", withKey("taken", broker.UniqueUntilDone)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 { // together, then the first alone
		op := broker.Operation{Kind: broker.OpRedrive}
		for _, id := range []string{"a", "b", "c"} {
			op.Refs = append(op.Refs, broker.Ref{Queue: testQueue, ID: id, Epoch: broker.AnyEpoch})
		}
		if f.counts()[broker.StateDead] == 1 {
			op.Refs = op.Refs[:1]
		}
		results, err := f.Operate(ctx, op)
		f.ok(err)
		for _, r := range results {
			if contested := r.Ref.ID == "a"; errors.Is(r.Err, broker.ErrUnavailable) != contested || !contested && r.State != broker.StatePending {
				t.Errorf("%s is %v, %v; want all pending except the job whose key an open transaction has taken", r.Ref.ID, r.State, r.Err)
			}
		}
	}
	f.ok(tx.Rollback(t.Context()))
	results, err := f.Operate(ctx, broker.Operation{Kind: broker.OpRedrive,
		Refs: []broker.Ref{{Queue: testQueue, ID: "a", Epoch: broker.AnyEpoch}}})
	f.ok(err)
	f.ok(results[0].Err)
}
