package middleware_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/middleware"
)

// A customer is charged once for an order, however many jobs ask for it and
// however often each is delivered.
func ExampleDedup() {
	ctx := context.Background()
	b := membroker.New() // or Redis, or Postgres
	defer b.Close()

	// begin dedup
	mux := jobs.NewServeMux()
	mux.HandleFunc("order:charge", func(ctx context.Context, job *jobs.Job) error {
		fmt.Println("charging", job.IdempotencyKey())
		job.SetResult([]byte("receipt 1001"))
		return nil
	}, middleware.Dedup(middleware.DedupConfig{Marks: b}))
	// end dedup
	server, err := jobs.NewServer(b, jobs.Config{Concurrency: 1})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, mux); err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown(ctx)

	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	for range 2 {
		info, err := client.Enqueue(ctx, jobs.NewTask("order:charge", nil),
			jobs.WithIdempotencyKey("order 1001"), jobs.WithRetention(time.Minute))
		if err != nil {
			log.Fatal(err)
		}
		record, err := client.Wait(ctx, jobs.DefaultQueue, info.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", record.Result)
	}
	// Output:
	// charging order 1001
	// receipt 1001
	// receipt 1001
}
