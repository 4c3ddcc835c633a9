package pgbroker_test

import (
	"errors"
	"slices"
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

// While a snapshot is open, the deltas that were folded since stay in their table. Enqueues
// into a queue with a depth limit do not read them, nor do calls that add deltas up or fold
// more.
func TestDeltas_OldSnapshotMakesNoUseDearer(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixtureAlone(t, sent.hook)
	f.limitDepth(100)
	f.keepDead()
	f.exec("insert into jobs.count_delta (queue, pending) select q.id, 0 from jobs.queue q, generate_series(1, 50000)")
	f.fold()
	for range 3 { // looks that raise the floor
		f.store(f, aJob("a"))
		f.settle(f.claim(1, 0), broker.Complete(nil))
		f.counts()
	}
	sent.take()
	f.store(f, aJob("b"))
	f.counts()
	f.fold()
	_, all := sent.take()
	for _, use := range []struct{ what, in string }{
		{"to look at the depth", "d.n > $2"},
		{"to look at the deltas", "count_delta_n_seq"},
		{"to add them up", "with delta as"},
		{"to fold more", "with taken as"},
	} {
		i := slices.IndexFunc(all, func(s pgx.TraceBatchQueryData) bool {
			return strings.Contains(s.SQL, use.in) && strings.Contains(s.SQL, "count_delta")
		})
		if i < 0 {
			t.Errorf("no statement was sent %s", use.what)
			continue
		}
		with := f.pagesOf(all[i].SQL, all[i].Args...)
		all[i].Args[1] = int64(0)
		if without := f.pagesOf(all[i].SQL, all[i].Args...); with > 50 || without < 200 {
			t.Errorf("%s takes %d pages, and %d without a floor; want at most 50, and what the snapshot keeps", use.what, with, without)
		}
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
