package schedule

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A Delete that hangs after it has deleted the schedule leaves the state of the next one with the ID alone.
func TestDelete_BesidePut(t *testing.T) {
	for call := 3; call <= 4; call++ { // after Find and Operate
		t.Run(fmt.Sprintf("before call %d", call), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				w.put("s", Every(time.Hour))
				pass(90 * time.Minute)
				calls := 0
				late := New(broker.Wrap(w.store, func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
					if calls++; calls == call {
						w.put("s", Every(time.Hour))
						pass(time.Second)
						if err := w.schedules.Pause(w.Context(), "s", "ada"); err != nil {
							t.Error(err)
						}
					}
					return next(context.WithoutCancel(ctx))
				}), "test")
				if err := late.Delete(w.Context(), "s"); err != nil || calls < call {
					t.Fatalf("Delete says %v after %d calls", err, calls)
				}
				if info := w.info("s"); info.Paused == nil {
					t.Error("the new schedule is no longer paused")
				}
				pass(2 * time.Hour)
				if got := fmt.Sprint(w.ticks()); got != "[2000-01-01T01:00:00Z]" {
					t.Errorf("ran %v", got)
				}
			})
		})
	}
}
