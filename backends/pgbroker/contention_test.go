package pgbroker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// A call that waits for several unique keys or IDs takes them in the same order as all others,
// whatever order its caller put them in: so batches that share some do not deadlock. The
// positions of the rows in their table tell in which order they were taken.
func TestEnqueue_TakesKeysAndIDsInTheirOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	restored := func(j *broker.NewJob) {
		j.Restore = &broker.Restored{State: broker.StatePending, CreatedAt: time.Unix(1_700_000_000, 0)}
	}
	for n, kind := range [][]func(*broker.NewJob){{given}, {given, restored}} {
		var jobs []broker.NewJob
		for _, i := range []int{2, 0, 3, 1} {
			jobs = append(jobs, aJob(fmt.Sprintf("id%d%d", n, i), append(kind, withKey(fmt.Sprintf("key%d%d", n, i), broker.UniqueUntilDone))...))
		}
		f.store(f, jobs...)
	}
	for _, column := range []string{"id from jobs.job", "key from jobs.unique_key"} {
		var taken []string
		rows, err := f.direct.Query(t.Context(), f.in("select "+column+" order by ctid"))
		f.ok(err)
		for rows.Next() {
			var name string
			f.ok(rows.Scan(&name))
			taken = append(taken, name)
		}
		f.ok(rows.Err())
		if len(taken) != 8 || !slices.IsSorted(taken) {
			t.Errorf("%s were taken in the order %v, want all 8 in their own", column, taken)
		}
	}
}

// IDs are taken in their own order; jobs run in that of the batch.
func TestEnqueue_BatchOfGivenIDsKeepsItsOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := []string{"m", "c", "z", "a", "q"}
	var jobs []broker.NewJob
	for _, id := range want {
		jobs = append(jobs, aJob(id, given))
	}
	f.store(f, jobs...)
	if got := names(f.claim(10, 0)); !slices.Equal(got, want) {
		t.Errorf("claimed %v, want the order of the batch, %v", got, want)
	}
}

// A unique key is held from the instant at which its job is created. From an earlier one, it
// would run out while the job still has a right to it.
func TestEnqueue_KeyIsHeldFromTheJobsCreation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const ttl = time.Hour
	job := aJob("a", withKey("k", broker.UniqueUntilDone))
	job.Body.Unique.TTL = ttl
	f.store(f, job)
	short := f.ask("select j.created_at + $1 - u.until from jobs.job j join jobs.unique_key u on u.job = j.id", ttl.Microseconds())
	if short != 0 {
		t.Errorf("the key is free %d µs before its time since the job's creation is over", short)
	}
}

// Dropping a partition blocks all that read or write records. The call stops at the first drop
// that would have to wait, so that enqueues wait behind one short wait at most.
func TestPrune_StopsAtTheFirstDropThatWaits(t *testing.T) {
	t.Parallel()
	var sent statements
	f := newFixture(t, sent.hook)
	for day := 1000; day < 1003; day++ {
		f.exec(fmt.Sprintf("create table jobs.history_%[1]d partition of jobs.history for values in (%[1]d)", day))
	}
	dump := f.begin(pgx.TxOptions{})
	_, err := dump.Exec(t.Context(), f.in("lock table jobs.history in access share mode"))
	f.ok(err)
	_, err = f.Prune(t.Context(), broker.PruneRequest{Queues: []string{testQueue}, Max: 10})
	f.ok(err)
	drops := 0
	_, all := sent.take()
	for _, s := range all {
		if strings.HasPrefix(s.SQL, "drop table") {
			drops++
		}
	}
	if drops != 1 {
		t.Errorf("Prune tried to drop %d partitions beside a dump, want it to stop at the first of 3", drops)
	}
}

// A removal that fails because of an open transaction that has written blocks nobody.
func TestRemoveQueue_BesideAnOpenTransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, aJob("registers the queue"))
	_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: "idle", MaxDepth: new(int64(broker.NoLimit))})
	f.ok(err)
	remove := func() error {
		results, err := f.Operate(t.Context(), broker.Operation{Kind: broker.OpRemoveQueue,
			Refs: []broker.Ref{{Queue: "idle", Epoch: broker.AnyEpoch}}})
		if err == nil {
			err = results[0].Err
		}
		return err
	}
	tx := f.begin(pgx.TxOptions{})
	f.store(f.Tx(tx), aJob("open"))
	removed := make(chan error)
	go func() { removed <- remove() }()
	for done := false; !done; {
		select {
		case err := <-removed:
			if done = true; !errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("removal beside an open transaction: %v, want ErrUnavailable: a job may be on its way", err)
			}
		default:
			if n := f.ask("select count(*) from pg_locks where not granted and relation = 'jobs.job'::regclass"); n > 0 {
				t.Fatal("the removal waits for a lock on the table of jobs, and all writers behind it")
			}
		}
	}
	if n := f.ask("select count(*) from jobs.queue where leaving"); n != 0 {
		t.Error("the queue is still said to be leaving after its removal has failed")
	}
	f.ok(tx.Commit(t.Context()))
	f.ok(remove())
	if n := f.ask("select count(*) from jobs.queue where name = 'idle'"); n != 0 {
		t.Error("the queue is there after its removal")
	}
}

