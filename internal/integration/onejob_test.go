package integration

import (
	"context"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// TestOneJob takes one job from Enqueue to its result. Its coverage shows how many
// functions the life of a job needs, see docs/adr/0015-rooms-by-caller.md.
func TestOneJob(t *testing.T) {
	for name, place := range map[string]func(testing.TB) string{
		"memory": func(testing.TB) string { return "memory://" }, "redis": testenv.RedisPlace, "postgres": testenv.PostgresPlace,
	} {
		t.Run(name, func(t *testing.T) {
			url := place(t)
			if err := backends.Migrate(t.Context(), url); err != nil {
				t.Fatal(err)
			}
			b, err := backends.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			client := jobs.NewClient(b, jobs.ClientConfig{})
			defer client.Close()
			server, err := jobs.NewServer(b, jobs.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
				job.SetResult([]byte("done"))
				return nil
			})); err != nil {
				t.Fatal(err)
			}
			job, err := client.Enqueue(t.Context(), jobs.NewTask("greet", []byte("hello")), jobs.WithRetention(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done, err := client.Wait(ctx, job.Queue, job.ID)
			if err != nil || done.State != jobs.StateCompleted || string(done.Result) != "done" {
				t.Errorf("the job is %+v, error %v; want it completed with its result", done, err)
			}
			if err := server.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
