package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func TestServer_TellsTheStoreHowLongJobsWaitedAndRan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := membroker.New()
		defer store.Close()
		begin := time.Now()
		b := broker.Wrap(store, func(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
			if mark, ok := call.Request.(*broker.MarkRequest); ok && mark.Action == broker.MarkSet && time.Since(begin) < 10*time.Minute {
				return broker.ErrUnavailable
			}
			return next(ctx)
		})
		client := NewClient(b, ClientConfig{})
		defer client.Close()
		enqueue := func(opts ...Option) {
			if _, err := client.Enqueue(t.Context(), NewTask("t", nil), opts...); err != nil {
				t.Fatal(err)
			}
		}
		enqueue()
		enqueue(WithDelay(20 * time.Second)) // waits for 10 s
		enqueue(WithRunAt(time.Now().Add(25*time.Second + time.Nanosecond)))
		pass(30 * time.Second)
		runs := 0
		s := serve(t, b, Config{Concurrency: 1}, func(ctx context.Context, job *Job) error {
			time.Sleep(2 * time.Second)
			if runs++; runs == 3 {
				return errors.New("once more, which is no wait")
			}
			return nil
		})
		pass(time.Hour)
		s.Shutdown(t.Context())
		reply, err := b.Queues(t.Context(), broker.QueuesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		got := reply.Queues[0].Totals
		// They start after 30, 32 and 34 seconds.
		want := broker.Totals{Enqueued: 3, Claimed: got.Claimed, Completed: 3, Failed: 1, Retried: 1,
			Waits: 3, WaitedMicros: 30e6 + 12e6 + 9e6, Runs: 4, RanMicros: 8e6}
		if got.WaitedMicros < want.WaitedMicros-10 || got.WaitedMicros > want.WaitedMicros+10 { // of a part of a microsecond
			t.Errorf("the queue's totals say that jobs waited for %d µs, want about %d", got.WaitedMicros, want.WaitedMicros)
		}
		want.WaitedMicros = got.WaitedMicros
		if got != want {
			t.Errorf("the queue's totals are\n%+v, want\n%+v", got, want)
		}
		points, err := inspect.New(b).History(t.Context(), "default", 2*time.Hour)
		if err != nil || len(points) == 0 {
			t.Fatalf("the history has %d points, error %v", len(points), err)
		}
		l := points[len(points)-1].Latency
		if waits, runs := l.WaitTimes.Count(), l.RunTimes.Count(); waits != 3 || runs != 4 {
			t.Errorf("the history has the times of %d waits and %d runs, want 3 and 4", waits, runs)
		}
		if wait, run := l.WaitTimes.Quantile(1), l.RunTimes.Quantile(0.5); wait < 26*time.Second || wait > 34*time.Second ||
			run < 1760*time.Millisecond || run > 2240*time.Millisecond {
			t.Errorf("the history says that jobs waited for up to %v, and half of the runs took %v; want 30 s and 2 s", wait, run)
		}
	})
}
