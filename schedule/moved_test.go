package schedule

import (
	"context"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/mortal"
	"github.com/seed81422ce9/jobs/internal/sleep"
	"github.com/seed81422ce9/jobs/middleware"
)

// toReports is middleware that moves jobs of the default queue.
var toReports = middleware.Defaults(func(context.Context, *broker.NewJob) middleware.TaskDefaults {
	return middleware.TaskDefaults{Queue: "reports"}
})

// renamed is middleware that gives jobs other IDs.
func renamed(next jobs.EnqueueFunc) jobs.EnqueueFunc {
	return func(ctx context.Context, batch []*jobs.Outgoing) {
		for _, o := range batch {
			o.ID = "acme/" + o.ID
		}
		next(ctx, batch)
	}
}

// Each job takes 26 minutes, and there is a tick every 10.
func TestSchedule_OverlapsOfJobsThatMiddlewareMoves(t *testing.T) {
	for policy, want := range map[Overlap]struct {
		enqueued, overlapped int64
		cancelled            int
	}{
		OverlapSkip: {2, 4, 0}, OverlapBuffer: {2, 3, 0}, OverlapCancel: {6, 0, 5},
	} {
		t.Run(string(policy), func(t *testing.T) {
			inWorld(t, func(w *world) {
				cancelled := 0
				w.handler = func(ctx context.Context, j *jobs.Job) error {
					err := sleep.For(ctx, 26*time.Minute)
					if err != nil {
						w.mu.Lock()
						cancelled++
						w.mu.Unlock()
					}
					return err
				}
				w.client.Middleware = []jobs.EnqueueMiddleware{toReports, renamed}
				w.serve(w.store, jobs.Config{Queues: map[string]int{"reports": 1}}, ExtensionConfig{})
				w.put("s", Every(10*time.Minute), WithOverlap(policy))
				pass(time.Hour + time.Second)
				info := w.info("s")
				c := Counts{Enqueued: want.enqueued, Overlapped: want.overlapped}
				if info.Counts != c || cancelled != want.cancelled {
					t.Errorf("%d jobs were cancelled, and the counts are %+v; want %+v", cancelled, info.Counts, want)
				}
				if info.Queue != "default" || info.LastQueue != "reports" || info.LastJob != "acme/"+(tick{At: info.Last}).jobID("s") {
					t.Errorf("its last job is %s in %s, and its queue %s", info.LastJob, info.LastQueue, info.Queue)
				}
			})
		})
	}
}

func TestSchedule_ATickThatReplacedAJobOverlapsWithThatJob(t *testing.T) {
	inWorld(t, func(w *world) {
		task := jobs.NewTask("task", []byte("tick"), jobs.WithQueue("slow"), jobs.WithUniqueKey("k"), jobs.WithUniqueReplace())
		client := jobs.NewClient(w.store, jobs.ClientConfig{})
		if _, err := client.Enqueue(w.Context(), task, jobs.WithID("first")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.schedules.Put(w.Context(), "s", Every(10*time.Minute), task, WithOverlap(OverlapSkip)); err != nil {
			t.Fatal(err)
		}
		w.up() // does not serve the queue slow
		pass(31 * time.Minute)
		if info := w.info("s"); info.Counts != (Counts{Enqueued: 1, Overlapped: 2}) || info.LastJob != "first" {
			t.Errorf("the counts are %+v, and the last job is %s; want one that replaced first", info.Counts, info.LastJob)
		}
	})
}

// A server dies just after it enqueued a tick, whose job runs meanwhile.
func TestSchedule_TheNextServerFindsAMovedJob(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(10*time.Minute), WithOverlap(OverlapSkip))
		w.handler = func(ctx context.Context, _ *jobs.Job) error { return sleep.For(ctx, 15*time.Minute) }
		w.client.Middleware = []jobs.EnqueueMiddleware{toReports, renamed}
		dying := mortal.New(w.store, counts)
		dying.Lost = true
		cfg := jobs.Config{Lease: time.Second, PollInterval: time.Second, Queues: map[string]int{"reports": 1}}
		w.serve(dying, cfg, ExtensionConfig{})
		pass(9*time.Minute + 50*time.Second)
		for dying.After.Store(dying.Calls.Load() + 4); !dying.Dead(); { // its calls: Ping, take, keep, Enqueue
			time.Sleep(100 * time.Millisecond)
		}
		if c := w.info("s").Counts; c != (Counts{}) {
			t.Fatalf("it died with the counts %+v", c)
		}
		w.serve(w.store, cfg, ExtensionConfig{})
		pass(11 * time.Minute)
		info := w.info("s")
		if info.Counts != (Counts{Enqueued: 1, Overlapped: 1}) || info.LastJob != "acme/s@2000-01-01T00:10:00Z" {
			t.Errorf("the last job is %s, and the counts are %+v; want one enqueued, and one overlapped", info.LastJob, info.Counts)
		}
	})
}

// A server dies just after it enqueued a tick under another ID. The job ends and leaves no record.
func TestSchedule_TheNextServerCountsARenamedJobThatHasEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("s", Every(10*time.Minute))
		w.client.Middleware = []jobs.EnqueueMiddleware{renamed}
		dying := mortal.New(w.store, counts)
		dying.Lost = true
		cfg := jobs.Config{Lease: time.Second, PollInterval: time.Second}
		w.serve(dying, cfg, ExtensionConfig{})
		worker, err := jobs.NewServer(w.store, jobs.Config{})
		if err == nil {
			err = worker.Start(w.Context(), jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return nil }))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer w.down(worker)
		pass(9*time.Minute + 50*time.Second)
		for dying.After.Store(dying.Calls.Load() + 4); !dying.Dead(); { // its calls: Ping, take, keep, Enqueue
			time.Sleep(100 * time.Millisecond)
		}
		pass(time.Second)
		w.serve(w.store, cfg, ExtensionConfig{})
		pass(time.Minute)
		if info := w.info("s"); info.Counts != (Counts{Enqueued: 1}) || info.LastJob != "acme/s@2000-01-01T00:10:00Z" {
			t.Errorf("the last job is %s, and the counts are %+v; want one enqueued under its other ID", info.LastJob, info.Counts)
		}
	})
}
