package pgbroker_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// A batch that waited too long for another transaction's ID is tried job by job. Each of these
// waits less than the batch did: there may be many to wait for.
func TestEnqueue_JobsThatAreTriedAloneWaitLess(t *testing.T) {
	t.Parallel()
	sent := new(statements)
	f := newFixture(t, sent.hook)
	tx := f.begin(pgx.TxOptions{})
	f.store(f.Tx(tx), aJob("taken", given))
	sent.take()
	receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{aJob("free", given), aJob("taken", given),
		aJob("too", given)}})
	f.ok(err)
	for i, r := range receipts {
		if contested := i == 1; errors.Is(r.Err, broker.ErrUnavailable) != contested || !contested && r.Err != nil {
			t.Errorf("%s is answered %v; only the ID that an open transaction has taken is in doubt", r.ID, r.Err)
		} else if contested && !strings.Contains(r.Err.Error(), "another transaction") {
			t.Errorf("%s is answered %q, want that another transaction decides about it", r.ID, r.Err)
		}
	}
	var waits []string
	_, all := sent.take()
	for _, s := range all {
		if !strings.Contains(s.SQL, "set_config('lock_timeout'") {
			continue
		}
		if wait, ok := s.Args[1].(*string); ok && wait != nil {
			waits = append(waits, *wait)
		}
	}
	if want := []string{"500", "20", "20", "20"}; !slices.Equal(waits, want) {
		t.Errorf("the batch and each of its jobs waited for others for %v ms, want %v", waits, want)
	}
}