// A queue that is leaving stays if its policy is set, with that policy.
func TestRemoveQueue_SeesThatTheQueueIsToStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limit := int64(7)
	set := func() {
		_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: "idle", MaxDepth: &limit})
		f.ok(err)
	}
	set()
	tx := f.begin(pgx.TxOptions{})
	f.store(f.Tx(tx), aJob("open"))
	removed := make(chan error)
	go func() {
		results, err := f.Operate(t.Context(), broker.Operation{Kind: broker.OpRemoveQueue,
			Refs: []broker.Ref{{Queue: "idle", Epoch: broker.AnyEpoch}}})
		removed <- errors.Join(err, results[0].Err)
	}()
	f.awaitLeaving(removed)
	set()
	f.ok(tx.Commit(t.Context()))
	if err := <-removed; !errors.Is(err, broker.ErrWrongState) {
		t.Errorf("removal of a queue whose policy was set meanwhile: %v, want ErrWrongState", err)
	}
	if n := f.ask("select count(*) from jobs.queue where name = 'idle' and max_depth = 7 and not leaving"); n != 1 {
		t.Error("the queue is gone, or leaving, after its policy was set")
	}
}

// awaitLeaving returns once a queue is marked as leaving.
func (f *fixture) awaitLeaving(removed <-chan error) {
	f.t.Helper()
	for f.ask("select count(*) from jobs.queue where leaving") == 0 {
		select {
		case err := <-removed:
			f.t.Fatalf("the queue was never said to be leaving: %v", err)
		default:
		}
	}
}

// The removal of a queue sees a job that an open transaction has stored in it.
func TestRemoveQueue_SeesAJobOnItsWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in := func(j *broker.NewJob) { j.Queue = "idle" }
	_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: "idle", MaxDepth: new(int64(broker.NoLimit))})
	f.ok(err)
	tx := f.begin(pgx.TxOptions{})
	f.store(f.Tx(tx), aJob("open", in))
	removed := make(chan error)
	go func() {
		results, err := f.Operate(t.Context(), broker.Operation{Kind: broker.OpRemoveQueue,
			Refs: []broker.Ref{{Queue: "idle", Epoch: broker.AnyEpoch}}})
		removed <- errors.Join(err, results[0].Err)
	}()
	f.awaitLeaving(removed)
	f.ok(tx.Commit(t.Context()))
	if err := <-removed; !errors.Is(err, broker.ErrWrongState) {
		t.Errorf("removal of a queue for which a job came: %v, want ErrWrongState", err)
	}
	if n := f.ask("select count(*) from jobs.job j join jobs.queue q on q.id = j.queue where not q.leaving"); n != 1 {
		t.Errorf("%d jobs are in queues that are there to stay, want the one", n)
	}
}

// A killed operator has left a queue marked as leaving. Whatever comes for it removes the
// mark.
func TestRemoveQueue_WhateverComesLetsTheQueueStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	restored := func(j *broker.NewJob) { j.Restore = &broker.Restored{State: broker.StatePending} }
	f.store(f, aJob("first", fresh))
	for name, come := range map[string]func(){
		"a plain job":    func() { f.store(f, aJob("plain", fresh)) },
		"a job":          func() { f.store(f, aJob("later", func(j *broker.NewJob) { j.Delay = time.Hour })) },
		"a given ID":     func() { f.store(f, aJob("given", given)) },
		"a unique key":   func() { f.store(f, aJob("key", withKey("k", broker.UniqueUntilDone))) },
		"a restored job": func() { f.store(f, aJob("restored", restored)) },
		"a transaction": func() {
			tx := f.begin(pgx.TxOptions{})
			f.store(f.Tx(tx), aJob("tx", withKey("t", broker.UniqueUntilDone)))
			f.ok(tx.Commit(t.Context()))
		},
		"a worker": func() { f.register("w2") },
		"a policy": func() {
			_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, MaxDepth: new(int64(broker.NoLimit))})
			f.ok(err)
		},
	} {
		f.exec("update jobs.queue set leaving = true")
		come()
		if n := f.ask("select count(*) from jobs.queue where leaving"); n != 0 {
			t.Errorf("the queue is still leaving after %s came for it", name)
		}
	}
	if n := f.ask("select count(*) from jobs.unique_key u where not exists (select from jobs.job where id = u.job)"); n != 0 {
		t.Errorf("%d unique keys are held by jobs that were not stored", n)
	}
}

// A job can exist beside a record of its ID, if it was enqueued while a repeat of it ended. A
// further repeat removes only what it stored itself.
func TestEnqueue_RepeatLeavesAJobBesideItsRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, aJob("b", given, func(j *broker.NewJob) { j.Body.Retention = time.Hour }))
	f.settle(f.claim(1, 0), broker.Complete(nil))
	f.store(f, aJob("a", given))
	f.exec("update jobs.history set id = 'a' where id = 'b'")
	if r := f.try(f, aJob("a", given)); !errors.Is(r.Err, broker.ErrDuplicate) {
		t.Errorf("the repeat is answered with %v, want ErrDuplicate", r.Err)
	}
	if got := names(f.claim(2, 0)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("claimed %v after the repeat, want the job that was there before, a", got)
	}
}

// A claim reports that its byte limit left jobs out, also if priorities take turns.
func TestClaim_RoundsSayThatBytesLeftSomeOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, PriorityRound: new(int64(5))})
	f.ok(err)
	f.store(f, series("a", 3)...)
	for left := 2; left >= 0; left-- {
		got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: testWorker, Max: 3, Bytes: 1,
			Queues: []broker.Share{{Queue: testQueue, Max: 3}}})
		f.ok(err)
		if len(got.Jobs) != 1 || got.More != (left > 0) {
			t.Errorf("claimed %v with More %v while %d more jobs are pending, want one job and More %v", names(got.Jobs), got.More, left, left > 0)
		}
	}
}
