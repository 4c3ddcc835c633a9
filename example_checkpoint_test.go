package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// An import that goes on where it was.
func ExampleJob_SetCheckpoint() {
	rows := []string{"ada", "bob", "cleo", "dan", "eve"}
	failed := false
	importRow := func(row string) error {
		if row == "dan" && !failed {
			failed = true
			return errors.New("connection reset")
		}
		fmt.Println("imported", row)
		return nil
	}

	// begin checkpoint
	handler := jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		next, _ := strconv.Atoi(string(job.Checkpoint())) // 0 at first
		for next < len(rows) {
			if err := importRow(rows[next]); err != nil {
				return err // the job comes again, with its checkpoint
			}
			next++
			job.SetProgress(int64(next), int64(len(rows)), "importing")
			if err := job.SetCheckpoint(ctx, []byte(strconv.Itoa(next))); err != nil {
				return err
			}
		}
		return nil
	})
	// end checkpoint

	runUntilDone(handler)
	// Output:
	// imported ada
	// imported bob
	// imported cleo
	// imported dan
	// imported eve
}

// A handler of steps: each runs once, although the job runs twice.
func ExampleStep() {
	failed := false
	charge := func(context.Context) (string, error) {
		fmt.Println("charged")
		return "receipt 17", nil
	}
	send := func(_ context.Context, receipt string) error {
		if !failed {
			failed = true
			return errors.New("mail server is away")
		}
		fmt.Println("sent", receipt)
		return nil
	}

	// begin step
	handler := jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		receipt, err := jobs.Step(ctx, job, "charge", charge)
		if err != nil {
			return err
		}
		return send(ctx, receipt)
	})
	// end step

	runUntilDone(handler)
	// Output:
	// charged
	// sent receipt 17
}

// runUntilDone runs one job by a handler until it is completed.
func runUntilDone(handler jobs.Handler) {
	ctx := context.Background()
	b := membroker.New()
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	server, err := jobs.NewServer(b, jobs.Config{RetryPolicy: jobs.Constant(0)})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Start(ctx, handler); err != nil {
		log.Fatal(err)
	}
	info, err := client.Enqueue(ctx, jobs.NewTask("import", nil, jobs.WithRetention(time.Hour)))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Wait(ctx, info.Queue, info.ID); err != nil {
		log.Fatal(err)
	}
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}
