package schedule

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
)

// Middleware of the client that panics, such as a codec, stops neither the schedule nor the reason from being seen.
func TestSchedule_MiddlewareThatPanics(t *testing.T) {
	inWorld(t, func(w *world) {
		var broken atomic.Bool
		broken.Store(true)
		w.client.Middleware = []jobs.EnqueueMiddleware{func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
			return func(ctx context.Context, batch []*jobs.Outgoing) {
				if broken.Load() {
					panic("no key for the codec")
				}
				next(ctx, batch)
			}
		}}
		w.up()
		w.put("s", Every(time.Minute))
		pass(5 * time.Minute)
		if info := w.info("s"); info.Status != StatusLate || !strings.Contains(info.Error, "no key for the codec") {
			t.Errorf("it is %s: %q; want it late, with the panic", info.Status, info.Error)
		}
		broken.Store(false)
		pass(3 * time.Minute)
		if info := w.info("s"); info.Status != StatusWaiting || info.Error != "" || info.Counts.Enqueued < 3 {
			t.Errorf("after that it is %s: %q, with %+v", info.Status, info.Error, info.Counts)
		}
	})
}
