package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func ExampleInspector() {
	b := membroker.New()
	defer b.Close()
	ctx := context.Background()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	for _, typ := range []string{"email:welcome", "email:invoice", "report"} {
		if _, err := client.Enqueue(ctx, jobs.NewTask(typ, nil)); err != nil {
			log.Fatal(err)
		}
	}

	inspector := inspect.New(b)
	if err := inspector.Pause(ctx, "default"); err != nil {
		log.Fatal(err)
	}
	queue, err := inspector.Queue(ctx, "default")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(queue.Name, "has", queue.Counts[broker.StatePending], "pending jobs; paused:", queue.Policy.Paused)
	for job, err := range inspector.Select(inspect.Query{Queue: "default", State: broker.StatePending, Type: "report"}).Jobs(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.Type, job.State)
	}
	// Output:
	// default has 3 pending jobs; paused: true
	// report pending
}

func ExampleInspector_OfType() {
	b := membroker.New()
	defer b.Close()
	ctx := context.Background()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	for _, opt := range []jobs.Option{jobs.WithQueue("mail"), jobs.WithDelay(time.Hour), jobs.WithQueue("slow")} {
		if _, err := client.Enqueue(ctx, jobs.NewTask("email:invoice", nil), opt); err != nil {
			log.Fatal(err)
		}
	}

	// begin of-type
	for job, err := range inspect.New(b).OfType(ctx, "email:invoice") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.Queue, job.State)
	}
	// end of-type
	// Output:
	// default scheduled
	// mail pending
	// slow pending
}

func ExampleInspector_Select() {
	b := membroker.New()
	defer b.Close()
	ctx := context.Background()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	for i := range 3 {
		if _, err := client.Enqueue(ctx, jobs.NewTask("report", nil), jobs.WithDelay(time.Duration(i+1)*time.Hour)); err != nil {
			log.Fatal(err)
		}
	}

	scheduled := inspect.New(b).Select(inspect.Query{Queue: "default", State: broker.StateScheduled})
	report, err := scheduled.Limit(2).Cancel(ctx)
	fmt.Println(report.Done, "cancelled", err)
	report, err = scheduled.Reschedule(ctx, time.Time{}) // at once
	fmt.Println(report.Done, "rescheduled", err)
	// Output:
	// 2 cancelled <nil>
	// 1 rescheduled <nil>
}

// A program cancels a job by its queue and ID, which Enqueue returns.
func ExampleSelection_Cancel() {
	b := membroker.New()
	defer b.Close()
	ctx := context.Background()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	server, err := jobs.NewServer(b, jobs.Config{})
	if err != nil {
		log.Fatal(err)
	}
	began := make(chan bool)
	if err := server.Start(ctx, jobs.HandlerFunc(func(ctx context.Context, _ *jobs.Job) error {
		began <- true
		<-ctx.Done()
		return context.Cause(ctx)
	})); err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown(ctx)

	info, err := client.Enqueue(ctx, jobs.NewTask("video:encode", nil), jobs.WithRetention(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	<-began
	// begin cancel
	report, err := inspect.New(b).Select(inspect.Query{Queue: info.Queue, IDs: []string{info.ID}}).Cancel(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// end cancel
	fmt.Println(report.Done, "job, of these running:", report.Requested)
	_, err = client.Wait(ctx, info.Queue, info.ID)
	fmt.Println(errors.Is(err, jobs.ErrCancelled))
	// Output:
	// 1 job, of these running: 1
	// true
}
