package jobs

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestAHandlerIsStuckByTheBoundThatAMiddlewareSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		gate := make(chan struct{})
		var events []StuckEvent
		cfg := Config{Concurrency: 2, Timeout: time.Hour, Hooks: Hooks{Stuck: func(e StuckEvent) { events = append(events, e) }}}
		s := serve(t, b, cfg, func(ctx context.Context, j *Job) error {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			before := SetBound(derived, Bound{End: time.Now().Add(time.Minute), Grace: 10 * time.Second})
			if before != (Bound{}) {
				t.Errorf("before the first bound there was %+v", before)
			}
			if again := SetBound(derived, SetBound(derived, Bound{})); again != (Bound{}) {
				t.Errorf("a bound that was withdrawn is %+v", again)
			}
			if j.Type() == "stuck" {
				ignoresItsContext(gate)
			}
			SetBound(derived, before)
			time.Sleep(10 * time.Minute) // no bound holds any more
			return nil
		})
		add(t, b, DefaultQueue, "withdrawn", 1)
		add(t, b, DefaultQueue, "stuck", 1)
		pass(69 * time.Second)
		if len(events) != 0 {
			t.Fatalf("before the grace was over: %+v", events)
		}
		pass(3 * time.Second)
		if len(events) != 1 {
			t.Fatalf("%d reports, want 1", len(events))
		}
		if e := events[0]; e.Job.Type() != "stuck" || e.Cause != ErrTimeout || e.Overdue < 10*time.Second || !strings.Contains(e.Stack, "ignoresItsContext") {
			t.Errorf("the report is %+v", e)
		}
		if err := s.Ready(); err == nil {
			t.Error("the server is ready with half of its slots stuck")
		}
		close(gate)
		pass(time.Hour)
		if len(events) != 1 {
			t.Errorf("%d reports after all returned, want 1", len(events))
		}
	})
}

func TestABoundOutsideOfARunDoesNothing(t *testing.T) {
	t.Parallel()
	for range 2 {
		if before := SetBound(context.Background(), Bound{End: time.Now()}); before != (Bound{}) {
			t.Errorf("SetBound returned %+v", before)
		}
	}
}
