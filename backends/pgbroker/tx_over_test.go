package pgbroker_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
)

// endings are the ways in which a transaction can end or fail, and whether the driver knows of
// it.
var endings = map[string]struct {
	end    func(tx *callersTx) error
	driver bool
}{
	"committed":           {func(tx *callersTx) error { return tx.commit() }, true},
	"rolled back":         {func(tx *callersTx) error { return tx.rollback() }, true},
	"committed by SQL":    {func(tx *callersTx) error { return tx.exec("commit") }, false},
	"failed and not over": {func(tx *callersTx) error { return ignoring(tx.exec("select 1/0")) }, false},
}

func ignoring(error) error { return nil }

// refusedAsOver checks the error about a transaction that has ended or failed.
func (f *fixture) refusedAsOver(what string, err error, driver bool) {
	f.t.Helper()
	if !errors.Is(err, broker.ErrInvalid) || errors.Is(err, broker.ErrUnavailable) || broker.MayHaveApplied(err) {
		f.t.Errorf("%s: answered %v, want ErrInvalid and nothing applied", what, err)
	}
	if told := errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, sql.ErrTxDone); told != driver {
		f.t.Errorf("%s: the error tells that the driver's transaction is over: %t, want %t (%v)", what, told, driver, err)
	}
}

// The connection of a transaction that is over is soon used by another: what it enqueues or
// completes would be stored at once, or with the other transaction.
func TestTxOver_ATransactionThatIsOverStoresNothing(t *testing.T) {
	forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
		for what, c := range endings {
			tx := begin()
			f.store(tx, aJob("before "+what)) // the queue is known
			f.ok(c.end(tx))
			next := begin()
			_, err := tx.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("late " + what)}})
			f.refusedAsOver(what, err, c.driver)
			f.ok(next.exec("select 1"))
			f.ok(next.commit())
			_ = tx.rollback()
		}
		if stored := f.ask("select count(*) from jobs.job where id like 'late%'"); stored != 0 {
			t.Errorf("%d jobs were stored by transactions that were over", stored)
		}
	})
}

func TestTxOver_ATransactionThatIsOverCompletesNothing(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		for what, c := range endings {
			job := f.claimed(what)
			tx := begin()
			f.ok(tx.exec("select 1"))
			f.ok(c.end(tx.callersTx))
			next := begin()
			f.refusedAsOver(what, tx.complete(t.Context(), job), c.driver)
			f.ok(next.exec("select 1"))
			f.ok(next.commit())
			_ = tx.rollback()
			if job.marked {
				t.Errorf("%s: the job is marked as completed", what)
			}
		}
		if left := f.ask("select count(*) from jobs.job where state = 3"); left != int64(len(endings)) {
			t.Errorf("%d of %d jobs are leased after refused completions", left, len(endings))
		}
	})
}

// A transaction that may only read is the caller's mistake: the store is not to blame.
func TestTxOver_ATransactionThatMayOnlyReadStoresNothing(t *testing.T) {
	forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
		for _, queue := range []string{testQueue, "unknown"} {
			tx := begin()
			f.ok(tx.exec("set transaction read only"))
			r := f.try(tx, aJob("new", func(j *broker.NewJob) { j.Queue = queue }))
			f.refusedAsOver("into queue "+queue, r.Err, false)
			f.ok(tx.exec("select 1"))
		}
	})
}

func TestTxOver_ATransactionThatMayOnlyReadCompletesNothing(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		tx := begin()
		f.ok(tx.exec("set transaction read only"))
		f.refusedAsOver("completed", tx.complete(t.Context(), f.claimed("job")), false)
	})
}

// A program that ignored the error of Begin has a nil transaction.
func TestTxOver_ANilTransactionIsRefusedInWords(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.Tx(nil).Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("a")}})
	_, errSQL := f.SQLTx(nil).Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("a")}})
	for what, err := range map[string]error{
		"Tx": err, "SQLTx": errSQL, "CompleteTx": f.CompleteTx(t.Context(), nil, f.claimed("b")),
		"CompleteSQLTx": f.CompleteSQLTx(t.Context(), nil, f.claimed("c")),
	} {
		f.refusedAsOver(what, err, false)
		if err == nil || !strings.Contains(err.Error(), "transaction: invalid: is nil") {
			t.Errorf("%s(nil) says %v", what, err)
		}
	}
}

// A nested transaction is a savepoint: rolled back, it is over, while the one
// around it goes on, on the same connection.
func TestTxOver_ANestedTransactionThatIsOverStoresNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	plain, err := pgbroker.New(t.Context(), testPool(t, 2), pgbroker.Config{Schema: f.schema, PollOnly: true})
	f.ok(err)
	defer plain.Close()
	for what, b := range map[string]*pgbroker.Broker{"prepared": f.Broker, "poll only": plain} {
		outer := f.begin(pgx.TxOptions{})
		inner, err := outer.Begin(t.Context())
		f.ok(err)
		f.store(b.Tx(inner), aJob("taken back "+what))
		f.ok(inner.Rollback(t.Context()))
		job := f.claimed(what)
		_, err = b.Tx(inner).Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("late " + what)}})
		f.refusedAsOver(what+", enqueue", err, true)
		f.refusedAsOver(what+", complete", b.CompleteTx(t.Context(), inner, job), true)
		f.store(b.Tx(outer), aJob("kept "+what))
		f.ok(outer.Commit(context.Background()))
		if got := f.claim(10, 0); len(got) != 1 || got[0].ID != "kept "+what {
			t.Errorf("%s: claimed %v, want what the outer transaction stored after the nested one", what, names(got))
		}
		if left := f.ask("select count(*) from jobs.job where state = 3 and id = $1", what); left != 1 {
			t.Errorf("%s: a nested transaction that was over completed the job", what)
		}
	}
	if stored := f.ask("select count(*) from jobs.job where id like 'late%' or id like 'taken back%'"); stored != 0 {
		t.Errorf("%d jobs of nested transactions that were rolled back are stored", stored)
	}
}
