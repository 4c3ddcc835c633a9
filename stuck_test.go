package jobs

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestServer_AStuckHandlerIsReportedOnceWithItsStackAndReadinessFailsWhenTheyAreMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		gate := make(chan struct{})
		var mu sync.Mutex
		var events, ends []StuckEvent
		var log testLog
		cfg := Config{Concurrency: 4, Timeout: time.Minute, Logger: log.logger(), Hooks: Hooks{
			Stuck: func(e StuckEvent) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, e)
			},
			Unstuck: func(e StuckEvent) {
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, e)
			},
		}}
		s := serve(t, b, cfg, func(_ context.Context, j *Job) error {
			ignoresItsContext(gate)
			return nil
		})
		seen := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(events)
		}
		add(t, b, DefaultQueue, "a", 1)
		pass(time.Minute + defaultStuckGrace - time.Second)
		if n := seen(); n != 0 {
			t.Errorf("%d reports before the grace is over", n)
		}
		pass(2 * time.Second)
		if n := seen(); n != 1 {
			t.Fatalf("%d reports after the grace, want 1", n)
		}
		if e := events[0]; e.Job.ID() != "a-0" || e.Cause != ErrTimeout || e.Overdue < defaultStuckGrace ||
			!strings.Contains(e.Stack, "ignoresItsContext") {
			t.Errorf("the report is %+v", e)
		}
		if lines := log.lines("stuck"); len(lines) != 1 || !strings.Contains(lines[0], "ignoresItsContext") {
			t.Errorf("the log says %q", lines)
		}
		if err := s.Ready(); err != nil {
			t.Error("one stuck handler of four slots:", err)
		}
		add(t, b, DefaultQueue, "b", 1)
		pass(10 * time.Minute)
		if n := seen(); n != 2 {
			t.Errorf("%d reports of two stuck handlers", n)
		}
		if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "2 of 4") {
			t.Error("with half of the slots stuck, readiness says", err)
		}
		for _, id := range []string{"a-0", "b-0"} {
			expect(t, b, DefaultQueue, id, StateActive) // the lease is held as long as it runs
		}
		if len(ends) != 0 {
			t.Errorf("%d handlers are said to have returned", len(ends))
		}
		close(gate)
		pass(2 * time.Second)
		if err := s.Ready(); err != nil {
			t.Error("after they returned:", err)
		}
		if len(ends) != 2 || ends[0].Cause != ErrTimeout || ends[0].Overdue < defaultStuckGrace || ends[0].Job.ID() == ends[1].Job.ID() {
			t.Errorf("of the two that returned it is said: %+v", ends)
		}
		expect(t, b, DefaultQueue, "a-0", StateCompleted)
	})
}

func ignoresItsContext(gate chan struct{}) { <-gate }

func TestServer_AStuckHandlerThatReturnsAfterTheServerHasEndedIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		gate := make(chan struct{})
		var log testLog
		var reports atomic.Int64 // of those that are stuck
		s := serve(t, b, Config{Timeout: time.Minute, Logger: log.logger(), Hooks: Hooks{
			Stuck:   func(StuckEvent) { reports.Add(1) },
			Unstuck: func(StuckEvent) { reports.Add(-1) },
		}}, func(context.Context, *Job) error {
			ignoresItsContext(gate)
			return nil
		})
		add(t, b, DefaultQueue, "a", 1)
		pass(time.Minute + defaultStuckGrace + time.Second)
		if err := s.Shutdown(t.Context()); err == nil || reports.Load() != 1 {
			t.Errorf("a drain beside a stuck handler: %v, %d handlers are stuck, want an error and 1", err, reports.Load())
		}
		close(gate)
		synctest.Wait()
		if n := reports.Load(); n != 0 {
			t.Errorf("%d handlers are stuck after the last has returned", n)
		}
	})
}
