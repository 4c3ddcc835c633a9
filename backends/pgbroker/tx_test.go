package pgbroker_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
)

// callersTx is a transaction of an application.
type callersTx struct {
	broker.Producer
	exec     func(sql string, args ...any) error
	text     func(sql string) (string, error)
	commit   func() error
	rollback func() error
}

// forEachTx runs a test with both kinds of transactions.
func forEachTx(t *testing.T, test func(t *testing.T, f *fixture, begin func() *callersTx)) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		test(t, f, func() *callersTx {
			tx := f.begin(pgx.TxOptions{})
			return &callersTx{
				Producer: f.Tx(tx),
				exec: func(sql string, args ...any) error {
					_, err := tx.Exec(t.Context(), f.in(sql), args...)
					return err
				},
				text:     func(sql string) (s string, err error) { return s, tx.QueryRow(t.Context(), f.in(sql)).Scan(&s) },
				commit:   func() error { return tx.Commit(t.Context()) },
				rollback: func() error { return tx.Rollback(t.Context()) },
			}
		})
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		db := stdlib.OpenDBFromPool(f.direct)
		t.Cleanup(func() { db.Close() })
		test(t, f, func() *callersTx {
			tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
			f.ok(err)
			t.Cleanup(func() { tx.Rollback() })
			return &callersTx{
				Producer: f.SQLTx(tx),
				exec: func(query string, args ...any) error {
					_, err := tx.ExecContext(t.Context(), f.in(query), args...)
					return err
				},
				text: func(query string) (s string, err error) {
					return s, tx.QueryRowContext(t.Context(), f.in(query)).Scan(&s)
				},
				commit:   tx.Commit,
				rollback: tx.Rollback,
			}
		})
	})
}

func TestTx_ACommitEnqueuesAndWakes(t *testing.T) {
	forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
		tx := begin()
		f.store(tx, aJob("a"), aJob("b", given), aJob("c", withKey("k", broker.UniqueUntilDone)))
		if got := f.claim(10, 0); len(got) != 0 {
			t.Fatalf("claimed %v before the transaction committed", names(got))
		}
		sent := &statements{ended: make(chan struct{}, 1)}
		other, err := pgbroker.New(t.Context(), testPool(t, 4, sent.hook), pgbroker.Config{Schema: f.schema})
		f.ok(err)
		defer other.Close()
		_, err = other.Watch(t.Context(), broker.WatchRequest{Queues: []string{testQueue}}) // returns once it listens
		f.ok(err)
		claimed := make(chan broker.Claimed, 1)
		went := make(chan error, 1)
		for len(sent.ended) > 0 {
			<-sent.ended
		}
		go func() {
			got, err := other.Claim(t.Context(), broker.ClaimRequest{Worker: testWorker, Max: 10, Wait: time.Minute,
				Queues: []broker.Share{{Queue: testQueue, Max: 10}}})
			claimed <- got
			went <- err
		}()
		<-sent.ended // it found nothing, and waits
		began := time.Now()
		f.ok(tx.commit())
		got := <-claimed
		f.ok(<-went)
		if len(got.Jobs) != 3 || got.Jobs[0].ID != "a" || got.Jobs[1].ID != "b" || got.Jobs[2].ID != "c" {
			t.Errorf("claimed %v after the commit, want a, b and c in turn", names(got.Jobs))
		}
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("the claim that waited in another process took %v after the commit: nobody woke it", took)
		}
	})
}

