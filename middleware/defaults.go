package middleware

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/field"
)

// TaskDefaults are values for what a job leaves open. A zero field sets
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

// Defaults returns enqueue middleware that fills in what a job leaves open with
// what choose returns for it: the queue and the limits of its type, a tenant
// and a correlation ID from the context of the request that enqueues it. What
// the producer has set stays; jobs.ClientConfig.Defaults and the options of a
// definition count as set. What cannot be told from a default, such as a
// priority, is not among the TaskDefaults: set it with those.
//
// Choose is called for each job, from several goroutines at once, and must not
// change it. What it returns is checked as the options are. If it panics, so
// does the call of Enqueue, and nothing is stored.
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
