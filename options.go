package jobs

import (
	"maps"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Option sets something of one enqueued job. Options come from three places:
// ClientConfig.Defaults, then the task's own, then those of the call; a later
// one wins over an earlier one. An Option can be used any number of times and
// from several goroutines. Nothing is checked before Enqueue, which refuses
// what is outside the limits, by name.
type Option interface{ apply(*enqueueConfig) }

// enqueueConfig is what the options of one Enqueue add up to.
type enqueueConfig struct {
	job    *broker.NewJob
	unique bool // uniqueness was asked for, by whichever option
	keySet bool // … with a key of its own
}

type optionFunc func(*enqueueConfig)

func (f optionFunc) apply(c *enqueueConfig) { f(c) }

// DefaultQueue is the queue of jobs that name none.
const DefaultQueue = "default"

// NoTimeout, as a job's timeout, lets a run take as long as it takes.
const NoTimeout = broker.NoTimeout

// Priority orders jobs within a queue; see WithPriority.
type Priority = broker.Priority

// The priorities of a job within its queue, first to last.
const (
	PriorityUrgent = broker.PriorityUrgent
	PriorityNormal = broker.PriorityNormal
	PriorityLow    = broker.PriorityLow
	PriorityBulk   = broker.PriorityBulk
)

// Backoff is a job's own retry policy; see WithBackoff.
type Backoff = broker.Backoff

// The shapes of a Backoff.
const (
	BackoffExponential = broker.BackoffExponential // full jitter over Base·2ⁿ, at most Max
	BackoffLinear      = broker.BackoffLinear      // Base·(n+1), at most Max
	BackoffConstant    = broker.BackoffConstant    // Base
)

// WithQueue puts the job into the queue called name: 1 to 255 bytes of UTF-8
// without control characters and braces. The default is DefaultQueue.
func WithQueue(name string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Queue = name })
}

// WithPriority places the job among the others of its queue: all urgent jobs
// go out before all normal ones, and so on. The default is PriorityNormal.
func WithPriority(p Priority) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Priority = p })
}

// WithDelay makes the job due d after the store accepts it, by the store's
// clock. Zero means at once, the limit is 100 years. It replaces WithRunAt.
func WithDelay(d time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Delay, c.job.RunAt = d, time.Time{} })
}

// WithRunAt makes the job due at t, rounded up to a microsecond: never before,
// by the store's clock. A time that has passed, or the zero time, means at
// once; the limit is the year 2199. It replaces WithDelay.
func WithRunAt(t time.Time) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Delay, c.job.RunAt = 0, t })
}

// WithDeadline lets no run start at or after t: the job is then dead, with
// reason expired. A run that has started is cut off at t, with cause
// ErrDeadline. The zero time, the default, means no deadline; the limit is the
// year 2199.
func WithDeadline(t time.Time) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Deadline = t })
}

// WithTimeout bounds each run: its context ends after d with cause ErrTimeout.
// Zero, the default, means the server's default (30 minutes unless it was
// configured); NoTimeout, which is 100 years, means no bound.
func WithTimeout(d time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Timeout = d })
}

// WithMaxRetries lets the job fail n times and still run again, so that it runs
// at most n+1 times; then it is dead. The default is 25, zero runs once, the
// limit is a million. Crashes of workers, snoozes and releases do not count.
func WithMaxRetries(n int) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.MaxRetries = n })
}

// WithBackoff gives the job a retry policy of its own, used instead of the
// server's; RetryAfter still wins over it. Base is more than zero and at most
// 100 years; a Max of zero means no other bound. The zero Backoff, the default,
// leaves it to the server.
func WithBackoff(b Backoff) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Backoff = b })
}

// WithCrashBudget lets n workers die while they hold the job; the next crash
// makes it dead. Zero, the default, means the server's default (3 unless it
// was configured); the limit is a million.
func WithCrashBudget(n int) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.CrashBudget = n })
}

// WithRetention keeps the record of the completed or cancelled job, with its
// result, for d, at most 100 years. Zero, the default, means the queue's
// policy, which keeps none unless it was changed. Dead jobs are kept in any case.
func WithRetention(d time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Retention = d })
}

// WithID gives the job an ID chosen by the caller, 1 to 255 bytes, unique in
// its queue. Enqueueing it again is refused with ErrDuplicate while a record
// of it exists and, after that, for the queue's duplicate window (an hour
// unless the policy says otherwise). An Enqueue whose outcome is unknown can
// therefore be repeated with the same ID without making a second job. By
// default the client makes a time-ordered ID.
func WithID(id string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.ID, c.job.Body.GivenID = id, true })
}

// WithKey names the tenant, account or partition that the job belongs to, at
// most 255 bytes. Operators select jobs by it, and middleware can measure and
// limit by it; the order in which jobs run does not depend on it. The default
// is none.
func WithKey(key string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Key = key })
}

// WithHeader adds one header. Keys are not empty, values may be any bytes; a
// job has at most 64 headers of together 64 KiB. A later value replaces an
// earlier one of the same key.
func WithHeader(key, value string) Option {
	return optionFunc(func(c *enqueueConfig) { setHeader(c.job, key, value) })
}

// WithHeaders adds headers as WithHeader does. The map must not change while
// the option is in use.
func WithHeaders(headers map[string]string) Option {
	return optionFunc(func(c *enqueueConfig) {
		if c.job.Body.Headers == nil {
			c.job.Body.Headers = maps.Clone(headers)
			return
		}
		maps.Copy(c.job.Body.Headers, headers)
	})
}

func setHeader(job *broker.NewJob, key, value string) {
	if job.Body.Headers == nil {
		job.Body.Headers = make(map[string]string)
	}
	job.Body.Headers[key] = value
}

// WithCorrelationID marks the job as part of something larger, a request or a
// business process: at most 255 bytes, kept with the job and shown to its
// handler. The default is none.
func WithCorrelationID(id string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.CorrelationID = id })
}

// WithIdempotencyKey names the business effect of the job, at most 255 bytes.
// Give the same key whenever the same effect is meant: handlers, and the dedup
// middleware, use it to have the effect once although a job can run twice. It
// refuses no enqueue; see WithUniqueKey for that. The default is none.
func WithIdempotencyKey(key string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.IdempotencyKey = key })
}

// WithTypeVersion says which form the payload has, so that a handler can tell
// an old one from a new one: zero, the default, or more.
func WithTypeVersion(version int) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.TypeVersion = version })
}

// WithSource records what enqueues the job, at most 255 bytes: the name of an
// application or of a schedule. The default is none.
func WithSource(source string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Source = source })
}

// WithPayloadRef records where the payload is, at most 64 KiB, when it is
// stored elsewhere because it is too large. The handler fetches it; the
// framework only carries the reference. The default is none.
func WithPayloadRef(ref string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.PayloadRef = ref })
}