func TestTx_ARollbackLeavesNothing(t *testing.T) {
	forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
		f.store(f, aJob("present"))
		counts, content := f.counts(), f.content()

		tx := begin()
		f.store(tx, aJob("plain"), aJob("own", given), aJob("keyed", withKey("k", broker.UniqueWindow),
			func(j *broker.NewJob) { j.Body.Unique.TTL = time.Hour }),
			aJob("started", withKey("s", broker.UniqueUntilStarted)), aJob("later", func(j *broker.NewJob) { j.Delay = time.Hour }))
		if r := f.try(tx, aJob("present")); !errors.Is(r.Err, broker.ErrDuplicate) {
			t.Errorf("an ID that exists was answered %v, want ErrDuplicate", r.Err)
		}
		f.ok(tx.rollback())

		if now := f.counts(); !reflect.DeepEqual(now, counts) {
			t.Errorf("counts after the rollback are %v, before the transaction they were %v", now, counts)
		}
		if now := f.content(); !reflect.DeepEqual(now, content) {
			t.Errorf("the rollback left something behind:\n%v\nbefore the transaction:\n%v", now, content)
		}
		if got := f.claim(10, 0); len(got) != 1 || got[0].ID != "present" {
			t.Errorf("claimed %v after the rollback, want the job that was there before", names(got))
		}
		f.store(f, aJob("plain"), aJob("own", given), aJob("another", withKey("k", broker.UniqueUntilDone)),
			aJob("third", withKey("s", broker.UniqueUntilDone)))
	})
}

func TestTx_ASavepointOfTheCallersTakesItsJobsBack(t *testing.T) {
	forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
		tx := begin()
		f.store(tx, aJob("kept"))
		f.ok(tx.exec("savepoint mine"))
		f.store(tx, aJob("undone", given, withKey("k", broker.UniqueUntilDone)))
		f.ok(tx.exec("rollback to savepoint mine"))
		f.store(tx, aJob("again", withKey("k", broker.UniqueUntilDone)))
		f.ok(tx.commit())
		got := f.claim(10, 0)
		if len(got) != 2 || got[0].ID != "kept" || got[1].ID != "again" {
			t.Errorf("claimed %v, want kept and again", names(got))
		}
		if n := f.counts(); n[broker.StateActive] != 2 || n[broker.StatePending] != 0 {
			t.Errorf("counts are %v, want 2 active and none pending", n)
		}
	})
}

func TestTx_ARefusalLeavesTheCallersTransactionUsable(t *testing.T) {
	forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
		f.exec("create table jobs.application (n int)")
		f.store(f, aJob("old", withKey("k", broker.UniqueUntilDone)))
		tx := begin()
		jobs := []broker.NewJob{
			aJob("new"),
			aJob("old"),
			aJob("held", withKey("k", broker.UniqueUntilDone)),
			aJob(""),
			aJob("new"), // the second of this request
			aJob("after"),
		}
		want := []error{nil, broker.ErrDuplicate, broker.ErrDuplicate, broker.ErrInvalid, broker.ErrDuplicate, nil}
		holders := []string{"", "old", "old", "", "new", ""}
		receipts, err := tx.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs})
		f.ok(err)
		for i, r := range receipts {
			if !errors.Is(r.Err, want[i]) || r.Holder != holders[i] {
				t.Errorf("job %d, %q: answered %v with holder %q, want %v with %q", i, jobs[i].ID, r.Err, r.Holder, want[i], holders[i])
			}
		}
		f.ok(tx.exec("insert into jobs.application values (1)"))

		depth := int64(4) // old, new and after leave room for one
		_, err = f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, MaxDepth: &depth})
		f.ok(err)
		f.store(tx, aJob("last"))
		if r := f.try(tx, aJob("over")); !errors.Is(r.Err, broker.ErrQueueFull) {
			t.Errorf("a job over the depth limit was answered %v, want ErrQueueFull", r.Err)
		}
		f.ok(tx.exec("insert into jobs.application values (2)"))
		f.ok(tx.commit())

		if n := f.ask("select count(*) from jobs.application"); n != 2 {
			t.Errorf("%d of the caller's 2 rows were committed", n)
		}
		if got := f.claim(10, 0); len(got) != 4 {
			t.Errorf("claimed %v, want old, new, after and last", names(got))
		}
	})
}

