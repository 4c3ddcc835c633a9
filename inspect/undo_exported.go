package inspect

import (
	"context"
	"fmt"
	"io"

	"github.com/seed81422ce9/jobs/broker"
)

// undoBatch is how many jobs of a queue are collected before they are made dead again: it
// bounds the memory of an undo.
const undoBatch = 1000

// UndoExported is UndoRedrive for the jobs that Export wrote to r before they were
// redriven, in all their queues. Jobs that were not dead then, or are still dead, are
// refused with ErrWrongState. A line that cannot be read ends the undo; the report is
// valid even with an error.
func (i *Inspector) UndoExported(ctx context.Context, r io.Reader) (report Report, err error) {
	was := make(map[string][]broker.Job) // by queue
	undo := func(queue string) error {
		part, err := i.UndoRedrive(ctx, queue, was[queue])
		delete(was, queue)
		report.Add(part)
		return err
	}
	_, err = readJobs(r, func(line int, job broker.NewJob, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("line %d: %w", line, err)
		case job.Restore.State != broker.StateDead:
			report.Matched++
			report.refuse(Refusal{Queue: job.Queue, ID: job.ID, Err: broker.ErrWrongState})
			return nil
		}
		was[job.Queue] = append(was[job.Queue], broker.Job{Queue: job.Queue, ID: job.ID, State: broker.StateDead,
			CreatedAt: job.Restore.CreatedAt, Head: job.Restore.Head})
		if len(was[job.Queue]) < undoBatch {
			return nil
		}
		return undo(job.Queue)
	})
	for queue := range was {
		if err == nil {
			err = undo(queue)
		}
	}
	return report, err
}
