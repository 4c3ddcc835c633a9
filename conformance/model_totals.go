package conformance

import (
	"fmt"

	"github.com/seed81422ce9/jobs/broker"
)

// modelTotals counts what has happened in a queue, from the heads of its jobs.
type modelTotals struct{ broker.Totals }

// ended counts the end of a lease, or a keep, from the heads before and after it.
func (t *modelTotals) ended(kind broker.OutcomeKind, before, after *broker.Head) {
	t.Failed += int64(after.Failures - before.Failures)
	t.Crashed += int64(after.Crashes - before.Crashes)
	switch kind {
	case broker.OutcomeComplete:
		t.Completed++
	case broker.OutcomeCancel:
		t.Cancelled++
	case broker.OutcomeRetry:
		t.Retried++
	case broker.OutcomeDie:
		if t.Dead++; after.Reason == broker.ReasonExpired {
			t.Expired++
		}
	}
}

// took adds the times that an accepted item reports of its run.
func (t *modelTotals) took(item *broker.Settlement) {
	if item.Waited > 0 {
		t.Waits, t.WaitedMicros = t.Waits+1, t.WaitedMicros+item.Waited.Microseconds()
	}
	if item.Ran > 0 {
		t.Runs, t.RanMicros = t.Runs+1, t.RanMicros+item.Ran.Microseconds()
	}
}

// agree compares the store's totals with the model.
func (t *modelTotals) agree(queue string, got broker.Totals) error {
	if got != t.Totals {
		return fmt.Errorf("%s counts in all\n%+v\nwant\n%+v", queue, got, t.Totals)
	}
	return nil
}