func TestTx_TheCallersSettingsStayAsTheyWere(t *testing.T) {
	forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
		const all = `select string_agg(name || '=' || setting, ' ' order by name) from pg_settings where name not like 'transaction%'`
		tx := begin()
		f.ok(tx.exec("set local lock_timeout = '7s'; set local plan_cache_mode = force_custom_plan; set local search_path = pg_catalog"))
		before, err := tx.text(all)
		f.ok(err)
		f.store(f, aJob("old"))
		f.store(tx, aJob("plain"), aJob("keyed", withKey("k", broker.UniqueUntilDone)))
		if r := f.try(tx, aJob("old")); !errors.Is(r.Err, broker.ErrDuplicate) {
			t.Errorf("an ID that exists was answered %v, want ErrDuplicate", r.Err)
		}
		after, err := tx.text(all)
		f.ok(err)
		if before != after {
			t.Errorf("the caller's settings were\n%s\nand are\n%s", before, after)
		}
	})
}

func TestTx_OnlyATransactionWithOneSnapshotIsRefused(t *testing.T) {
	forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
		for level, refused := range map[string]bool{
			"read uncommitted": false, "read committed": false, "repeatable read": true, "serializable": true,
		} {
			tx := begin()
			f.ok(tx.exec("set transaction isolation level " + level))
			receipts, err := tx.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob(level)}})
			for _, r := range receipts {
				err = errors.Join(err, r.Err)
			}
			if errors.Is(err, broker.ErrUnsupported) != refused || err != nil != refused {
				t.Errorf("%s: an enqueue is answered %v; refused with ErrUnsupported: want %v", level, err, refused)
			}
			f.ok(tx.rollback())
		}
	})
}

func TestTx_TwoTransactionsRaceForAUniqueKey(t *testing.T) {
	t.Parallel()
	rivals := func(f *fixture, begin func() *callersTx, end func(*callersTx) error) broker.Receipt {
		first, second := begin(), begin()
		f.store(first, aJob("first", withKey("k", broker.UniqueUntilDone)))
		answer := make(chan broker.Receipt, 1)
		go func() { answer <- f.try(second, aJob("second", withKey("k", broker.UniqueUntilDone))) }()
		if end != nil {
			f.awaitLockWait()
			f.ok(end(first))
		}
		r := <-answer
		if end != nil && errors.Is(r.Err, broker.ErrUnavailable) {
			// On a busy machine it may have waited too long for the first.
			r = f.try(second, aJob("second", withKey("k", broker.UniqueUntilDone)))
		}
		if err := second.exec("select 1"); err != nil {
			f.t.Errorf("the second transaction is no longer usable: %v", err)
		}
		f.ok(second.commit())
		if end == nil {
			f.ok(first.commit())
		}
		return r
	}
	t.Run("TheFirstCommits", func(t *testing.T) {
		forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
			r := rivals(f, begin, func(tx *callersTx) error { return tx.commit() })
			if !errors.Is(r.Err, broker.ErrDuplicate) || r.Holder != "first" {
				t.Errorf("the second was answered %v with holder %q, want ErrDuplicate with the first", r.Err, r.Holder)
			}
			if got := f.claim(10, 0); len(got) != 1 || got[0].ID != "first" {
				t.Errorf("claimed %v, want the first job alone", names(got))
			}
		})
	})
	t.Run("TheFirstRollsBack", func(t *testing.T) {
		forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
			r := rivals(f, begin, func(tx *callersTx) error { return tx.rollback() })
			if r.Err != nil {
				t.Errorf("the second was answered %v although the first gave up the key", r.Err)
			}
			if got := f.claim(10, 0); len(got) != 1 || got[0].ID != "second" {
				t.Errorf("claimed %v, want the second job alone", names(got))
			}
		})
	})
	t.Run("TheFirstStaysOpen", func(t *testing.T) {
		forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
			r := rivals(f, begin, nil)
			if !errors.Is(r.Err, broker.ErrUnavailable) || broker.MayHaveApplied(r.Err) {
				t.Errorf("the second was answered %v, want ErrUnavailable after the lock timeout", r.Err)
			}
			if got := f.claim(10, 0); len(got) != 1 || got[0].ID != "first" {
				t.Errorf("claimed %v, want the first job alone", names(got))
			}
		})
	})
}
