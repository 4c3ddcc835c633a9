package pgbroker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

func (f *fixture) limitDepth(n int64) {
	f.t.Helper()
	_, err := f.Policy(f.t.Context(), broker.PolicyRequest{Queue: testQueue, MaxDepth: &n})
	f.ok(err)
}

func (f *fixture) fold() {
	f.t.Helper()
	_, err := f.Prune(f.t.Context(), broker.PruneRequest{Queues: []string{testQueue}, Max: 1000})
	f.ok(err)
}

// While a snapshot is open, the deltas that were folded since stay in their
// table. An enqueue into a queue with a depth limit does not step over them.
func TestEnqueue_OldSnapshotMakesDepthLimitsNoDearer(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	f.limitDepth(100)
	old := f.begin(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	_, err := old.Exec(t.Context(), "select count(*) from "+f.schema+".job") // takes the snapshot
	f.ok(err)
	f.exec("insert into jobs.count_delta (queue, pending) select q.id, 0 from jobs.queue q, generate_series(1, 50000)")
	f.fold()
	// Transactions of other tests may hold the floor back for a while.
	var with, without int64
	for range 200 {
		f.store(f, aJob("a"))
		f.settle(f.claim(1, 0), broker.Complete(nil))
		sent.take()
		f.store(f, aJob("b"))
		f.settle(f.claim(1, 0), broker.Complete(nil))
		_, all := sent.take()
		for _, s := range all {
			if strings.Contains(s.SQL, "count_delta_n_seq") {
				with = f.pagesOf(s.SQL, s.Args...)
				s.Args[2] = int64(0)
				without = f.pagesOf(s.SQL, s.Args...)
				break
			}
		}
		if with <= 50 {
			break
		}
	}
	if with > 50 || without < 200 {
		t.Errorf("to look at the depth takes %d pages, and %d without a floor; want at most 50, and what the snapshot keeps", with, without)
	}
}

// A transaction that commits late brings deltas with low numbers: they are under
// no floor.
func TestEnqueue_DepthCountsWhatCommitsLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, aJob("first"), aJob("second"))
	f.limitDepth(10)
	tx := f.begin(pgx.TxOptions{})
	f.store(f.Tx(tx), aJob("late1"), aJob("late2"), aJob("late3"))
	for _, id := range []string{"a", "b", "c"} {
		f.store(f, aJob(id))
		f.fold()
	}
	f.ok(tx.Commit(t.Context()))
	receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: series("x", 5)})
	f.ok(err)
	for i, r := range receipts {
		if refused := errors.Is(r.Err, broker.ErrQueueFull); refused != (i >= 2) {
			t.Errorf("job %d of 5 into a queue of 10 with 8 was answered %v", i, r.Err)
		}
	}
}
