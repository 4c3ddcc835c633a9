package inspect_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// Jobs from another source are stored once. Unreadable ones are refused, and the others
// are still stored.
func TestInspector_RestoreStoresEachJobOnce(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	i := inspect.New(b)
	unread := errors.New("cannot be read")
	jobs := func(yield func(broker.NewJob, error) bool) {
		for n := range 250 { // more than fit in two calls
			job := broker.NewJob{Queue: "q", ID: string(rune('a'+n%26)) + string(rune('a'+n/26)), Body: broker.Body{Type: "t",
				Priority: broker.PriorityNormal}, Restore: &broker.Restored{State: broker.StateRetry, Head: broker.Head{Failures: 2}},
				RunAt: time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)}
			var err error
			switch n {
			case 7:
				job, err = broker.NewJob{Queue: "q", ID: "bad"}, unread
			case 8:
				job.Restore = nil
			}
			if !yield(job, err) {
				t.Error("the sequence was left early")
				return
			}
		}
	}
	for _, want := range []inspect.ImportReport{{Lines: 250, Done: 248, Refused: 2}, {Lines: 250, Repeated: 248, Refused: 2}} {
		got, err := i.Restore(t.Context(), jobs, inspect.ImportConfig{})
		if err != nil || got.Lines != want.Lines || got.Done != want.Done || got.Repeated != want.Repeated || got.Refused != want.Refused {
			t.Fatalf("Restore: %+v, %v; want %+v", got, err, want)
		}
		if f := got.Refusals[0]; f.ID != "bad" || f.Line != 8 || !errors.Is(f.Err, unread) {
			t.Errorf("the refusal is %+v, want job 8, bad, with its error", f)
		}
		if f := got.Refusals[1]; f.Line != 9 || !errors.Is(f.Err, broker.ErrInvalid) {
			t.Errorf("the refusal is %+v, want job 9, which has no state", f)
		}
	}
	job, err := i.Job(t.Context(), "q", "aa")
	if err != nil || job.State != broker.StateRetry || job.Failures != 2 {
		t.Errorf("the job is %+v, %v", job, err)
	}
}
