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

// handled is a job whose handler runs.
type handled struct {
	record *broker.Job
	result []byte
	marked bool
}

func (h *handled) Record() *broker.Job { return h.record }
func (h *handled) Result() []byte      { return h.result }
func (h *handled) Kept() broker.Kept {
	return broker.Kept{Progress: broker.Progress{Done: 1, Note: "done"}}
}
func (h *handled) CompletesInTx() { h.marked = true }

// handlersTx is a transaction of a handler.
type handlersTx struct {
	*callersTx
	complete func(ctx context.Context, job pgbroker.Completing) error
}

// forEachHandlersTx runs a test with both kinds of transactions. There is a table
// for the handler's effects.
func forEachHandlersTx(t *testing.T, test func(t *testing.T, f *fixture, begin func() *handlersTx)) {
	t.Parallel()
	t.Run("pgx", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.exec("create table jobs.effect (job text)")
		test(t, f, func() *handlersTx {
			tx := f.begin(pgx.TxOptions{})
			return &handlersTx{
				callersTx: &callersTx{
					exec: func(sql string, args ...any) error {
						_, err := tx.Exec(t.Context(), f.in(sql), args...)
						return err
					},
					text:     func(sql string) (s string, err error) { return s, tx.QueryRow(t.Context(), f.in(sql)).Scan(&s) },
					commit:   func() error { return tx.Commit(t.Context()) },
					rollback: func() error { return tx.Rollback(t.Context()) },
				},
				complete: func(ctx context.Context, job pgbroker.Completing) error { return f.CompleteTx(ctx, tx, job) },
			}
		})
	})
	t.Run("database/sql", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.exec("create table jobs.effect (job text)")
		db := stdlib.OpenDBFromPool(f.direct)
		t.Cleanup(func() { db.Close() })
		test(t, f, func() *handlersTx {
			tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
			f.ok(err)
			t.Cleanup(func() { tx.Rollback() })
			return &handlersTx{
				callersTx: &callersTx{
					exec: func(query string, args ...any) error {
						_, err := tx.ExecContext(t.Context(), f.in(query), args...)
						return err
					},
					text: func(query string) (s string, err error) {
						return s, tx.QueryRowContext(t.Context(), f.in(query)).Scan(&s)
					},
					commit:   tx.Commit,
					rollback: tx.Rollback,
				},
				complete: func(ctx context.Context, job pgbroker.Completing) error { return f.CompleteSQLTx(ctx, tx, job) },
			}
		})
	})
}

// claimed stores a job and claims it.
func (f *fixture) claimed(id string, changes ...func(*broker.NewJob)) *handled {
	f.t.Helper()
	f.store(f, aJob(id, changes...))
	jobs := f.claim(1, 0)
	if len(jobs) != 1 || jobs[0].ID != id {
		f.t.Fatalf("claimed %v, want %s", names(jobs), id)
	}
	return &handled{record: &jobs[0]}
}

func (f *fixture) effects() int64 { f.t.Helper(); return f.ask("select count(*) from jobs.effect") }

func retained(j *broker.NewJob) { j.Body.Retention = time.Hour }

func TestCompletetx_ACommitCompletesTheJobWithItsEffect(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		job := f.claimed("a", retained, withKey("k", broker.UniqueUntilDone))
		job.result = []byte("receipt\x00")
		tx := begin()
		f.ok(tx.exec("insert into jobs.effect values ('a')"))
		f.ok(tx.complete(t.Context(), job))
		if !job.marked {
			t.Error("the job was not told that a transaction completes it")
		}
		if n := f.counts()[broker.StateActive]; n != 1 || f.effects() != 0 {
			t.Errorf("before the commit %d jobs are active and %d effects visible, want 1 and 0", n, f.effects())
		}
		f.ok(tx.commit())

		page, err := f.Find(t.Context(), broker.Query{Queue: testQueue, IDs: []string{"a"}})
		f.ok(err)
		if len(page.Jobs) != 1 || page.Jobs[0].State != broker.StateCompleted || string(page.Jobs[0].Result) != "receipt\x00" ||
			page.Jobs[0].Deliveries != 1 {
			t.Errorf("after the commit the store has %+v, want the completed job with its result", page.Jobs)
		}
		if n := f.counts(); n[broker.StateActive] != 0 || n[broker.StateCompleted] != 1 || f.effects() != 1 {
			t.Errorf("counts are %v with %d effects, want one completed and one effect", n, f.effects())
		}
		f.store(f, aJob("b", withKey("k", broker.UniqueUntilDone))) // the key is free
		verdicts, err := f.Settle(t.Context(), broker.SettleRequest{Worker: testWorker, Number: 1,
			Items: []broker.Settlement{{Job: job.record, Outcome: broker.Retry(0, broker.Failure{Message: "late"})}}})
		f.ok(err)
		if !errors.Is(verdicts[0].Err, broker.ErrLeaseLost) {
			t.Errorf("the settle after the commit was answered %v, want ErrLeaseLost", verdicts[0].Err)
		}
	})
}

