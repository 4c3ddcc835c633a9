package pgbroker_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// checkCounts compares the answer of Queues with the stored rows.
func (f *fixture) checkCounts() {
	f.t.Helper()
	counts := f.counts()
	for state, table := range map[broker.State]string{
		broker.StatePending: "job", broker.StateScheduled: "job", broker.StateActive: "job", broker.StateRetry: "job",
		broker.StateCompleted: "history", broker.StateCancelled: "history", broker.StateDead: "dead",
	} {
		where := fmt.Sprintf(" where state = %d", state)
		if table == "dead" {
			where = ""
		}
		if real := f.ask("select count(*) from jobs." + table + where); counts[state] != real {
			f.t.Errorf("Queues counts %d %s jobs, there are %d", counts[state], state, real)
		}
	}
}

// A claim that had to wait for its worker's row sees the queue as it was before. A job that
// was moved within the queue meanwhile is not claimed: so it must not be counted as claimed,
// nor lose its unique key.
func TestCounts_ACountFollowsWhatAClaimReallyLeased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, aJob("moved", withKey("k", broker.UniqueUntilStarted)), aJob("stays"))

	holder := f.begin(pgx.TxOptions{})
	_, err := holder.Exec(t.Context(), f.in("select from jobs.worker for update"))
	f.ok(err)
	claimed := make(chan []broker.Job, 1)
	go func() { claimed <- f.claim(10, 0) }()
	f.awaitLockWait()
	results, err := f.Operate(t.Context(), broker.Operation{Kind: broker.OpReschedule,
		Refs: []broker.Ref{{Queue: testQueue, ID: "moved", Epoch: broker.AnyEpoch}}}) // to the end of the queue
	f.ok(err)
	f.ok(results[0].Err)
	f.ok(holder.Commit(t.Context()))

	got := <-claimed
	f.checkCounts()
	if len(got) == 1 {
		if r := f.try(f, aJob("rival", withKey("k", broker.UniqueUntilDone))); !errors.Is(r.Err, broker.ErrDuplicate) || r.Holder != "moved" {
			t.Errorf("the key of a job that was not claimed was answered %v with holder %q, want ErrDuplicate with moved", r.Err, r.Holder)
		}
	}
	got = append(got, f.claim(10, 0)...)
	if len(got) != 2 {
		t.Errorf("claimed %v, want both jobs", names(got))
	}
	f.checkCounts()
}

// After any mix of concurrent calls the counts match the rows.
func TestCounts_AreExactAfterEverythingAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, RetainCompleted: &broker.Retention{Age: time.Hour, Count: 20}})
	f.ok(err)
	const producers, jobsEach, turns = 3, 60, 40
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	outcomes := []broker.Outcome{broker.Complete(nil), broker.Retry(0, broker.Failure{}), broker.Retry(time.Millisecond, broker.Failure{}),
		broker.Die(broker.ReasonSkipRetry, broker.Failure{}), broker.Release(), broker.Cancel(broker.Failure{}),
		broker.Snooze(time.Hour, broker.Failure{})}
	var all sync.WaitGroup
	run := func(n uint64, turns int, turn func(r *rand.Rand, i int) error) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, n))
			for i := range turns {
				if err := turn(r, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for p := range producers {
		run(uint64(p), jobsEach, func(r *rand.Rand, i int) error {
			job := aJob(fmt.Sprintf("p%d-%d", p, i), withKey(fmt.Sprint(r.IntN(20)), broker.UniqueMode(r.IntN(2))))
			job.Delay = time.Duration(r.IntN(3)) * time.Millisecond
			_, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job}})
			return err
		})
		worker := fmt.Sprint("worker", p)
		f.register(worker)
		number := int64(0)
		run(uint64(10+p), turns, func(r *rand.Rand, _ int) error {
			got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: worker, Max: 5, Wait: 5 * time.Millisecond,
				Queues: []broker.Share{{Queue: testQueue, Max: 5}}})
			if err != nil || len(got.Jobs) == 0 {
				return err
			}
			number++
			req := broker.SettleRequest{Worker: worker, Number: number}
			for i := range got.Jobs {
				req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: outcomes[r.IntN(len(outcomes))]})
			}
			_, err = f.Settle(t.Context(), req)
			return err
		})
	}
	run(20, turns, func(r *rand.Rand, i int) error {
		ref := broker.Ref{Queue: testQueue, ID: fmt.Sprintf("p%d-%d", r.IntN(producers), r.IntN(jobsEach)), Epoch: broker.AnyEpoch}
		kinds := []broker.OperationKind{broker.OpCancel, broker.OpDelete, broker.OpRedrive, broker.OpReschedule}
		_, err := f.Operate(t.Context(), broker.Operation{Kind: kinds[r.IntN(len(kinds))], Refs: []broker.Ref{ref}})
		return err
	})
	run(21, turns/4, func(*rand.Rand, int) error {
		_, err := f.Prune(t.Context(), broker.PruneRequest{Queues: []string{testQueue}, Max: 10})
		return err
	})
	all.Wait()
	f.checkCounts()
	_, err = f.Retire(t.Context(), broker.RetireRequest{Worker: "worker0", Queues: []string{testQueue}})
	f.ok(err)
	_, err = f.Prune(t.Context(), broker.PruneRequest{Queues: []string{testQueue}, Max: 1000})
	f.ok(err)
	f.checkCounts()
}

// Two operators who repair at once correct each difference once.
func TestCounts_ExaminationsThatRepairAtOnceCorrectOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, aJob("a"))
	f.exec("insert into jobs.count_delta (queue, pending) select id, -7 from jobs.queue")
	// A statement that stores a correction has compared the counts, and waits for the test's lock.
	f.exec("create table jobs.test as select 1 as held")
	f.exec(`create function jobs.await_test() returns trigger language plpgsql
		as 'begin perform held from jobs.test for share; return null; end'`)
	f.exec("create trigger await_test before insert on jobs.count_delta for each statement execute function jobs.await_test()")
	hold := f.begin(pgx.TxOptions{})
	_, err := hold.Exec(t.Context(), f.in("select from jobs.test for update"))
	f.ok(err)
	var repairs errgroup.Group
	for range 2 {
		repairs.Go(func() error {
			for cursor := ""; ; {
				got, err := f.Examine(t.Context(), broker.ExamineRequest{Cursor: cursor, Fix: true})
				if cursor = got.Cursor; err != nil || cursor == "" {
					return err
				}
			}
		})
	}
	testenv.Eventually(t, "both repairs wait, one of them perhaps for the other", func() bool {
		return f.lockWaits()+f.ask("select count(*) from pg_stat_activity where wait_event = 'advisory'") == 2
	})
	f.ok(hold.Commit(t.Context()))
	f.ok(repairs.Wait())
	f.checkCounts()
}
