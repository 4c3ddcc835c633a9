package jobs

import (
	"maps"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Option sets a property of an enqueued job. Options come from
// ClientConfig.Defaults, then from the task, then from the call; a later one
// overrides an earlier one. An Option can be used any number of times and from
// several goroutines. Enqueue refuses values outside the limits with ErrInvalid
// or ErrTooLarge.
type Option interface{ apply(*enqueueConfig) }

// enqueueConfig collects the options of one Enqueue.
type enqueueConfig struct {
	job    *broker.NewJob
	unique bool          // some option asked for uniqueness
	keySet bool          // WithUniqueKey set the key
	noKey  bool          // Definition.UniqueBy gave the job no key: it is not unique
	quiet  time.Duration // of WithUniqueDebounce

	labels []string
	share  labelShare
}

type optionFunc func(*enqueueConfig)

func (f optionFunc) apply(c *enqueueConfig) { f(c) }

// DefaultQueue is the queue of jobs without WithQueue.
const DefaultQueue = "default"

// NoTimeout as the timeout of a job or of Config means no limit.
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
// without control characters and braces. A plus sign separates a base queue from
// labels; see QueueWithLabels. The default is DefaultQueue.
func WithQueue(name string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Queue = name })
}

// WithPriority sets the priority of the job in its queue: all urgent jobs run
// before all normal ones, and so on, unless the queue's policy has a PriorityRound.
// The default is PriorityNormal.
func WithPriority(p Priority) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Priority = p })
}

// WithDelay makes the job due d after the store accepts it, by the store's
// clock. Zero means at once; the limit is 100 years. It overrides an earlier
// WithRunAt.
func WithDelay(d time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Delay, c.job.RunAt = d, time.Time{} })
}

// WithRunAt makes the job due at t, rounded up to a microsecond: never before,
// by the store's clock. A time in the past, and the zero time, mean at once;
// the limit is the year 2199. It overrides an earlier WithDelay.
func WithRunAt(t time.Time) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Delay, c.job.RunAt = 0, t })
}

// WithDeadline makes the job expire at t: from then on no run starts, and a job that
// is claimed later is dead, with reason expired. The context of a run that has
// started ends at t, with cause ErrDeadline. A delay or a time to run that is not before
// t is refused by Enqueue. The zero time, the default, means no deadline; the limit is the year 2199.
func WithDeadline(t time.Time) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Deadline = t })
}

// WithTimeout limits each run: its context ends after d with cause ErrTimeout.
// Zero, the default, means the server's default (30 minutes unless
// configured). NoTimeout, which is 100 years, means no limit. The minimum is 1 ms.
func WithTimeout(d time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Timeout = d })
}

// WithMaxRetries lets the job run again after each of its first n failures. The
// next failure makes it dead. The default is 25; with zero the first failure
// makes it dead; the limit is a million. Crashes of workers, snoozes and releases
// do not count.
func WithMaxRetries(n int) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.MaxRetries = n })
}

// WithBackoff gives the job its own retry policy instead of the server's.
// RetryAfter overrides it. Kind is required. Base is more than zero and at most
// 100 years. With a Max of zero the delay grows up to 100 years. The zero Backoff,
// the default, means the server's policy.
func WithBackoff(b Backoff) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Backoff = b })
}

// WithCrashBudget sets how many crashes the job survives: workers that die while
// they hold it. The next crash makes it dead. Zero, the default, means the
// server's default (3 unless configured); the limit is a million. Crashes count
// as long as the job lives: a job that snoozes for months needs a larger budget.
func WithCrashBudget(n int) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.CrashBudget = n })
}

// WithRetention keeps the record of the completed or cancelled job, with its
// result, for d, from 1 ms to 100 years. Zero, the default, means the queue's
// policy, which keeps no records unless changed. Dead jobs are kept unless the
// queue's policy deletes them (RetainDead).
func WithRetention(d time.Duration) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Retention = d })
}

// WithID gives the job an ID chosen by the caller, 1 to 255 bytes, unique in
// its queue. A second job with the ID is refused with ErrDuplicate while a record
// of the first exists and, after that, for the queue's duplicate window (an hour
// unless its policy says otherwise). So if the outcome of an Enqueue is
// unknown, repeat it with the same ID: it cannot make a second job. By default
// the client generates a time-ordered ID.
func WithID(id string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.ID, c.job.Body.GivenID = id, true })
}

// WithPartitionKey names the tenant, account or API that the job is for, at most
// 255 bytes. The keys of a queue take turns: many jobs of one key do not delay
// those of another. A queue's policy can limit each key, or run its jobs one after
// the other. Operators select jobs by key. The default is none; jobs without a key
// share one turn. A partition key makes no job a duplicate; WithUniqueKey does.
func WithPartitionKey(key string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Key = key })
}

// WithHeader adds a header. Keys must not be empty; values can be any bytes. A
// job has at most 64 headers, of 64 KiB in all. A later value replaces an
// earlier one of the same key.
func WithHeader(key, value string) Option {
	return optionFunc(func(c *enqueueConfig) { setHeader(c.job, key, value) })
}

// WithHeaders adds headers as WithHeader does. It keeps the map, which must not
// change while the option is in use.
func WithHeaders(headers map[string]string) Option {
	return optionFunc(func(c *enqueueConfig) {
		if c.job.Body.Headers == nil {
			c.job.Body.Headers = maps.Clone(headers)
			return
		}
		maps.Copy(c.job.Body.Headers, headers)
	})
}

// WithoutHeaders undoes all earlier WithHeader and WithHeaders options.
func WithoutHeaders() Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Headers = nil })
}

func setHeader(job *broker.NewJob, key, value string) {
	if job.Body.Headers == nil {
		job.Body.Headers = make(map[string]string)
	}
	job.Body.Headers[key] = value
}

// WithCorrelationID names the request or the business process that the job is part
// of, at most 255 bytes. Handlers and operators see it. The default is none.
func WithCorrelationID(id string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.CorrelationID = id })
}

// WithIdempotencyKey names the business effect of the job, at most 255 bytes.
// Use the same key whenever you mean the same effect. Handlers, and
// middleware.Dedup, use it so that the effect happens once although the job can
// run twice. It makes no job a duplicate; WithUniqueKey does. The default is
// none.
func WithIdempotencyKey(key string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.IdempotencyKey = key })
}

// WithTypeVersion sets the version of the payload's form, so that a handler
// can tell old payloads from new ones; see Definition.Version. The default is
// zero.
func WithTypeVersion(version int) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.TypeVersion = version })
}

// WithSource records what enqueues the job, at most 255 bytes: the name of an
// application or of a schedule. The default is none.
func WithSource(source string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.Source = source })
}

// WithPayloadRef says where the payload is stored, for a payload that is too large for
// the job. The reference has at most 64 KiB. The framework only stores it; the
// handler, or payload.ClaimCheck, fetches the payload. The default is none.
func WithPayloadRef(ref string) Option {
	return optionFunc(func(c *enqueueConfig) { c.job.Body.PayloadRef = ref })
}
