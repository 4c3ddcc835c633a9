package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

func TestPause_AndResume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.put("s", Every(time.Hour), WithMisfire(RunUpTo(100, 0)))
		pass(90 * time.Minute)
		for range 2 {
			if err := w.schedules.Pause(w.Context(), "s", "ada"); err != nil {
				t.Fatal(err)
			}
		}
		pass(3 * time.Hour)
		if p := w.info("s").Paused; p == nil || p.By != "ada" {
			t.Errorf("it is paused by %+v", p)
		}
		w.put("s", Every(time.Hour), WithMisfire(RunUpTo(99, 0)))
		pass(3 * time.Hour)
		if err := w.schedules.Resume(w.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if got := fmt.Sprint(w.ticks()); got != "[2000-01-01T01:00:00Z 2000-01-01T08:00:00Z]" {
			t.Errorf("ran %v; it was paused from 1:30 to 7:30", got)
		}
		if c := w.info("s").Counts; c.Missed() != 0 || c.Enqueued != 2 {
			t.Errorf("the counts are %+v", c)
		}
		for _, err := range []error{w.schedules.Pause(w.Context(), "none", ""), w.schedules.Resume(w.Context(), "none"),
			w.schedules.Delete(w.Context(), "none")} {
			if !errors.Is(err, broker.ErrNotFound) {
				t.Errorf("an unknown schedule: %v", err)
			}
		}
	})
}

func TestRunNow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.put("s", Every(time.Hour), WithOverlap(OverlapSkip))
		if err := w.schedules.Pause(w.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		var want []string
		for range 3 {
			id, err := w.schedules.RunNow(w.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, id[2:])
			synctest.Wait() // the server has enqueued it, and no time has passed
		}
		pass(time.Second)
		if got := w.ticks(); !slices.Equal(got, want) {
			t.Errorf("ran %v, want %v", got, want)
		}
	})
	inWorld2(t, func(w *world) {
		w.put("s", Every(time.Hour))
		for range maxRuns {
			if _, err := w.schedules.RunNow(w.Context(), "s"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.schedules.RunNow(w.Context(), "s"); !errors.Is(err, broker.ErrQueueFull) {
			t.Errorf("one run too many says %v", err)
		}
	})
}

// The request is stored, and the call that wakes the schedule is not applied: the error must not say that nothing was.
func TestRunNow_OfAScheduleThatCannotBeWoken(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(time.Hour))
		b := faulty.Wrap(w.store, faulty.Plan{{Method: "Operate", Call: 1, Fault: faulty.Unavailable}})
		id, err := New(b, "test").RunNow(w.Context(), "s")
		if id == "" || !broker.MayHaveApplied(err) || !errors.Is(err, broker.ErrOutcomeUnknown) {
			t.Errorf("RunNow says %q, %v; want ErrOutcomeUnknown", id, err)
		}
		w.up()
		pass(time.Second)
		if got := w.ticks(); len(got) != 1 {
			t.Errorf("ran %v, want one run", got)
		}
	})
}

// A run that has read the state already, but is not settled, does not swallow the request.
func TestRunNow_BesideARunThatEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		slow := broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if c.Method == "Settle" {
				time.Sleep(time.Second)
			}
			return next(ctx)
		})
		w.serve(slow, jobs.Config{}, ExtensionConfig{})
		w.put("s", Every(24*time.Hour))
		pass(time.Second / 2)
		if got := w.info("s").State; got != broker.StateActive {
			t.Fatalf("the schedule is %v, want its first run active", got)
		}
		id, err := w.schedules.RunNow(w.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		if got := w.ticks(); !slices.Equal(got, []string{id[2:]}) {
			t.Errorf("ran %v, want %s", got, id[2:])
		}
	})
}

// RunNow does not wait long for a run that does not end, and not at all for a schedule that is dead.
func TestRunNow_OfAScheduleThatCannotRunNow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(24*time.Hour))
		_, err := w.store.Renew(w.Context(),
			broker.RenewRequest{Worker: "dies", Queues: []string{Queue}, Lease: 15 * time.Second, Register: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.store.Claim(w.Context(), broker.ClaimRequest{Worker: "dies", Max: 1, Queues: []broker.Share{{Queue: Queue, Max: 1}}})
		if err != nil || len(got.Jobs) != 1 {
			t.Fatalf("claimed %d schedules: %v", len(got.Jobs), err)
		}
		began := time.Now()
		id, err := w.schedules.RunNow(w.Context(), "s")
		if took := time.Since(began); err != nil || took > 10*time.Second {
			t.Errorf("while a run does not end, RunNow takes %v and says %v", took, err)
		}
		w.serve(w.store, jobs.Config{Lease: 2 * time.Second}, ExtensionConfig{}) // looks for dead servers as one of another process does
		pass(time.Minute)
		if ran := w.ticks(); !slices.Equal(ran, []string{id[2:]}) {
			t.Errorf("after the lease of the run that did not end %v ran, want %s", ran, id[2:])
		}
	})
	inWorld2(t, func(w *world) {
		w.put("s", Every(24*time.Hour))
		dies := func(b broker.Broker) error {
			_, err := b.Renew(w.Context(), broker.RenewRequest{Worker: "w", Queues: []string{Queue}, Lease: time.Minute, Register: true})
			if err != nil {
				return err
			}
			got, err := b.Claim(w.Context(), broker.ClaimRequest{Worker: "w", Max: 1, Queues: []broker.Share{{Queue: Queue, Max: 1}}})
			if err != nil {
				return err
			}
			_, err = b.Settle(w.Context(), broker.SettleRequest{Worker: "w", Number: 1,
				Items: []broker.Settlement{{Job: &got.Jobs[0], Outcome: broker.Die(broker.ReasonSkipRetry, broker.Failure{Message: "x"})}}})
			return err
		}
		if err := dies(w.store); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := w.schedules.RunNow(w.Context(), "s"); err != nil || time.Since(began) > 0 {
			t.Errorf("RunNow of a dead schedule takes %v and says %v", time.Since(began), err)
		}
	})
}

// A schedule that is deleted and put again is a new one, even with the same ID
// and at once.
func TestDelete_AndPutAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.put("s", Every(time.Hour))
		pass(90 * time.Minute)
		if err := w.schedules.Pause(w.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		if err := w.schedules.Delete(w.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.schedules.Get(w.Context(), "s"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("Get of a deleted schedule says %v", err)
		}
		if got := w.put("s", Every(time.Hour)); got != Created {
			t.Errorf("Put says %s", got)
		}
		if info := w.info("s"); info.Paused != nil || info.Counts != (Counts{}) {
			t.Errorf("the new one has the past of the old one: %+v", info)
		}
		pass(time.Hour)
		if got := fmt.Sprint(w.ticks()); got != "[2000-01-01T01:00:00Z 2000-01-01T02:00:00Z]" {
			t.Errorf("ran %v", got)
		}
	})
}
