package pgbroker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// While a snapshot is open, the index of leases keeps an entry for each job that was leased
// since. A renewal of a busy worker does not step over them.
func TestRenew_OldSnapshotMakesItNoDearer(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	old := f.begin(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	_, err := old.Exec(t.Context(), "select count(*) from "+f.schema+".job") // takes the snapshot
	f.ok(err)
	f.churn("a", 20_000)
	f.store(f, aJob("x"), aJob("y"))
	f.claim(2, time.Minute)

	renew := broker.RenewRequest{Worker: testWorker, Queues: []string{testQueue}, Lease: time.Hour}
	got, err := f.Renew(t.Context(), renew)
	f.ok(err)
	if got.Held[testQueue] != 2 {
		t.Errorf("the first renewal of a busy worker counts %v, want 2 leases", got.Held)
	}
	_, err = f.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel,
		Refs: []broker.Ref{{Queue: testQueue, ID: "y", Epoch: broker.AnyEpoch}}})
	f.ok(err)
	sent.take()
	got, err = f.Renew(t.Context(), renew)
	f.ok(err)
	if got.Lost || got.Held != nil || got.NextLapse.IsZero() {
		t.Errorf("the second renewal says Lost %t, Held %v, NextLapse %v; want a live worker that was not counted", got.Lost, got.Held,
			got.NextLapse)
	}
	if len(got.Cancel) != 1 || got.Cancel[0].ID != "y" {
		t.Errorf("a renewal that does not count lists %v for cancelling, want y", got.Cancel)
	}
	_, all := sent.take()
	for _, s := range all {
		if !strings.Contains(s.SQL, "from asked") {
			continue
		}
		uncounted := f.pagesOf(s.SQL, s.Args...)
		if counted := f.pagesOf(f.statement("renew_held"), testWorker, []string{testQueue}); uncounted > 50 || counted < 200 {
			t.Errorf("a renewal reads %d pages, and %d when it counts; want at most 50, and what the snapshot keeps", uncounted, counted)
		}
		return
	}
	t.Error("no statement of the renewal lists what is to be cancelled")
}

// A worker that has leased little is counted with every renewal.
func TestRenew_CountsAWorkerThatHasLeasedLittle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, series("a", 3)...)
	for held := range 4 {
		got, err := f.Renew(t.Context(), broker.RenewRequest{Worker: testWorker, Queues: []string{testQueue, "unknown"}, Lease: time.Hour})
		f.ok(err)
		if n, counted := got.Held[testQueue]; !counted || n != held {
			t.Errorf("with %d leases the renewal counts %v", held, got.Held)
		}
		f.claim(1, 0)
	}
}
