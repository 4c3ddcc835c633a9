package payload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/internal/field"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/putoff"
)

// Codec encodes payloads on their way into the store and decodes them for
// handlers: Compress, Encrypt, ClaimCheck, or an application's own. It must be
// safe for concurrent use. Its errors must not quote the payload, since they are
// logged.
//
// If a codec has a method Header() string, which returns the name of its header, then
// Encrypt after it authenticates that header. A codec that wraps such a codec needs the
// method too.
type Codec interface {
	// EncodePayload may replace job.Body.Payload, but must not change its bytes.
	// It must set its own header if it has encoded the payload, and remove that header if not, since a
	// job can come with the headers of another job. If it returns an error, the job is refused and not
	// stored.
	EncodePayload(ctx context.Context, job *broker.NewJob) error

	// DecodePayload returns the payload that EncodePayload was given. It must accept any payload and any
	// headers, and bound its use of memory. Its error ends the run as a handler's error does.
	DecodePayload(ctx context.Context, job *jobs.Job) ([]byte, error)
}

// Errors of the codecs; test with errors.Is.
var (
	// ErrTampered: the stored payload is not what was written. The job is dead.
	ErrTampered = errors.New("the stored payload is damaged or was tampered with")
	// ErrUnknownKey: a key is not in the keyring of this process. A job whose
	// payload was encrypted with it is snoozed without a charge; a task whose
	// unique key it should hash is refused.
	ErrUnknownKey = errors.New("the payload's key is not in the keyring")
	// ErrNoBlob: there is no blob of that name. A job whose payload is missing
	// is retried by policy.
	ErrNoBlob = errors.New("no such blob")
)

// EncodePayloads is the enqueue middleware that applies codecs to each job, in
// the given order. Use it inside of all middleware that changes a job's payload,
// type, type version, queue or ID. Give the codecs in the order Compress, Encrypt, ClaimCheck:
// encrypted payloads cannot be compressed, and blobs should be both.
//
// The client derives a unique key from the plain payload. Whoever can read that
// key can check guesses of the payload, unless a codec replaces the key, as
// Encrypt does.
//
// A job that gets two codecs with the same header, also from the middleware of its client
// and that of its definition, is refused (jobs.ErrInvalid): one header cannot say what both did.
//
// EncodePayloads panics if a codec is nil: payloads would be stored without it.
func EncodePayloads(codecs ...Codec) jobs.EnqueueMiddleware {
	codecs = checked("EncodePayloads", codecs)
	return func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			done := &applied{to: batch}
			done.outer, _ = ctx.Value(appliedKey{}).(*applied)
			for _, codec := range codecs {
				c, named := codec.(interface{ Header() string })
				here := slices.Clip(done.names)
				with := context.WithValue(ctx, headersKey{}, here)
				for _, o := range batch {
					before, ctx := here, with
					if done.outer != nil { // another EncodePayloads may have had some of the jobs
						before = append(done.outer.headers(o), here...)
						ctx = context.WithValue(ctx, headersKey{}, before)
					}
					switch {
					case o.Err != nil:
					case named && slices.Contains(before, c.Header()):
						o.Err = broker.Invalid("codecs", "encode the payload twice with the header %s; use each codec once", c.Header())
					default:
						o.Err = codec.EncodePayload(ctx, &o.NewJob)
					}
				}
				if named {
					done.names = append(done.names, c.Header())
				}
			}
			next(context.WithValue(ctx, appliedKey{}, done), batch)
		}
	}
}

// applied has the headers of the codecs that an EncodePayloads has applied, and to which jobs. The middleware inside
// of it gets the same context, also for jobs of other definitions and for those that it enqueues itself.
type applied struct {
	outer *applied
	to    []*jobs.Outgoing
	names []string
}

// appliedKey is the key of a context's applied.
type appliedKey struct{}

// headers returns the headers of the codecs that were applied to a job.
func (a *applied) headers(o *jobs.Outgoing) []string {
	if a == nil {
		return nil
	}
	names := a.outer.headers(o)
	if slices.Contains(a.to, o) {
		names = append(names, a.names...)
	}
	return names
}

// headersKey is the key of a context's headersBefore.
type headersKey struct{}

// headersBefore returns the headers of the codecs that were applied to a job before. A context passes them, so
// that Encrypt learns of them inside of a codec that wraps it.
func headersBefore(ctx context.Context) []string {
	names, _ := ctx.Value(headersKey{}).([]string)
	return names
}

// DecodePayloads is the middleware that undoes EncodePayloads; give it the same
// codecs in the same order. Handlers inside of it see the plain payload,
// middleware outside of it the stored one. Introduce a codec at workers first,
// then at producers: a job that was enqueued without the codec passes it
// unchanged, unless the codec's documentation says otherwise. Use DecodePayloads
// once in the chain of a handler. It panics if a codec is nil.
func DecodePayloads(codecs ...Codec) jobs.Middleware {
	codecs = checked("DecodePayloads", codecs)
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

// checked returns a copy of codecs, and refuses a nil one.
func checked(name string, codecs []Codec) []Codec {
	for i, c := range codecs {
		if c == nil {
			field.Refuse(name, "has a nil codec at position %d (from 0); make it with Compress, Encrypt or ClaimCheck, or leave it out", i)
		}
	}
	return slices.Clone(codecs)
}

// sign sets the header by which a codec recognizes payloads that it has encoded,
// or removes it if value is empty.
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

// dead returns the error for a payload that no retry makes readable.
func dead(err error, hint string, args ...any) error {
	return fmt.Errorf("%w: %w: %s", jobs.SkipRetry, err, fmt.Sprintf(hint, args...))
}

// sizeOr replaces a zero size by its default and refuses a size below zero or
// above maxPayload.
func sizeOr(name string, n *int, zero int) {
	if *n < 0 || *n > maxPayload {
		field.Refuse(name, "is %d bytes; use 1 to %d, or 0 for %d", *n, maxPayload, zero)
	}
	if *n == 0 {
		*n = zero
	}
}

const maxPayload = 1 << 30

// Delays of a job that this process cannot read, but another process can, or this
// one after a restart with newer code or keys.
const (
	putOffMin = 5 * time.Second
	putOffMax = 10 * time.Minute
)

// putOff returns the error for such a job, which snoozes it without a charge.
func putOff(job *jobs.Job, err error) error {
	return fmt.Errorf("%w: %w", err, putoff.Growing(job.Record(), "payload", putOffMin, putOffMax))
}
