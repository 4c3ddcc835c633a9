package system

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
)

type jobsSystem struct {
	setup  Setup
	broker broker.Broker
	client *jobs.Client
	claims claimTimes
}

// claimTimes records how long claims took that returned jobs.
type claimTimes struct {
	mu   sync.Mutex
	took []int64
}

func (c *claimTimes) note(e jobs.ClaimEvent) {
	if len(e.Jobs) > 0 {
		c.mu.Lock()
		c.took = append(c.took, int64(e.Took))
		c.mu.Unlock()
	}
}

// ClaimsTook returns the times of claims, in workloads where the depth of the queue
// or finished jobs may affect them.
func (s *jobsSystem) ClaimsTook() []int64 { return s.claims.took }

func openJobs(ctx context.Context, s Setup) (System, error) {
	if err := backends.Migrate(ctx, s.URL); err != nil {
		return nil, err
	}
	b, err := backends.Open(ctx, s.URL)
	if err != nil {
		return nil, err
	}
	if s.Policy != nil {
		if _, err := b.Policy(ctx, *s.Policy); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return &jobsSystem{setup: s, broker: b, client: jobs.NewClient(b, traced(s.Workload))}, nil
}

// Prepare does nothing, since openJobs has prepared the store.
func (s *jobsSystem) Prepare(context.Context) error { return nil }

func jobsTask(j *Job) *jobs.Task {
	var options []jobs.Option
	if j.Queue != "" {
		options = append(options, jobs.WithQueue(j.Queue))
	}
	if j.Priority > 0 {
		options = append(options, jobs.WithPriority(jobs.Priority(j.Priority)))
	}
	if !j.RunAt.IsZero() {
		options = append(options, jobs.WithRunAt(j.RunAt))
	}
	if j.Key != "" {
		options = append(options, jobs.WithPartitionKey(j.Key))
	}
	if j.Unique {
		options = append(options, jobs.WithUniqueUntilDone(time.Hour))
	}
	if j.Keep > 0 {
		options = append(options, jobs.WithRetention(j.Keep))
	}
	return jobs.NewTask(jobType, j.Payload, options...)
}

func (s *jobsSystem) Enqueue(ctx context.Context, j *Job) error {
	_, err := s.client.Enqueue(ctx, jobsTask(j))
	return err
}

func (s *jobsSystem) EnqueueMany(ctx context.Context, batch []Job) error {
	tasks := make([]*jobs.Task, len(batch))
	for i := range batch {
		tasks[i] = jobsTask(&batch[i])
	}
	_, err := s.client.EnqueueMany(ctx, tasks)
	return err
}

func (s *jobsSystem) Work(_ context.Context, handle Handle) (func() error, error) {
	cfg := jobs.Config{Concurrency: s.setup.Handlers, Queues: s.setup.Queues, Logger: slog.New(slog.DiscardHandler)}
	if s.setup.Workload == "W8" {
		cfg.RetryPolicy = jobs.Constant(0)
	}
	if sampler := samplers[s.setup.Workload]; sampler != nil {
		if err := mountChain(&cfg, s.broker, sampler); err != nil {
			return nil, err
		}
	}
	if w := s.setup.Workload; strings.HasPrefix(w, "depth") || strings.HasPrefix(w, "W9") {
		cfg.Hooks.Claim = s.claims.note
	}
	server, err := jobs.NewServer(s.broker, cfg)
	if err != nil {
		return nil, err
	}
	err = server.Start(context.Background(), jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		result, err := handle(ctx, job.Payload(), job.Attempt())
		if result != nil {
			job.SetResult(result)
		}
		return err
	}))
	return func() error { return server.Shutdown(context.Background()) }, err
}

func (s *jobsSystem) Left(ctx context.Context) (int, error) {
	queues, err := inspect.New(s.broker).Queues(ctx)
	left := 0
	for _, q := range queues {
		for state, n := range q.Counts {
			if state != jobs.StateCompleted {
				left += int(n)
			}
		}
	}
	return left, err
}

func (s *jobsSystem) Close() error {
	s.client.Close()
	return s.broker.Close()
}
