package inspect

import (
	"cmp"
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
)

// EnqueueCopy enqueues a new job with the given ID that is due at once. It has the
// type, payload, headers, priority, keys and limits of job, which Job returned, but not
// its history and deadline. The original does not change. A second call with the same
// ID enqueues nothing, as long as the queue remembers the ID.
//
// The error is ErrDuplicate if another job holds its unique key: a copy never replaces
// that job, and never waits behind it. It is ErrWrongState for the node of a workflow,
// which the workflow enqueues itself. It is ErrClaimCheck if the payload is a blob of
// payload.ClaimCheck, which belongs to the original. It is ErrMalformed or ErrNewerForm if
// this program cannot read the job.
func (i *Inspector) EnqueueCopy(ctx context.Context, job *broker.Job, id string) error {
	const verb = "enqueue a copy"
	if job == nil {
		return broker.Invalid("job", "is nil; get it from Job")
	}
	err := cmp.Or(job.Copyable(), claimed(job, "the blob is deleted after the original, and a copy needs its own; enqueue the task again"))
	if err != nil {
		return broker.About(err, verb, job.Queue, job.ID)
	}
	if _, node := job.Headers[parked.HeaderWorkflow]; node || broker.Reserved(job.Queue) {
		err := &broker.Error{Hint: "it is part of a workflow, which enqueues it itself", Err: broker.ErrWrongState}
		return broker.About(err, verb, job.Queue, job.ID)
	}
	c := broker.NewJob{Queue: job.Queue, ID: id, Body: job.Body}
	c.Body.GivenID, c.Body.DueAfter = true, 0 // the ID is remembered, so that a repeated call is detected
	c.Body.Deadline = time.Time{}
	// The payload is an old one: it must not replace what another producer enqueued since.
	c.Body.Unique.Conflict, c.Body.Unique.Latest = broker.ConflictRefuse, 0
	receipts, err := call(ctx, i, broker.Broker.Enqueue, broker.EnqueueRequest{Jobs: []broker.NewJob{c}})
	if err == nil && len(receipts) > 0 {
		err = receipts[0].Err
	}
	return broker.About(err, verb, job.Queue, id)
}
