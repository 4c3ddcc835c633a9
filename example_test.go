package jobs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// Producer, server and store in one process. With another store only the first
// line differs.
func Example() {
	b := membroker.New()
	defer b.Close()
	ctx := context.Background()

	mux := jobs.NewServeMux()
	mux.HandleFunc("email:welcome", func(ctx context.Context, job *jobs.Job) error {
		fmt.Printf("welcome, %s\n", job.Payload())
		return nil
	})
	server, err := jobs.NewServer(b, jobs.Config{Concurrency: 10})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, mux); err != nil { // a program of its own would call Run
		log.Fatal(err)
	}

	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	info, err := client.Enqueue(ctx, jobs.NewTask("email:welcome", []byte("Ada")), jobs.WithRetention(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	record, err := client.Wait(ctx, info.Queue, info.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the job is", record.State)
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// welcome, Ada
	// the job is completed
}