func TestCompletetx_ARollbackLeavesTheJobAndItsLease(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		job := f.claimed("a", retained, given, withKey("k", broker.UniqueUntilDone))
		counts, content := f.counts(), f.content()
		tx := begin()
		f.ok(tx.exec("insert into jobs.effect values ('a')"))
		f.ok(tx.complete(t.Context(), job))
		f.ok(tx.rollback())
		if now := f.content(); !reflect.DeepEqual(now, content) || !reflect.DeepEqual(f.counts(), counts) {
			t.Errorf("the rollback left something behind:\n%v\nbefore the transaction:\n%v", now, content)
		}
		again := begin()
		f.ok(again.exec("insert into jobs.effect values ('a')"))
		f.ok(again.complete(t.Context(), job))
		f.ok(again.commit())
		if f.effects() != 1 {
			t.Errorf("there are %d effects after a rollback and a commit, want 1", f.effects())
		}
	})
}

func TestCompletetx_WithoutItsLeaseAHandlerCanCommitNothing(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		lost := map[string]func(*handled){
			"settled": func(job *handled) { f.settle([]broker.Job{*job.record}, broker.Complete(nil)) },
			"released and claimed again": func(job *handled) {
				f.settle([]broker.Job{*job.record}, broker.Release())
				if again := f.claim(1, 0); len(again) != 1 {
					t.Fatal("the released job was not to be had")
				}
			},
			"an older epoch": func(job *handled) { job.record.Epoch-- },
			"another worker": func(job *handled) { job.record.Worker = "w2" },
			"another queue":  func(job *handled) { job.record.Queue = "nowhere" },
			"another ID":     func(job *handled) { job.record.ID = "nothing" },
			"already in a tx": func(job *handled) {
				tx := begin()
				f.ok(tx.complete(t.Context(), job))
				f.ok(tx.commit())
				job.marked = false
			},
		}
		for name, lose := range lost {
			job := f.claimed("job " + name)
			lose(job)
			tx := begin()
			f.ok(tx.exec("insert into jobs.effect values ('twice')"))
			if err := tx.complete(t.Context(), job); !errors.Is(err, broker.ErrLeaseLost) || broker.MayHaveApplied(err) {
				t.Errorf("%s: the error is %v, want ErrLeaseLost", name, err)
			}
			if job.marked {
				t.Errorf("%s: the job was told that a transaction completes it", name)
			}
			if err := tx.commit(); err == nil {
				t.Errorf("%s: the commit succeeded", name)
			}
			if f.effects() != 0 {
				t.Fatalf("%s: the effect of a lost lease is there", name)
			}
		}
	})
}

func TestCompletetx_ABadCompletionCanCommitNothing(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		ended, end := context.WithCancel(t.Context())
		end()
		for name, c := range map[string]struct {
			ctx    context.Context
			result []byte
			want   error
		}{
			"too large a result": {t.Context(), make([]byte, broker.MaxResult+1), broker.ErrTooLarge},
			"an ended context":   {ended, nil, context.Canceled},
		} {
			job := f.claimed(name)
			job.result = c.result
			tx := begin()
			f.ok(tx.exec("insert into jobs.effect values ('unfinished')"))
			if err := tx.complete(c.ctx, job); !errors.Is(err, c.want) {
				t.Errorf("%s: the error is %v, want %v", name, err, c.want)
			}
			if err := tx.commit(); err == nil || job.marked || f.effects() != 0 {
				t.Errorf("%s: commit %v, marked %v, %d effects; want a refused commit", name, err, job.marked, f.effects())
			}
		}
	})
}

func TestCompletetx_AnOpenTransactionKeepsTheJobFromOthers(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		job := f.claimed("a")
		tx := begin()
		f.ok(tx.exec("insert into jobs.effect values ('a')"))
		f.ok(tx.complete(t.Context(), job))
		verdict := make(chan broker.Verdict, 1)
		go func() {
			verdicts, err := f.Settle(t.Context(), broker.SettleRequest{Worker: testWorker, Number: 1,
				Items: []broker.Settlement{{Job: job.record, Outcome: broker.Release()}}})
			if err != nil {
				verdicts = []broker.Verdict{{Err: err}}
			}
			verdict <- verdicts[0]
		}()
		f.awaitLockWait()
		f.ok(tx.commit())
		if v := <-verdict; !errors.Is(v.Err, broker.ErrLeaseLost) {
			t.Errorf("the release that waited for the commit was answered %+v, want ErrLeaseLost", v)
		}
		if got := f.claim(1, 0); len(got) != 0 || f.effects() != 1 {
			t.Errorf("claimed %v with %d effects, want no job and one effect", names(got), f.effects())
		}
	})
}

