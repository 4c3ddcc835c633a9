package pgbroker

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// The floor rises to the last number taken before a look, once all transactions that may have
// taken numbers up to it have ended, and never over a delta that is left.
func TestDeltas_FloorWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	var d deltas
	step := func(what string, xmin, xmax, last int64, first *int64, want int64) {
		t.Helper()
		l := d.look()
		l.xmin, l.xmax, l.last, l.first = xmin, xmax, last, first
		d.raise(l)
		if d.floor != want {
			t.Errorf("%s: the floor is %d, want %d", what, d.floor, want)
		}
	}
	left := int64(7)
	step("nothing is known", 100, 110, 5, nil, 0)
	step("5 were drawn before, by transactions below 120", 100, 120, 9, nil, 0)
	step("one of them is open", 119, 130, 12, nil, 0)
	step("all have ended", 120, 130, 12, nil, 5)
	step("12 were drawn before, 7 is left", 140, 140, 12, &left, 6)
	step("and 7 is folded", 150, 150, 12, nil, 12)
	step("a server with another past", 10, 10, 3, nil, 0)
}

// The snapshot of a caller's transaction may be older than transactions that have taken
// numbers and are still open: a look in it says nothing about the floor.
func TestDeltas_ALookInACallersTransactionIsNotTrusted(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.accept(f, job("registers the queue"))
	limit := int64(100)
	_, err := f.Policy(t.Context(), broker.PolicyRequest{Queue: "q", MaxDepth: &limit})
	f.check(err)
	f.accept(f, job("first"))
	known := func() [4]int64 {
		f.deltas.mu.Lock()
		defer f.deltas.mu.Unlock()
		return [4]int64{f.deltas.floor, f.deltas.drawn, f.deltas.next, f.deltas.nextXact}
	}
	before := known()
	old := f.Tx(f.begin(pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))
	receipts, err := old.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job("in the transaction")}})
	for _, r := range receipts {
		err = errors.Join(err, r.Err)
	}
	if !errors.Is(err, broker.ErrUnsupported) { // which it finds out after the look
		t.Errorf("an enqueue in a transaction with one snapshot is answered %v, want ErrUnsupported", err)
	}
	if after := known(); after != before {
		t.Errorf("floor, last number, next floor and its transaction were %v before an enqueue in a caller's transaction, and are %v", before,
			after)
	}
	f.accept(f, job("second"))
	if after := known(); after == before {
		t.Errorf("an enqueue of the broker's own changed nothing of what is known of the numbers, %v: the test proves nothing", after)
	}
}
