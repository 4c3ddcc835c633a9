package middleware

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/field"
)

// TaskDefaults are values for fields of a job that are zero. A zero field sets
// nothing.
type TaskDefaults struct {
	Queue          string            // for a job in jobs.DefaultQueue
	Timeout        time.Duration     // see jobs.WithTimeout
	Retention      time.Duration     // see jobs.WithRetention
	Backoff        jobs.Backoff      // see jobs.WithBackoff
	CrashBudget    int               // see jobs.WithCrashBudget
	TypeVersion    int               // see jobs.WithTypeVersion
	Key            string            // see jobs.WithPartitionKey
	CorrelationID  string            // see jobs.WithCorrelationID
	IdempotencyKey string            // see jobs.WithIdempotencyKey
	Source         string            // see jobs.WithSource
	Headers        map[string]string // each that the job does not have
}

// Defaults returns enqueue middleware that sets the zero fields of a job to the values
// that choose returns for it: the queue and the limits of its type, or a tenant and a
// correlation ID from the context of the request. Values that an option of the client,
// the definition, the task or the call has set stay. Fields whose zero value cannot be
// distinguished from a set one, such as the priority, are not in TaskDefaults: set them
// by options.
//
// choose is called for each job, from several goroutines at once, and must not change
// it. Its values are checked as those of options are. If it panics, so does Enqueue, and
// nothing is stored.
func Defaults(choose func(ctx context.Context, job *broker.NewJob) TaskDefaults) jobs.EnqueueMiddleware {
	if choose == nil {
		field.Refuse("Defaults", "has no function; give it one")
	}
	return func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			for _, o := range batch {
				if o.Err == nil {
					choose(ctx, &o.NewJob).apply(o)
				}
			}
			next(ctx, batch)
		}
	}
}

func (d TaskDefaults) apply(o *jobs.Outgoing) {
	b := &o.Body
	if o.Queue == jobs.DefaultQueue && d.Queue != "" {
		o.Queue = d.Queue
	}
	set(&b.Timeout, d.Timeout)
	set(&b.Retention, d.Retention)
	set(&b.Backoff, d.Backoff)
	set(&b.CrashBudget, d.CrashBudget)
	set(&b.TypeVersion, d.TypeVersion)
	set(&b.Key, d.Key)
	set(&b.CorrelationID, d.CorrelationID)
	set(&b.IdempotencyKey, d.IdempotencyKey)
	set(&b.Source, d.Source)
	for key, value := range d.Headers {
		if _, has := b.Headers[key]; !has {
			o.SetHeader(key, value)
		}
	}
}

// set gives an empty field a value.
func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
