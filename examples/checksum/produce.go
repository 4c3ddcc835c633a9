package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

const (
	batchSize = 1000           // tasks enqueued at once
	retention = 24 * time.Hour // of results that were never collected
)

// produced counts and lists what produce found.
type produced struct {
	files   int       // files with a job
	other   []finding // everything but readable files
	skipped int       // those of other that are left out on purpose
}

// produce enqueues a job for every file below the directory.
func (s settings) produce(ctx context.Context, b broker.Broker, progress func(files int)) (p produced, err error) {
	// The IDs of a run's files never change. If the store remembered them after the run,
	// it would refuse the files of another run with that name.
	_, err = inspect.New(b).SetPolicy(ctx, inspect.PolicyRequest{
		Queue: s.queue(), DuplicateSpan: new(time.Millisecond), RetainDead: &inspect.Retention{Age: retention},
	})
	if err != nil {
		return p, err
	}
	here, err := os.Getwd()
	if err != nil {
		return p, err
	}
	client := jobs.NewClient(b, jobs.ClientConfig{Defaults: []jobs.Option{
		jobs.WithQueue(s.queue()),
		jobs.WithHeader(dirHeader, here),
		jobs.WithTimeout(jobs.NoTimeout), // files can be large
		jobs.WithRetention(retention),    // the result is in the completed job's record
	}})
	defer client.Close()

	batch := make([]*jobs.Task, 0, batchSize)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		receipts, _ := client.EnqueueMany(ctx, batch)
		for i, r := range receipts {
			// A duplicate is a file that this run enqueued before it was restarted.
			if r.Err != nil && !errors.Is(r.Err, jobs.ErrDuplicate) {
				return fmt.Errorf("%q: %w", batch[i].Payload(), r.Err)
			}
		}
		p.files += len(receipts)
		progress(p.files)
		batch = batch[:0]
		return ctx.Err()
	}
	err = walk(ctx, s.dir, func(path string) error {
		batch = append(batch, jobs.NewTask(taskType, []byte(path), jobs.WithID(idOf(path))))
		if len(batch) < batchSize {
			return nil
		}
		return flush()
	}, func(f finding) {
		if f.err == nil {
			p.skipped++
		}
		p.other = append(p.other, f)
	})
	if err == nil {
		err = flush()
	}
	return p, err
}

// idOf returns the job ID of a path, which may contain any bytes. A second enqueue of
// the path is refused.
func idOf(path string) string {
	h := sha256.Sum256([]byte(path))
	return hex.EncodeToString(h[:16])
}
