package payload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/internal/field"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/putoff"
)

// PayloadCodec changes payloads on their way into the store and changes them
// back for handlers: Compress, Encrypt, ClaimCheck, or an application's own.
// Its methods are called from several goroutines at once. Its errors must not
// quote the payload, since they are logged.
type PayloadCodec interface {
	// EncodePayload may replace job.Body.Payload, whose bytes it must not
	// change, and must leave a sign of what it did, or did not do, in a header
	// of its own: a job can come with the headers of another one. An error
	// refuses the job, of which nothing is stored then.
	EncodePayload(ctx context.Context, job *broker.NewJob) error

	// DecodePayload returns the payload that EncodePayload found. It must
	// expect any payload and any headers, and bound the memory that it takes.
	// Its error ends the run as a handler's error does.
	DecodePayload(ctx context.Context, job *jobs.Job) ([]byte, error)
}

// Errors of the codecs; test with errors.Is.
var (
	// ErrTampered: the stored payload is not what was written. The job is dead.
	ErrTampered = errors.New("the stored payload is damaged or was tampered with")
	// ErrUnknownKey: a key is not in the keyring of this process. A job whose
	// payload was encrypted with it is put off without a charge; a task whose
	// unique key it should hash is refused.
	ErrUnknownKey = errors.New("the payload's key is not in the keyring")
	// ErrNoBlob: there is no blob of that name. A job whose payload is missing
	// is retried by policy.
	ErrNoBlob = errors.New("no such blob")
)

// EncodePayloads is the enqueue middleware that applies codecs to each job, in
// their order. It belongs inside of every middleware that changes a job's
// payload, type, queue or ID. The order that makes sense is compress, encrypt,
// claim check: what is encrypted cannot be compressed, and what leaves for a
// blob store is both by then.
//
// A unique key that the client derived from the payload is that of the plain
// payload. It gives a guessed payload away unless a codec replaces it, as
// Encrypt does.
func EncodePayloads(codecs ...PayloadCodec) jobs.EnqueueMiddleware {
	return func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			for _, o := range batch {
				for _, codec := range codecs {
					if o.Err == nil {
						o.Err = codec.EncodePayload(ctx, &o.NewJob)
					}
				}
			}
			next(ctx, batch)
		}
	}
}

// DecodePayloads is the middleware that undoes EncodePayloads of the same
// codecs, which are given in the same order. Handlers inside of it see the
// plain payload, middleware outside of it the stored one. A job that was
// enqueued before a codec was introduced passes it unchanged, unless the codec
// says otherwise, so handlers are given a codec before producers are. It must
// stand once in the chain of a handler.
func DecodePayloads(codecs ...PayloadCodec) jobs.Middleware {
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			for i := len(codecs) - 1; i >= 0; i-- {
				payload, err := codecs[i].DecodePayload(ctx, job)
				if err != nil {
					return err
				}
				job = job.WithPayload(payload)
			}
			return next.ProcessJob(ctx, job)
		})
	}
}

// sign sets the header by which a codec knows its work again, or removes it
// when value is empty.
func sign(job *broker.NewJob, header, value string) {
	if value == "" {
		delete(job.Body.Headers, header)
		return
	}
	if job.Body.Headers == nil {
		job.Body.Headers = make(map[string]string, 1)
	}
	job.Body.Headers[header] = value
}

// signed returns the header of a codec, and whether the job has it.
func signed(job *jobs.Job, header string) (string, bool) {
	value, ok := job.Headers()[header]
	return value, ok
}

// dead is the error of a payload that no retry makes readable.
func dead(err error, hint string, args ...any) error {
	return fmt.Errorf("%w: %w: %s", jobs.SkipRetry, err, fmt.Sprintf(hint, args...))
}

// sizeOr fills a zero size in with its default and refuses one that is negative
// or more than a process can want to hold.
func sizeOr(name string, n *int, zero int) {
	if *n < 0 || *n > maxPayload {
		field.Refuse(name, "is %d bytes; use 1 to %d, or 0 for %d", *n, maxPayload, zero)
	}
	if *n == 0 {
		*n = zero
	}
}

const maxPayload = 1 << 30

// Delays of a job that this process cannot read but another one, or this one
// after its next restart, can.
const (
	putOffMin = 5 * time.Second
	putOffMax = 10 * time.Minute
)

// putOff is the error of such a job: it is snoozed without a charge.
func putOff(job *jobs.Job, err error) error {
	return fmt.Errorf("%w: %w", err, jobs.Snooze(putoff.Growing(putOffMin, putOffMax, job.Record().Snoozes)))
}
