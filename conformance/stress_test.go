package conformance

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// A worker may hear that its job ended after an operator has deleted the record.
func TestStress_TheEarliestCallThatMayHaveEndedAJobCounts(t *testing.T) {
	t.Parallel()
	for _, moments := range [][]int64{{10, 12}, {12, 10}} {
		e := &entry{}
		for _, before := range moments {
			e.mayEnd(before)
		}
		if e.ending != 10 {
			t.Errorf("calls sent after %v\ngot  held until %d\nwant until 10", moments, e.ending)
		}
	}
}

// An answer to a claim may be recorded after another worker has reclaimed and settled the job.
func TestStress_AnOldLeaseIsNotActive(t *testing.T) {
	t.Parallel()
	l := &limitLedger{most: stressed{active: 1, keyActive: 1}, active: map[string]string{}, newest: map[string]int64{}}
	lease := func(epoch int64) []broker.Job { return []broker.Job{{ID: "a", Head: broker.Head{Epoch: epoch}}} }
	if err := l.certain(lease(2)); err != nil || len(l.active) != 1 {
		t.Fatalf("the newest lease\ngot  %v, active: %v\nwant active", err, l.active)
	}
	l.ending(lease(2))
	if err := l.certain(lease(1)); err != nil || len(l.active) != 0 {
		t.Errorf("an older lease\ngot  %v, active: %v\nwant none", err, l.active)
	}
}
