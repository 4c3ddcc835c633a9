package inspect_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/inspect"
)

func ExampleInspector_completions() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{"orders": 1}})
	if err != nil {
		log.Fatal(err)
	}
	_ = server.Start(ctx, jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
		job.SetResult(job.Payload())
		return nil
	}))
	for _, order := range []string{"1001", "1002"} {
		info, err := client.Enqueue(ctx, jobs.NewTask("order:ship", []byte(order)), jobs.WithQueue("orders"), jobs.WithRetention(24*time.Hour))
		if err != nil {
			log.Fatal(err)
		}
		if _, err := client.Wait(ctx, info.Queue, info.ID); err != nil {
			log.Fatal(err)
		}
	}
	inspector, book := inspect.New(b), func(job *jobs.JobRecord) error {
		_, err := fmt.Printf("shipped %s\n", job.Result)
		return err
	}

	// begin completions
	// completed hands over what was completed since a time, the earliest end first,
	// and returns the time for the next call. Store that with what book does. Some
	// jobs come again: it begins a minute early, for a store may show the end of a
	// job a little late.
	completed := func(ctx context.Context, since time.Time) (time.Time, error) {
		query := inspect.Query{Queue: "orders", State: jobs.StateCompleted, After: since.Add(-time.Minute)}
		for job, err := range inspector.Select(query).Jobs(ctx) {
			if err != nil {
				return since, err
			}
			if err := book(job); err != nil {
				return since, err
			}
			since = job.FinishedAt
		}
		return since, nil
	}
	// end completions
	since, err := completed(ctx, time.Now())
	if err != nil || since.IsZero() {
		log.Fatal(err)
	}
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// shipped 1001
	// shipped 1002
}
