package pgbroker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// held returns a change that gives a job the unique key k.
func held(conflict broker.UniqueConflict) func(*broker.NewJob) {
	return func(j *broker.NewJob) {
		j.Body.Unique = broker.Unique{Key: "k", Mode: broker.UniqueUntilDone, Conflict: conflict}
	}
}

// soon fails the test if f waits for an open transaction.
func (f *fixture) soon(what string, do func(context.Context) error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	if err := do(ctx); err != nil {
		f.t.Errorf("%s beside an open transaction: %v", what, err)
	}
}

// settlesSoon fails the test if the settle of a job waits for an open transaction.
func (f *fixture) settlesSoon(j *broker.Job) {
	f.t.Helper()
	f.soon("the settle of "+j.ID, func(ctx context.Context) error {
		_, err := f.Settle(ctx, broker.SettleRequest{Worker: testWorker, Number: 1,
			Items: []broker.Settlement{{Job: j, Outcome: broker.Complete(nil)}}})
		return err
	})
}

// A job that is refused in the caller's transaction leaves no lock on the holder of its unique key.
func TestTx_ARefusedJobDoesNotDelayTheHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(testWorker)
	f.store(f, aJob("holder", held(broker.ConflictRefuse)))
	jobs := f.claim(1, 0)
	tx := f.begin(pgx.TxOptions{})
	receipts, err := f.Tx(tx).Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("later", held(broker.ConflictReplace))}})
	f.ok(err)
	if !errors.Is(receipts[0].Err, broker.ErrDuplicate) || receipts[0].Holder != "holder" {
		t.Fatalf("a job that meets an active one: %+v, want ErrDuplicate with the holder", receipts[0])
	}
	f.settlesSoon(&jobs[0])
	f.store(f.Tx(tx), aJob("another")) // the transaction goes on
	f.ok(tx.Commit(t.Context()))
}

// Counts of waiting jobs are deltas like all others: an open transaction that made one delays no other change of them.
func TestTx_AWaitingJobDoesNotDelayOthersOfItsQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(testWorker)
	f.store(f, aJob("holder", held(broker.ConflictRefuse)))
	f.claim(1, 0)
	f.store(f, aJob("other"))
	tx := f.begin(pgx.TxOptions{})
	f.store(f.Tx(tx), aJob("behind", held(broker.ConflictKeepLast)))
	for _, kind := range []broker.OperationKind{broker.OpHold, broker.OpUnhold} {
		f.soon(kind.String(), func(ctx context.Context) error {
			r, err := f.Operate(ctx, broker.Operation{Kind: kind, Holder: "somebody", Refs: []broker.Ref{{Queue: testQueue, ID: "other",
				Epoch: broker.AnyEpoch}}})
			if err != nil {
				return err
			}
			return r[0].Err
		})
	}
	f.soon("a prune", func(ctx context.Context) error {
		_, err := f.Prune(ctx, broker.PruneRequest{Queues: []string{testQueue}, Max: 100})
		return err
	})
	if n := f.counts()[broker.StateWaiting]; n != 0 {
		t.Errorf("%d jobs wait before the transaction commits, want 0", n)
	}
	f.ok(tx.Commit(t.Context()))
	if n := f.counts()[broker.StateWaiting]; n != 1 {
		t.Errorf("%d jobs wait after the commit, want 1", n)
	}
}

// The time of a holder's key may end while a job is about to wait behind it. Then the job meets the next holder.
func TestEnqueue_AJobDoesNotWaitBehindAHolderThatLostItsKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(testWorker)
	f.store(f, aJob("holder", held(broker.ConflictRefuse)))
	f.claim(1, 0)
	f.store(f, aJob("next"))
	tx := f.begin(pgx.TxOptions{})
	for _, sql := range []string{"update jobs.job set unique_key = 'k' where id = 'next'",
		"update jobs.unique_key set job = 'next' where key = 'k'"} {
		_, err := tx.Exec(t.Context(), f.in(sql))
		f.ok(err)
	}
	answered := make(chan broker.Receipt, 1)
	go func() {
		receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("last", held(broker.ConflictKeepLast))}})
		if err != nil {
			receipts = []broker.Receipt{{Err: err}}
		}
		answered <- receipts[0]
	}()
	f.awaitLockWait()
	f.ok(tx.Commit(t.Context()))
	if r := <-answered; r.Err != nil || !r.Replaced || r.ID != "next" {
		t.Errorf("a job whose holder lost the key\ngot  %+v\nwant it to replace the next holder", r)
	}
	if n := f.ask("select count(*) from jobs.job where state = 8"); n != 0 {
		t.Errorf("%d jobs wait behind a job that does not hold the key, want 0", n)
	}
}

// An enqueue that is sent again stores nothing, and leaves no lock on the job that holds the unique key now.
func TestTx_ARepeatedReplacementDoesNotDelayTheHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.register(testWorker)
	f.store(f, aJob("holder", held(broker.ConflictRefuse)))
	again := aJob("newer", held(broker.ConflictReplace))
	f.store(f, again)
	jobs := f.claim(1, 0)
	tx := f.begin(pgx.TxOptions{})
	receipts, err := f.Tx(tx).Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{again}})
	f.ok(err)
	if r := receipts[0]; r.Err != nil || !r.Replaced || r.ID != "holder" {
		t.Fatalf("an enqueue sent again: %+v, want the receipt of the first one", r)
	}
	f.settlesSoon(&jobs[0])
	f.ok(tx.Commit(t.Context()))
}
