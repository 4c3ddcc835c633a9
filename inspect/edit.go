package inspect

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Edit replaces the payload of a pending, scheduled, retry or dead job that Job or List
// returned. If the job has run or was redriven since, the error is ErrWrongState, and
// nothing is changed. A pending job keeps its position. A dead job stays dead until it
// is redriven. The payload can be any bytes up to the store's limit. The error is
// ErrUnsupported if the store does not edit jobs (broker.Limits.NoMove).
func (i *Inspector) Edit(ctx context.Context, job *broker.Job, payload []byte) error {
	if job == nil {
		return broker.Invalid("job", "is nil; get it from Job")
	}
	if err := i.check(ctx); err != nil {
		return err
	}
	if err := i.canMove("the store"); err != nil {
		return broker.About(err, broker.OpEdit.String(), job.Queue, job.ID)
	}
	results, err := i.operate(ctx, broker.Operation{Kind: broker.OpEdit, Refs: []broker.Ref{job.Ref()}, Payload: payload})
	if err == nil && len(results) > 0 {
		err = results[0].Err
	}
	return broker.About(err, broker.OpEdit.String(), job.Queue, job.ID)
}
