package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/middleware"
)

// An error tracker hears of each job that dies and of each panic, and not of the
// failures that a retry will repair.
func Example_errorTracker() {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	capture := func(err error, job *jobs.Job) { fmt.Println(job.Type(), job.ID()+":", err) }

	// begin report
	report := func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			err := next.ProcessJob(ctx, job)
			if end := jobs.EndingOf(ctx, job, err); end.Outcome == jobs.EndedDead || end.Class == jobs.ClassPanic {
				capture(err, job) // of Sentry, for example
			}
			return err
		})
	}
	mux := jobs.NewServeMux()
	mux.Use(report, middleware.Recovery(nil)) // Recovery makes a panic an error that report sees
	// end report
	mux.HandleFunc("report", func(context.Context, *jobs.Job) error {
		return fmt.Errorf("no such month: %w", jobs.SkipRetry)
	})
	mux.HandleFunc("mail", func(context.Context, *jobs.Job) error { return errors.New("busy") })
	server, err := jobs.NewServer(b, jobs.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, mux); err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown(ctx)

	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	if _, err := client.Enqueue(ctx, jobs.NewTask("mail", nil)); err != nil { // fails, and is retried
		log.Fatal(err)
	}
	info, err := client.Enqueue(ctx, jobs.NewTask("report", nil), jobs.WithID("2026-13"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Wait(ctx, info.Queue, info.ID)
	fmt.Println(errors.Is(err, jobs.ErrDead))
	// Output:
	// report 2026-13: no such month: skip retry for this job
	// true
}
