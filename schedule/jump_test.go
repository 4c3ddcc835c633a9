package schedule

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// jumping makes the clock of the world's store jump. It returns how far ahead the clock is.
func (w *world) jumping() *atomic.Int64 {
	ahead := new(atomic.Int64)
	w.store = broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		d := time.Duration(ahead.Load())
		if d == 0 {
			return next(ctx)
		}
		if now := reflect.ValueOf(c.Request).Elem().FieldByName("Now"); now.IsValid() {
			now.Set(reflect.ValueOf(time.Now().Add(d)))
		}
		err := next(ctx)
		switch c.Method {
		case "Ping":
			now := c.Reply.(*time.Time)
			*now = now.Add(d)
		case "Claim": // with Now it does not wait for jobs
			if len(c.Reply.(*broker.Claimed).Jobs) == 0 {
				_ = sleep.For(ctx, time.Second)
			}
		}
		return err
	})
	w.schedules = New(w.store, "test")
	return ahead
}

// A clock that was a day ahead for a minute silences schedules, until a repair wakes them.
func TestExamine_WakesSchedulesThatRanWhileTheClockWasAhead(t *testing.T) {
	inWorld(t, func(w *world) {
		ahead := w.jumping()
		w.serve(w.store, jobs.Config{PollInterval: 20 * time.Second}, ExtensionConfig{})
		start := time.Now()
		every := Every(5 * time.Minute)
		w.put("old", every)
		w.put("rare", Every(12*time.Hour))
		w.put("changed", Every(time.Hour))
		pass(13 * time.Minute)
		ahead.Store(int64(24 * time.Hour))
		w.put("new", every)
		w.put("changed", every)
		pass(time.Minute)
		ahead.Store(0)
		want := map[string]string{"old": "schedule-late", "rare": "schedule-late", "changed": "schedule-late", "new": "schedule-late"}
		if left, _ := w.examine(false); !maps.Equal(left, want) {
			t.Errorf("when the clock is right again, Examine finds %v, want %v", left, want)
		}
		if info := w.info("old"); info.Status != StatusLate || !info.Next.Equal(start.Add(15*time.Minute)) {
			t.Errorf("the schedule is %s, and its next tick %v; want late, and 0:15", info.Status, info.Next)
		}
		if left, fixed := w.examine(true); !maps.Equal(fixed, want) {
			t.Errorf("repaired %v and left %v, want %v", fixed, left, want)
		}
		pass(time.Second)
		if left, _ := w.examine(false); len(left) > 0 {
			t.Errorf("after the repair Examine finds %v", left)
		}
		pass(25 * time.Hour)
		ticks := func(id string, spec Spec, from, to time.Duration) {
			t.Helper()
			for _, at := range w.nominal(spec, start.Add(from), start.Add(to)) {
				if n := w.ran[tick{At: at}.jobID(id)]; n != 1 {
					t.Errorf("the tick of %v of %s ran %d times, want once", at, id, n)
				}
				delete(w.ran, tick{At: at}.jobID(id))
			}
		}
		ticks("old", every, 0, 25*time.Hour+14*time.Minute)
		ticks("new", every, 14*time.Minute, 25*time.Hour+14*time.Minute)
		ticks("changed", every, 14*time.Minute, 25*time.Hour+14*time.Minute)
		ticks("rare", Every(12*time.Hour), 0, 25*time.Hour)
		if len(w.ran) > 0 {
			t.Errorf("these ran, too: %v", slices.Sorted(maps.Keys(w.ran)))
		}
	})
}

// A step that is smaller than Grace changes nothing: the tick before it does not come again.
func TestSchedule_ASmallStepBackOfTheClock(t *testing.T) {
	inWorld(t, func(w *world) {
		ahead := w.jumping()
		w.serve(w.store, jobs.Config{PollInterval: 20 * time.Second}, ExtensionConfig{})
		ahead.Store(int64(90 * time.Second))
		w.put("s", Every(10*time.Minute))
		pass(8*time.Minute + 45*time.Second)
		ahead.Store(0)
		if left, _ := w.examine(false); len(left) > 0 {
			t.Errorf("after the step Examine finds %v", left)
		}
		if _, err := w.schedules.RunNow(w.Context(), "s"); err != nil { // wakes the schedule
			t.Fatal(err)
		}
		pass(4 * time.Minute)
		if c := w.info("s").Counts; c != (Counts{Enqueued: 2}) {
			t.Errorf("the counts are %+v, want the tick of 0:10 and the run by hand", c)
		}
	})
}

// While the clock is ten hours behind, a schedule that wakes must not forget which ticks it has run.
func TestSchedule_AClockThatIsBehind(t *testing.T) {
	inWorld(t, func(w *world) {
		ahead := w.jumping()
		w.serve(w.store, jobs.Config{PollInterval: 20 * time.Second}, ExtensionConfig{})
		w.put("run", Every(3*time.Hour))
		w.put("edited", Every(3*time.Hour))
		pass(12 * time.Hour)
		ahead.Store(int64(-10 * time.Hour))
		if _, err := w.schedules.RunNow(w.Context(), "run"); err != nil {
			t.Fatal(err)
		}
		w.put("edited", Every(3*time.Hour), WithOverlap(OverlapSkip))
		pass(2 * time.Hour)
		if info := w.info("run"); info.Status != StatusLate || !info.Next.Equal(info.Now.Truncate(3*time.Hour).Add(3*time.Hour)) {
			t.Errorf("while the clock is behind, it is %s, and its next tick %v", info.Status, info.Next)
		}
		ahead.Store(0)
		for _, id := range []string{"run", "edited"} {
			if err := w.schedules.wake(w.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		pass(2 * time.Hour)
		if left, _ := w.examine(false); len(left) > 0 {
			t.Errorf("when the clock is right again, Examine finds %v", left)
		}
		if c, want := w.info("run").Counts, (Counts{Enqueued: 6}); c != want { // five ticks and the run by hand
			t.Errorf("the counts are %+v, want %+v", c, want)
		}
		if c, want := w.info("edited").Counts, (Counts{Enqueued: 5}); c != want {
			t.Errorf("the counts of the schedule that was edited are %+v, want %+v", c, want)
		}
		for id, n := range w.ran {
			if n != 1 {
				t.Errorf("%s ran %d times", id, n)
			}
		}
	})
}
