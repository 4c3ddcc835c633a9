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

// Check says what is wrong with a job that is about to be stored, or nil. It
// must not change the job, and its error must not quote the payload. It may be
// called from several goroutines.
type Check func(ctx context.Context, job *broker.NewJob) error

// Validate returns enqueue middleware that refuses, with jobs.ErrInvalid, each
// job of which a check says that something is wrong: nothing of it is stored,
// and the other jobs of its batch go on. The first check that fails decides;
// one that panics refuses the job. The limits of names and sizes need no check:
// every client and store has them.
//
// What is checked is what the chain outside of Validate has made of the job:
// put it inside of Defaults and outside of EncodePayloads. Nil checks are
// skipped.
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

// runCheck makes what a check says an error that is jobs.ErrInvalid.
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

// KnownTypes is the Check that a task's type matches one of patterns, which are
// those of a ServeMux (see jobs.ServeMux.Patterns): a job that no worker knows
// is refused where the mistake was made.
func KnownTypes(patterns ...string) Check {
	exact := make(map[string]bool)
	var prefixes []string
	for _, p := range patterns {
		prefix, ok := strings.CutSuffix(p, "*")
		if strings.Contains(prefix, "*") {
			field.Refuse("KnownTypes", "has the pattern %q; a * stands for the rest of a type, at the end of a pattern alone", p)
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

// MaxPayload is the Check that a payload has at most limit bytes, for a limit
// below the store's.
func MaxPayload(limit int) Check {
	if limit < 1 {
		field.Refuse("MaxPayload", "is %d; use 1 byte or more", limit)
	}
	return func(_ context.Context, job *broker.NewJob) error {
		if n := len(job.Body.Payload); n > limit {
			return broker.Invalid("payload", "has %d bytes, the limit is %d; store it elsewhere and pass a reference (ClaimCheck does)",
				n, limit)
		}
		return nil
	}
}

// JSONPayload is the Check that a payload is JSON.
func JSONPayload() Check {
	return func(_ context.Context, job *broker.NewJob) error {
		if !json.Valid(job.Body.Payload) {
			return broker.Invalid("payload", "is not JSON; encode it, jobs.Define does")
		}
		return nil
	}
}

// RequireKey is the Check that a job names its tenant; see jobs.WithPartitionKey.
func RequireKey() Check {
	return func(_ context.Context, job *broker.NewJob) error {
		if job.Body.Key == "" {
			return broker.Invalid("key", "is empty; name the job's tenant with WithPartitionKey")
		}
		return nil
	}
}
