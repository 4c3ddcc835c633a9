package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

func ExampleClient_Enqueue() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()

	report := jobs.NewTask("report:daily", []byte(`{"day":"2026-03-01"}`),
		jobs.WithQueue("reports"), jobs.WithMaxRetries(5), jobs.WithTimeout(10*time.Minute))

	// Not before an hour has passed, and not while another one is under way.
	info, err := client.Enqueue(context.Background(), report, jobs.WithDelay(time.Hour), jobs.WithUniqueUntilDone(24*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Queue, info.State)

	again, err := client.Enqueue(context.Background(), report, jobs.WithUniqueUntilDone(24*time.Hour))
	fmt.Println(errors.Is(err, jobs.ErrDuplicate), again.ID == info.ID)
	// Output:
	// reports scheduled
	// true true
}

func ExampleClient_EnqueueMany() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()

	tasks := []*jobs.Task{
		jobs.NewTask("thumbnail", []byte("a.png"), jobs.WithID("a")),
		jobs.NewTask("thumbnail", []byte("b.png"), jobs.WithID("")),
		jobs.NewTask("thumbnail", []byte("c.png"), jobs.WithID("c")),
	}
	receipts, err := client.EnqueueMany(context.Background(), tasks, jobs.WithQueue("images"))
	fmt.Println(err != nil)
	for i, r := range receipts {
		fmt.Println(i, r.ID, r.State, r.Err)
	}
	// Output:
	// true
	// 0 a pending <nil>
	// 1  none jobs: enqueue: queue "images": id: invalid: is empty; give it 1 to 255 bytes
	// 2 c pending <nil>
}

func ExampleEnqueueMiddleware() {
	b := membroker.New()
	defer b.Close()
	requestID := func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			for _, job := range batch {
				job.SetHeader("request-id", "r-1")
			}
			next(ctx, batch)
			for _, job := range batch {
				fmt.Println(job.Body.Type, job.Info.State, job.Err)
			}
		}
	}
	client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{requestID}})
	defer client.Close()

	info, err := client.Enqueue(context.Background(), jobs.NewTask("email", nil))
	if err != nil {
		log.Fatal(err)
	}
	job, err := inspect.New(b).Job(context.Background(), info.Queue, info.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.Headers)
	// Output:
	// email pending <nil>
	// map[request-id:r-1]
}

func ExampleWithUniqueUntilStarted() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()

	// However often the cart changes within ten seconds, it is saved once.
	for range 3 {
		_, err := client.Enqueue(context.Background(), jobs.NewTask("cart:save", nil), jobs.WithDelay(10*time.Second),
			jobs.WithUniqueKey("cart 17"), jobs.WithUniqueUntilStarted(0))
		fmt.Println(errors.Is(err, jobs.ErrDuplicate))
	}
	// Output:
	// false
	// true
	// true
}

func ExampleWithBackoff() {
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()

	info, err := client.Enqueue(context.Background(), jobs.NewTask("webhook", nil),
		jobs.WithBackoff(jobs.Backoff{Kind: jobs.BackoffExponential, Base: time.Second, Max: time.Hour}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.State)
	// Output: pending
}
