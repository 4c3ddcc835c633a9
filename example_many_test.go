package jobs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// Push is a notification to one device.
type Push struct {
	Device string `json:"device"`
	Text   string `json:"text"`
}

// Three jobs are sent by one request.
func ExampleHandleMany() {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	send := func(_ context.Context, devices []string) (refused map[string]error, err error) {
		fmt.Println("one request for", len(devices), "devices")
		return nil, nil
	}

	// begin many
	pushes := jobs.Define[Push]("push")
	mux := jobs.NewServeMux()
	jobs.HandleMany(mux, pushes, jobs.ManyConfig{Max: 3, Wait: 2 * time.Second},
		func(ctx context.Context, batch []*jobs.BatchJob[Push]) error {
			devices := make([]string, len(batch))
			for i, j := range batch {
				devices[i] = j.Args.Device
			}
			refused, err := send(ctx, devices)
			if err != nil {
				return err // all of them are tried again
			}
			for _, j := range batch {
				j.Err = refused[j.Args.Device] // nil completes the job
			}
			return nil
		})
	// end many

	server, err := jobs.NewServer(b, jobs.Config{Concurrency: 10})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, mux); err != nil {
		log.Fatal(err)
	}
	var last *jobs.JobInfo
	for _, device := range []string{"d1", "d2", "d3"} {
		if last, err = pushes.Enqueue(ctx, client, Push{Device: device, Text: "hello"}, jobs.WithRetention(time.Hour)); err != nil {
			log.Fatal(err)
		}
	}
	record, err := client.Wait(ctx, last.Queue, last.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(record.State)
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// one request for 3 devices
	// completed
}
