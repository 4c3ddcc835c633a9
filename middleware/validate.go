package middleware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/field"
)

// Check returns an error if a job must not be stored, or nil. It must not change the
// job, and its error must not quote the payload. Several goroutines call it at once.
type Check func(ctx context.Context, job *broker.NewJob) error

// Validate returns enqueue middleware that refuses each job for which a check returns
// an error, with jobs.ErrInvalid. A refused job is not stored; the other jobs of its batch are. The
// first error counts; a check that panics also refuses the job. Limits of names and sizes need no check:
// every client checks them.
//
// Checks see the job as outer middleware left it: put Validate inside Defaults and
// outside payload.EncodePayloads. Nil checks are skipped.
func Validate(checks ...Check) jobs.EnqueueMiddleware {
	return func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			refused := 0
			for _, o := range batch {
				for _, check := range checks {
					if check == nil || o.Err != nil {
						continue
					}
					if o.Err = runCheck(ctx, check, &o.NewJob); o.Err != nil {
						refused++
					}
				}
			}
			if refused == 0 {
				next(ctx, batch)
				return
			}
			rest := make([]*jobs.Outgoing, 0, len(batch)-refused)
			for _, o := range batch {
				if o.Err == nil {
					rest = append(rest, o)
				}
			}
			if len(rest) > 0 {
				next(ctx, rest)
			}
		}
	}
}

// runCheck calls a check and makes its error jobs.ErrInvalid.
func runCheck(ctx context.Context, check Check, job *broker.NewJob) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: a check failed: %w", jobs.ErrInvalid, &jobs.PanicError{Value: value, Stack: string(debug.Stack())})
		}
	}()
	if err = check(ctx, job); err != nil && !errors.Is(err, jobs.ErrInvalid) {
		err = fmt.Errorf("%w: %w", jobs.ErrInvalid, err)
	}
	return err
}

// KnownTypes returns a Check that a task's type matches one of the patterns, usually those of a
// jobs.ServeMux (see its method Patterns). So the producer refuses a job of a type that no worker knows.
func KnownTypes(patterns ...string) Check {
	exact := make(map[string]bool)
	var prefixes []string
	for _, p := range patterns {
		prefix, ok := strings.CutSuffix(p, "*")
		if strings.Contains(prefix, "*") {
			field.Refuse("KnownTypes", "has the pattern %q; a * stands for the rest of a type, and must be at the end of the pattern", p)
		}
		if ok {
			prefixes = append(prefixes, prefix)
		} else {
			exact[p] = true
		}
	}
	return func(_ context.Context, job *broker.NewJob) error {
		typ := job.Body.Type
		if exact[typ] {
			return nil
		}
		for _, p := range prefixes {
			if strings.HasPrefix(typ, p) {
				return nil
			}
		}
		return broker.Invalid("type", "%q is not known here; known are %q", typ, patterns)
	}
}

// MaxPayload returns a Check that a payload has at most limit bytes, for a limit
// below the store's.
func MaxPayload(limit int) Check {
	if limit < 1 {
		field.Refuse("MaxPayload", "is %d; use 1 byte or more", limit)
	}
	return func(_ context.Context, job *broker.NewJob) error {
		if n := len(job.Body.Payload); n > limit {
			return broker.Invalid("payload", "has %d bytes, the limit is %d; store it elsewhere and pass a reference, as ClaimCheck does",
				n, limit)
		}
		return nil
	}
}

// JSONPayload returns a Check that a payload is JSON.
func JSONPayload() Check {
	return func(_ context.Context, job *broker.NewJob) error {
		if !json.Valid(job.Body.Payload) {
			return broker.Invalid("payload", "is not JSON; encode it, jobs.Define does")
		}
		return nil
	}
}

// RequireKey returns a Check that a job has a partition key; see
// jobs.WithPartitionKey.
func RequireKey() Check {
	return func(_ context.Context, job *broker.NewJob) error {
		if job.Body.Key == "" {
			return broker.Invalid("key", "is empty; name the job's tenant with WithPartitionKey")
		}
		return nil
	}
}
