package schedule

import (
	"errors"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/mortal"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// A server dies just after it enqueued a tick, and no other server runs until the
// next one is due. The stored decision holds: the tick does not count as missed.
func TestSchedule_WhatWasDecidedStands(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(time.Minute), WithMisfire(MisfireOne))
		dying := mortal.New(w.store, counts)
		dying.Lost = true
		cfg := jobs.Config{Lease: time.Second, PollInterval: time.Second}
		w.serve(dying, cfg, ExtensionConfig{})
		pass(50 * time.Second)
		for dying.After.Store(dying.Calls.Load() + 4); !dying.Dead(); { // its calls: Ping, take, keep, Enqueue
			time.Sleep(100 * time.Millisecond)
		}
		if len(w.ran) != 0 || w.info("s").Counts != (Counts{}) {
			t.Fatalf("it died with %v and %v", w.ran, w.info("s").Counts)
		}
		if page, err := w.store.Find(w.Context(), broker.Query{Queue: jobs.DefaultQueue, IDs: []string{"s@2000-01-01T00:01:00Z"}}); err != nil ||
			len(page.Jobs) != 1 {
			t.Fatalf("it died before it enqueued the tick: %v (%v)", page.Jobs, err)
		}
		pass(70 * time.Second)
		w.serve(w.store, cfg, ExtensionConfig{})
		pass(20 * time.Second)
		w.exactly("both ticks", "s", []time.Time{at(t, "2000-01-01T00:01:00Z"), at(t, "2000-01-01T00:02:00Z")})
		if c := w.info("s").Counts; c != (Counts{Enqueued: 2}) {
			t.Errorf("the counts are %+v, want two enqueued and none missed", c)
		}
	})
}

// A run that was overtaken writes nothing.
func TestState_AnOvertakenRunWritesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(time.Hour))
		st, fence, err := w.schedules.take(w.Context(), "s", state{Version: stateVersion})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.schedules.Pause(w.Context(), "s", "ada"); err != nil {
			t.Fatal(err)
		}
		if err := w.schedules.keep(w.Context(), "s", fence, &st); !errors.Is(err, reserved.ErrOvertaken) {
			t.Errorf("writing with an old fence says %v", err)
		}
		if w.info("s").Paused == nil {
			t.Error("the pause was overwritten")
		}
	})
}
