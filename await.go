package jobs

import (
	"context"
	"fmt"

	"github.com/seed81422ce9/jobs/broker"
)

// Await waits until a job has ended and returns its result, which the handler
// set with SetResult, as an R. It hears of the end from the store and does not
// poll; see Client.Wait for contexts, and for jobs without a record: enqueue the
// job with a retention.
//
// If the job was not completed, the error is one of these, for errors.Is:
// ErrDead, with the reason and the last error in its message; ErrExpired, which
// is ErrDead, too; ErrCancelled; ErrGone. It is ErrResult if the job was
// completed and its result is no R, and that of ctx if that ended first.
func Await[R any](ctx context.Context, c *Client, queue, id string, opts ...WaitOption) (result R, err error) {
	record, err := c.Wait(ctx, queue, id, opts...)
	if err != nil {
		return result, err
	}
	result, err = decodeResult[R](record.Result)
	return result, broker.About(err, "await", queue, id)
}

// SetResult keeps a result for those who wait for the job, as JSON; see Await
// and Job.SetResult. Call it last:
//
//	return jobs.SetResult(job, Summary{Orders: 17})
//
// An error means that no retry can help: it is SkipRetry.
func SetResult[R any](job *Job, result R) (err error) {
	defer recoverInto(&err, func(err error) error {
		return fmt.Errorf("%w: the result, a %T, cannot be encoded: %w", SkipRetry, result, err)
	})
	p, err := JSON.Encode(result)
	if err == nil {
		job.SetResult(p)
	}
	return err
}

func decodeResult[R any](p []byte) (result R, err error) {
	defer recoverInto(&err, func(err error) error { return fmt.Errorf("%w as a %T: %w", ErrResult, result, err) })
	if len(p) == 0 {
		return result, errNoResult
	}
	err = JSON.Decode(p, &result)
	return result, err
}
