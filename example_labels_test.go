package jobs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// A job that requires a label waits for a server that has it.
func ExampleWithLabels() {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	mux := jobs.NewServeMux()
	mux.HandleFunc("resize", func(_ context.Context, job *jobs.Job) error {
		fmt.Println("resized by a job of", job.Queue())
		return nil
	})

	// begin labels
	info, err := client.Enqueue(ctx, jobs.NewTask("resize", []byte("cat.png")),
		jobs.WithQueue("images"), jobs.WithLabels("gpu"), jobs.WithRetention(time.Hour))
	// end labels
	if err != nil {
		log.Fatal(err)
	}
	// begin offers
	server, err := jobs.NewServer(b, jobs.Config{
		Queues: map[string]int{"images": 1},
		Labels: []string{"gpu", "ssd"},
	})
	// end offers
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, mux); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Wait(ctx, info.Queue, info.ID); err != nil {
		log.Fatal(err)
	}
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: resized by a job of images+gpu
}

// A tenth of the tenants is served by the workers of a trial, each tenant always on
// the same side.
func ExampleWithLabelShare() {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	// begin share
	client := jobs.NewClient(b, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithLabelShare("canary", 10)}})
	// end share
	defer client.Close()
	fmt.Print("tenants of the trial:")
	for n := range 50 {
		for range 2 {
			info, err := client.Enqueue(ctx, jobs.NewTask("resize", nil), jobs.WithPartitionKey(fmt.Sprint("tenant-", n)))
			if err != nil {
				log.Fatal(err)
			}
			if info.Queue == "default+canary" {
				fmt.Print(" ", n)
			}
		}
	}
	fmt.Println()
	// Output:
	// tenants of the trial: 5 5 13 13 16 16 24 24 34 34 37 37
}
