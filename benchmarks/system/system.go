// Package system has one interface for all compared systems.
package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Job is a job for any system. Zero fields ask for nothing.
type Job struct {
	Queue    string
	Payload  []byte
	Priority int // 1 to 4, 1 first
	RunAt    time.Time
	Key      string        // partition key, for ours
	Unique   bool          // by type and payload, until it is done
	Keep     time.Duration // how long its record stays, with a result
}

// Setup says how to open a system.
type Setup struct {
	URL      string
	Workload string
	Handlers int                   // jobs handled at once
	Queues   map[string]int        // with their weights
	Policy   *broker.PolicyRequest // of a queue, for ours
}

// Handle runs one job. failures counts its earlier failures; result is kept if the job
// asks for it.
type Handle func(ctx context.Context, payload []byte, failures int) (result []byte, err error)

// System is a job system under test, opened by one process.
type System interface {
	// Prepare makes what the system needs in the store, such as tables.
	Prepare(ctx context.Context) error
	Enqueue(ctx context.Context, job *Job) error
	// EnqueueMany enqueues a batch in one call, or returns ErrNoBatch.
	EnqueueMany(ctx context.Context, batch []Job) error
	// Work handles jobs until stop is called, which lets handlers finish.
	Work(ctx context.Context, handle Handle) (stop func() error, err error)
	// Left counts the jobs that are not done.
	Left(ctx context.Context) (int, error)
	Close() error
}

// ClaimTimer is a system that reports, once it has stopped working, how long its
// claims took that returned jobs, in nanoseconds.
type ClaimTimer interface {
	ClaimsTook() []int64
}

// ErrNoBatch: the system has no call that enqueues several jobs.
var ErrNoBatch = errors.New("has no batch call")

// ErrFail is the error of handlers that fail on purpose.
var ErrFail = errors.New("meant to fail")

const jobType = "bench"

// Kind describes a system.
type Kind struct {
	Name  string
	Store string // redis, postgres, file or memory
	Ours  bool
	Bare  bool // a prototype without a framework
	Best  bool // a peer with its best settings; the name without the suffix is the peer with defaults
	About string
	Only  string // the one workload it takes part in, if not in all
	open  func(ctx context.Context, s Setup) (System, error)
}

// Kinds lists the systems.
var Kinds = []Kind{
	{Name: "jobs-redis", Store: "redis", Ours: true, open: openJobs, About: "jobs, defaults"},
	{Name: "asynq", Store: "redis", open: openAsynq(false), About: "asynq, defaults"},
	{Name: "asynq-best", Store: "redis", Best: true, open: openAsynq(true),
		About: "asynq with 128 connections, 5 ms check intervals and, in the worker process, four servers of a quarter of the handlers each"},
	{Name: "bare-redis", Store: "redis", Bare: true, open: openBareRedis(false),
		About: "raw go-redis: hash, list, set per worker, two scripts; no recovery, no policies"},
	{Name: "refusing-redis", Store: "redis", Bare: true, Only: "W1par", open: openBareRedis(true),
		About: "bare-redis that enqueues by a script, which refuses IDs that are there"},
	{Name: "jobs-postgres", Store: "postgres", Ours: true, open: openJobs, About: "jobs, defaults"},
	{Name: "river", Store: "postgres", open: openRiver(false),
		About: "River, defaults, 16 connections; at most 5,000 jobs where it handles them, since it takes 1000 a second"},
	{Name: "river-best", Store: "postgres", Best: true, open: openRiver(true),
		About: "River as `river bench` sets it: 2000 workers, fetch every 2 ms, poll every 20 ms; for W4 1 ms in producer and worker; " +
			"InsertManyFast"},
	{Name: "bare-postgres", Store: "postgres", Bare: true, open: openBarePostgres,
		About: "raw pgx: one hot table, a history table, one pipeline a turn; no recovery, no policies"},
	{Name: "jobs-file", Store: "file", Ours: true, open: openJobs,
		About: "jobs, defaults, a file that is synced before each answer; producer and worker in one process"},
	{Name: "jobs-memory", Store: "memory", Ours: true, open: openJobs, About: "jobs, defaults, producer and worker in one process"},
}

// Find returns the system called name.
func Find(name string) (Kind, error) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, fmt.Errorf("there is no system %q", name)
	}
	return Kinds[i], nil
}

// Open opens the system called name.
func Open(ctx context.Context, name string, s Setup) (System, error) {
	k, err := Find(name)
	if err != nil {
		return nil, err
	}
	return k.open(ctx, s)
}