func TestCompletetx_TheHandlersSettingsStayAsTheyWere(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		const all = `select string_agg(name || '=' || setting, ' ' order by name) from pg_settings where name not like 'transaction%'`
		job := f.claimed("a")
		tx := begin()
		f.ok(tx.exec("set local lock_timeout = '7s'; set local plan_cache_mode = force_custom_plan; set local search_path = pg_catalog"))
		before, err := tx.text(all)
		f.ok(err)
		f.ok(tx.complete(t.Context(), job))
		after, err := tx.text(all)
		f.ok(err)
		if before != after {
			t.Errorf("the handler's settings were\n%s\nand are\n%s", before, after)
		}
	})
}

func TestCompletetx_WatchersHearOfTheCommit(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		job := f.claimed("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		events, err := f.Watch(ctx, broker.WatchRequest{Queues: []string{testQueue}})
		f.ok(err)
		tx := begin()
		f.ok(tx.complete(t.Context(), job))
		select {
		case e := <-events:
			t.Fatalf("an event came before the commit: %+v", e)
		default:
		}
		f.ok(tx.commit())
		for e := range events {
			if e.ID == "a" && e.State == broker.StateCompleted {
				return
			}
		}
		t.Error("no event tells of the commit")
	})
}

func TestCompletetx_AJobCanBeCompletedAtAnyIsolation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		job := f.claimed(string(level))
		tx := f.begin(pgx.TxOptions{IsoLevel: level})
		f.ok(f.CompleteTx(t.Context(), tx, job))
		f.ok(tx.Commit(t.Context()))
		if n := f.counts()[broker.StateActive]; n != 0 {
			t.Errorf("%s: %d jobs are still active", level, n)
		}
	}
}

func TestCompletetx_AHandlerOfAnOlderReleaseCompletesNothing(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		job := f.claimed("a")
		f.exec("update jobs.queue set layout = 2")
		tx := begin()
		if err := tx.complete(t.Context(), job); !errors.Is(err, broker.ErrNewerForm) {
			t.Errorf("the error is %v, want ErrNewerForm", err)
		}
	})
}

// takeOver reclaims the jobs of a worker after its leases have run out.
func (f *fixture) takeOver() []broker.Job {
	f.t.Helper()
	now := time.Now().Add(2 * time.Hour)
	_, err := f.Renew(f.t.Context(), broker.RenewRequest{Now: now, Worker: "heir", Queues: []string{testQueue}, Lease: time.Hour,
		Register: true})
	f.ok(err)
	got, err := f.Reclaim(f.t.Context(), broker.ReclaimRequest{Now: now, Worker: "heir", Queues: []string{testQueue}, Max: 10})
	f.ok(err)
	return got.Jobs
}

func TestCompletetx_AnOpenCompletionIsPassedOverByAReclaim(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		job := f.claimed("a")
		tx := begin()
		f.ok(tx.exec("insert into jobs.effect values ('a')"))
		f.ok(tx.complete(t.Context(), job))
		before := f.takeOver()
		f.ok(tx.commit())
		if got := append(before, f.takeOver()...); len(got) != 0 || f.effects() != 1 {
			t.Errorf("%v was taken over, with %d effects; want nothing and one", names(got), f.effects())
		}
	})
}

func TestCompletetx_AReclaimTakesAJobWhoseCompletionWasRolledBack(t *testing.T) {
	forEachHandlersTx(t, func(t *testing.T, f *fixture, begin func() *handlersTx) {
		job := f.claimed("a")
		tx := begin()
		f.ok(tx.complete(t.Context(), job))
		before := f.takeOver()
		f.ok(tx.rollback())
		if got := append(before, f.takeOver()...); len(got) != 1 {
			t.Errorf("%v was taken over, want the job", names(got))
		}
		late := begin()
		f.ok(late.exec("insert into jobs.effect values ('late')"))
		if err := late.complete(t.Context(), job); !errors.Is(err, broker.ErrLeaseLost) {
			t.Errorf("the late completion was answered %v, want ErrLeaseLost", err)
		}
		if err := late.commit(); err == nil || f.effects() != 0 {
			t.Errorf("the commit of the late completion: %v, with %d effects", err, f.effects())
		}
	})
}
