package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// What a handler returns decides what becomes of its job.
func ExampleHandler() {
	handler := jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		switch string(job.Payload()) {
		case "fine":
			return nil // completed
		case "malformed":
			return fmt.Errorf("%w: bad payload", jobs.SkipRetry) // dead at once
		case "limited":
			return jobs.RetryAfter(time.Minute, errors.New("429")) // a failure, tried again then
		case "early":
			return jobs.Snooze(time.Hour) // put off, no failure
		case "obsolete":
			return jobs.Cancel(nil) // cancelled
		}
		return errors.New("anything else") // a failure, tried again by the retry policy
	})

	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	server, err := jobs.NewServer(b, jobs.Config{Concurrency: 1, RetryPolicy: jobs.Constant(0)})
	if err != nil {
		log.Fatal(err)
	}
	info, err := client.Enqueue(context.Background(), jobs.NewTask("import", []byte("malformed")))
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(context.Background(), handler); err != nil {
		log.Fatal(err)
	}
	record, err := client.Wait(context.Background(), info.Queue, info.ID)
	if !errors.Is(err, jobs.ErrDead) {
		log.Fatal(err)
	}
	fmt.Println(record.State, record.Reason)
	if err := server.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: dead skip_retry
}

// A server with three queues by weight, two reports at a time at most, and
// errors of its own made known.
func ExampleConfig() {
	var errLimited = errors.New("too many requests")
	cfg := jobs.Config{
		Concurrency:      20,
		Queues:           map[string]int{"critical": 6, "default": 3, "reports": 1},
		QueueConcurrency: map[string]int{"reports": 2},
		ShutdownTimeout:  30 * time.Second,
		RetryPolicy:      jobs.Exponential(time.Second, time.Hour),
		RetryPolicies:    map[string]jobs.RetryFunc{"email:send": jobs.Linear(time.Minute, 10*time.Minute)},
		Classify: func(err error, job *jobs.Job) jobs.Classification {
			if errors.Is(err, errLimited) {
				return jobs.Classification{Code: "429", Class: "rate_limited", As: jobs.RetryAfter(time.Minute, err)}
			}
			return jobs.Classification{}
		},
	}
	server, err := jobs.NewServer(membroker.New(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(server.Ready())
	// Output: jobs: not ready: the server was not started
}
