package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func TestWithPaused_ANewScheduleWaitsForResume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up() // a server, which would run it at once
		paused := WithPaused("import")
		if got := w.put("s", Every(time.Hour), paused, WithMisfire(RunUpTo(100, 0))); got != Created {
			t.Errorf("Put says %s", got)
		}
		check := func(when string, info Info) {
			t.Helper()
			if p := info.Paused; info.Status != StatusPaused || p == nil || p.By != "import" || !p.At.Equal(info.Created) {
				t.Errorf("%s it is %s, paused %+v; want that from its birth, by import", when, info.Status, p)
			}
		}
		check("before a server ran it", w.info("s"))
		pass(150 * time.Minute)
		check("after two ticks", w.info("s"))
		if got := w.put("s", Every(time.Hour), WithMisfire(RunUpTo(100, 0))); got != Unchanged {
			t.Errorf("without WithPaused Put says %s; whether it is paused is not part of the definition", got)
		}
		w.put("s", Every(time.Hour), WithMisfire(RunUpTo(99, 0)))
		check("after a change of something else", w.info("s"))
		if got := w.ticks(); len(got) > 0 {
			t.Errorf("while it is paused ran %v", got)
		}
		if err := w.schedules.Resume(w.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if got := w.put("s", Every(time.Hour), WithMisfire(RunUpTo(99, 0)), paused); got != Unchanged {
			t.Errorf("with WithPaused Put says %s of a schedule that runs", got)
		}
		pass(time.Hour)
		if got := fmt.Sprint(w.ticks()); got != "[2000-01-01T03:00:00Z]" {
			t.Errorf("ran %v; it was resumed at 2:30, and ticks from before do not count", got)
		}
	})
}

// During a migration, each of several programs puts a schedule that is created paused while the old scheduler still runs.
func TestWithPaused_OfADefinitionThatServersPut(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 2 {
			if _, err := w.schedules.Sync(w.Context(), Definition{ID: "s", Spec: Every(time.Hour), Task: jobs.NewTask("task", nil),
				Options: []Option{WithPaused("import")}}); err != nil {
				t.Fatal(err)
			}
		}
		w.up()
		pass(90 * time.Minute)
		if info := w.info("s"); info.Status != StatusPaused || len(w.ticks()) > 0 {
			t.Errorf("it is %s and ran %v", info.Status, w.ticks())
		}
		if _, err := w.schedules.RunNow(w.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if got := w.ticks(); len(got) != 1 {
			t.Errorf("RunNow of a paused schedule ran %v", got)
		}
	})
}

func TestResume_ATickThatWaitedForTheEndOfAJobIsNotForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		end := make(chan struct{})
		w.handler = func(ctx context.Context, _ *jobs.Job) error {
			select {
			case <-end:
			case <-ctx.Done():
			}
			return nil
		}
		w.up()
		w.put("s", Every(4*time.Hour), WithOverlap(OverlapBuffer), WithJob(jobs.WithTimeout(jobs.NoTimeout)))
		pass(8*time.Hour + time.Minute)
		if info := w.info("s"); info.Buffered.IsZero() {
			t.Fatal("no tick waits for the end of the job")
		}
		if err := w.schedules.Pause(w.Context(), "s", "ada"); err != nil {
			t.Fatal(err)
		}
		close(end)
		pass(time.Hour)
		if err := w.schedules.Resume(w.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		if got := fmt.Sprint(w.ticks()); got != "[2000-01-01T04:00:00Z 2000-01-01T08:00:00Z]" {
			t.Errorf("half a minute after the end of the pause %v ran", got)
		}
	})
}

func TestPause_ByWhatIsNoName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(time.Hour))
		for _, by := range []string{"\xff", strings.Repeat("x", broker.MaxNameLen+1)} {
			var e *broker.Error
			if err := w.schedules.Pause(w.Context(), "s", by); !errors.As(err, &e) || e.Field != "by" {
				t.Errorf("Pause by %.8q: %v, want an error about by", by, err)
			}
		}
		if info := w.info("s"); info.Paused != nil {
			t.Errorf("a refused Pause left the schedule paused by %q", info.Paused.By)
		}
	})
}
