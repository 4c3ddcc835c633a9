package integration

import (
	"context"
	"os"
	"path/filepath"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/middleware"
)

// typeCharge runs behind Dedup and creates a file each time its effect happens.
// Its header "wait" says where the handler waits for the order "go" or the end of
// its process: after the effect, or after Dedup recorded it.
const (
	typeCharge    = "charge"
	waitHeader    = "wait"
	afterEffect   = "effect"
	afterRecorded = "recorded"
)

func charge(marks middleware.Marks, tell func(kind, id, text string), orders <-chan struct{}) jobs.Handler {
	wait := func(job *jobs.Job, where string) {
		if job.Header(waitHeader) == where {
			tell("begun", job.ID(), where)
			<-orders
		}
	}
	deduped := middleware.Dedup(middleware.DedupConfig{Marks: marks})(jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
		f, err := os.CreateTemp(string(job.Payload()), filepath.Base(job.IdempotencyKey()))
		if err != nil {
			return err
		}
		job.SetResult([]byte("receipt"))
		wait(job, afterEffect)
		return f.Close()
	}))
	return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		if err := deduped.ProcessJob(ctx, job); err != nil {
			return err
		}
		wait(job, afterRecorded)
		return nil
	})
}
