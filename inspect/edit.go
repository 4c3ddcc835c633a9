package inspect

import (
	"cmp"
	"context"
	"fmt"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/coding"
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
