package broker

import (
	"testing"
	"time"
)

func TestTotals_SinceIsWhatHappenedInBetween(t *testing.T) {
	t.Parallel()
	before := Totals{Enqueued: 10, Completed: 4, Failed: 1, Waits: 2, WaitedMicros: 10, Runs: 5, RanMicros: 100}
	step := Totals{Enqueued: 3, Completed: 6, Failed: 1, Crashed: 1, Waits: 2, WaitedMicros: 30_000, Runs: 8, RanMicros: 4_000_000}
	after := before.Plus(step)
	if got := after.Since(before); got != step {
		t.Errorf("the difference is\n%+v, want\n%+v", got, step)
	}
	if got := before.Since(after); got != before {
		t.Errorf("since a look at the queue of that name before this one: %+v, want all that it counts, %+v", got, before)
	}
	if wait, run, failures := step.MeanWait(), step.MeanRun(), step.FailureRate(); wait != 15*time.Millisecond ||
		run != 500*time.Millisecond ||
		failures != 0.25 {
		t.Errorf("mean wait %v, mean run %v, failure rate %v, want 15ms, 500ms, 0.25", wait, run, failures)
	}
	if zero := (Totals{}); zero.MeanWait() != 0 || zero.MeanRun() != 0 || zero.FailureRate() != 0 {
		t.Errorf("of nothing: means %v, %v, failure rate %v, want zeroes", zero.MeanWait(), zero.MeanRun(), zero.FailureRate())
	}
}
