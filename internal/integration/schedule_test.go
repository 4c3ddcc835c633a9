package integration

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/schedule"
)

// Three servers run a schedule on a real store. Each tick is one job, although the
// schedule is paused, changed and run by hand meanwhile, and servers stop.
func TestSchedule_OnEveryStore(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		var mu sync.Mutex
		ran := make(map[string][]time.Duration) // by ID: how late the job began
		handler := jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
			k, ok := schedule.TickOf(j)
			if !ok || k.Schedule != "s" {
				return fmt.Errorf("the job %s is of tick %+v", j.ID(), k)
			}
			mu.Lock()
			defer mu.Unlock()
			ran[j.ID()] = append(ran[j.ID()], time.Since(k.At))
			return nil
		})
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(ran) }
		until := func(what string, is func() bool) {
			t.Helper()
			testenv.Eventually(t, what, is, func() string { return fmt.Sprintf("%d jobs ran", count()) })
		}
		await := func(what string, n int) { t.Helper(); until(what, func() bool { return count() >= n }) }
		start := func() *jobs.Server {
			b, err := backends.Open(t.Context(), s.url)
			if err != nil {
				t.Fatal(err)
			}
			client := jobs.NewClient(b, jobs.ClientConfig{})
			logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			server, err := jobs.NewServer(b, jobs.Config{Lease: lease, Logger: logger, Extensions: []jobs.Extension{
				schedule.New(b, "test").Extension(client, schedule.ExtensionConfig{Logger: logger})}})
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(context.Background(), handler); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				client.Close()
				b.Close()
			})
			return server
		}
		b, err := backends.Open(t.Context(), s.url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		schedules := schedule.New(b, "test")
		task := jobs.NewTask("tick", []byte("payload"))
		if change, err := schedules.Put(t.Context(), "s", schedule.Every(time.Second), task); err != nil || change != schedule.Created {
			t.Fatal(change, err)
		}
		first := start()
		start()
		start()
		await("the first ticks", 3)
		if change, err := schedules.Put(t.Context(), "s", schedule.Every(time.Second), task); err != nil || change != schedule.Unchanged {
			t.Errorf("the same definition again: %s (%v)", change, err)
		}
		if err := first.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if change, err := schedules.Put(t.Context(), "s", schedule.Every(time.Second), task,
			schedule.WithOverlap(schedule.OverlapSkip)); err != nil ||
			change != schedule.Updated {
			t.Errorf("a change: %s (%v)", change, err)
		}
		await("after a change and without one server", count()+2)
		if err := schedules.Pause(t.Context(), "s", "test"); err != nil {
			t.Fatal(err)
		}
		id, err := schedules.RunNow(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		byHand := func() int { mu.Lock(); defer mu.Unlock(); return len(ran[id]) }
		until("the run by hand while it is paused", func() bool { return byHand() > 0 })
		paused := count()
		if err := schedules.Resume(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		await("after the pause", paused+3)
		if n := byHand(); n != 1 {
			t.Errorf("the job by hand ran %d times", n)
		}
		// A tick is counted after it was enqueued, so its job may run before that.
		var all []schedule.Info
		testenv.Eventually(t, fmt.Sprintf("at least %d are enqueued", paused+3), func() bool {
			all, err = schedules.List(t.Context())
			return err == nil && len(all) == 1 && all[0].Counts.Enqueued >= int64(paused)+3 && all[0].Error == "" && !all[0].Next.IsZero()
		}, func() string { return fmt.Sprintf("the list is %+v (%v)", all, err) })
		if err := schedules.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		var late []time.Duration
		mu.Lock()
		defer mu.Unlock()
		for id, runs := range ran {
			if len(runs) != 1 {
				t.Errorf("%s ran %d times", id, len(runs))
			}
			late = append(late, runs...)
		}
		slices.Sort(late)
		if late[0] < 0 {
			t.Errorf("a tick began %v before its time", -late[0])
		}
		t.Logf("%d jobs; half of them began within %v of their ticks", len(late), late[len(late)/2])
	})
}
