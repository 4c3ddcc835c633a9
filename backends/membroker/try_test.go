package membroker

import (
	"errors"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestTry_AnswersAsEnqueueAndLeavesTheStoreAsItWas(t *testing.T) {
	t.Parallel()
	store := NewStore()
	b := store.Open()
	defer b.Close()
	window := newTestJob("q", "window")
	window.Body.Unique = broker.Unique{Key: "w", Mode: broker.UniqueWindow, TTL: time.Hour}
	holder := newTestJob("q", "holder")
	holder.Body.Unique.Key = "u"
	enqueue(t, b, window, holder)
	store.Advance(2 * time.Hour) // the window is over, and not pruned

	given, later, again := newTestJob("q", "given"), newTestJob("q", "later"), newTestJob("q", "again")
	given.Body.GivenID, given.Body.Key = true, "tenant"
	later.Delay, later.Body.Unique = time.Hour, window.Body.Unique
	again.Body.Unique.Key = "u"
	twice := newTestJob("q", "given")
	replacing, debounced := newTestJob("q", "replacing"), newTestJob("q", "debounced")
	replacing.Body.Unique, replacing.Body.Payload = broker.Unique{Key: "u", Conflict: broker.ConflictReplace}, []byte("new")
	debounced.Delay, debounced.Body.Unique = time.Minute, broker.Unique{Key: "u", Conflict: broker.ConflictDebounce, Latest: 9 * time.Hour}
	req := broker.EnqueueRequest{Jobs: []broker.NewJob{given, later, again, twice, replacing, debounced}}
	before := store.dump()
	for _, name := range []string{"Try", "Try again", "Enqueue"} {
		call := b.Try
		if name == "Enqueue" {
			if got := store.dump(); got != before {
				t.Fatalf("Try left\n%swant\n%s", got, before)
			}
			call = b.Enqueue
		}
		got, err := call(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Err != nil || got[0].State != broker.StatePending || got[1].Err != nil || got[1].State != broker.StateScheduled {
			t.Errorf("%s: the first two answer %+v, %+v; want them accepted, pending and scheduled", name, got[0], got[1])
		}
		if got[2].Holder != "holder" || got[3].Holder != "given" || !errors.Is(got[2].Err, broker.ErrDuplicate) ||
			!errors.Is(got[3].Err, broker.ErrDuplicate) {
			t.Errorf("%s: the last two answer %+v, %+v; want duplicates of %q and %q", name, got[2], got[3], "holder", "given")
		}
		if !got[4].Replaced || got[4].State != broker.StatePending || !got[5].Replaced || got[5].State != broker.StateScheduled {
			t.Errorf("%s: those that replace answer %+v, %+v; want the holder, pending and then scheduled", name, got[4], got[5])
		}
	}
	report, err := b.Examine(t.Context(), broker.ExamineRequest{Queue: "q"})
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("examination finds %v, %v", report.Findings, err)
	}
}
