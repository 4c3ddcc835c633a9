package inspect

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
	"github.com/seed81422ce9/jobs/internal/parked"
)

// Edit replaces the payload of a pending, scheduled, retry or dead job that Job or List
// returned. If the job has run or was redriven since, the error is ErrWrongState, and
// nothing is changed. A pending job keeps its position. A dead job stays dead until it
// is redriven. The payload can be any bytes up to the store's limit. The error is
// ErrUnsupported if the store does not edit jobs (broker.Limits.NoMove).
//
// Edit encodes nothing. So it refuses a job whose payload a codec of middleware/payload
// encoded, or that has a payload reference, with ErrWrongState: see EditRaw.
func (i *Inspector) Edit(ctx context.Context, job *broker.Job, payload []byte) error {
	return i.edit(ctx, job, payload, false)
}

// EditRaw is Edit for a payload that is already encoded as the headers of the job say,
// or that belongs beside its payload reference. A job whose payload is a blob of
// payload.ClaimCheck is refused with ErrClaimCheck: its handler would not see the new
// payload.
func (i *Inspector) EditRaw(ctx context.Context, job *broker.Job, payload []byte) error {
	return i.edit(ctx, job, payload, true)
}

func (i *Inspector) edit(ctx context.Context, job *broker.Job, payload []byte, raw bool) error {
	if job == nil {
		return broker.Invalid("job", "is nil; get it from Job")
	}
	if err := i.check(ctx); err != nil {
		return err
	}
	err := i.canMove("the store")
	if err == nil {
		err = i.editable(ctx, job, raw)
	}
	if err != nil {
		return broker.About(err, broker.OpEdit.String(), job.Queue, job.ID)
	}
	results, err := i.operate(ctx, broker.Operation{Kind: broker.OpEdit, Refs: []broker.Ref{job.Ref()}, Payload: payload})
	if err == nil && len(results) > 0 {
		err = results[0].Err
	}
	return broker.About(err, broker.OpEdit.String(), job.Queue, job.ID)
}

// editable returns why the payload of the stored job cannot be replaced. The caller's
// job may have only its ID and epoch.
func (i *Inspector) editable(ctx context.Context, job *broker.Job, raw bool) error {
	page, err := i.List(ctx, Query{Queue: job.Queue, IDs: []string{job.ID}, Suppressed: true, NoPayload: true})
	if err != nil || len(page.Jobs) == 0 {
		return err // the store refuses to edit what is not there
	}
	return replaceable(&page.Jobs[0], raw)
}

// Editable returns why Edit would refuse a job as it is, or with raw why EditRaw would, or nil.
func Editable(job *broker.Job, raw bool) error {
	_, err := (&broker.Operation{Kind: broker.OpEdit}).Decide(job.Ref(), job.State, job.Epoch, job.Holder)
	return broker.About(cmp.Or(err, replaceable(job, raw)), broker.OpEdit.String(), job.Queue, job.ID)
}

func replaceable(stored *broker.Job, raw bool) error {
	if err := claimed(stored, "its handler reads the blob; enqueue the task again"); err != nil || raw {
		return err
	}
	const remedy = "enqueue the task again, or use EditRaw (jobsctl edit --raw) if the new payload is already as its handler expects it"
	hint := ""
	switch header := coding.By(stored.Headers); {
	case header != "":
		hint = fmt.Sprintf("its payload is encoded (header %s); ", header)
	case stored.PayloadRef != "":
		hint = "it has a payload reference, so its payload may be elsewhere; "
	default:
		return nil
	}
	return &broker.Error{Err: broker.ErrWrongState, Hint: hint + remedy}
}

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
