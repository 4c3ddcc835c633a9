package system

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

type asynqSystem struct {
	setup     Setup
	best      bool
	redis     asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
}

func openAsynq(best bool) func(context.Context, Setup) (System, error) {
	return func(_ context.Context, s Setup) (System, error) {
		opt, err := asynq.ParseRedisURI(s.URL)
		if err != nil {
			return nil, err
		}
		redis := opt.(asynq.RedisClientOpt)
		if best {
			redis.PoolSize = 128
		}
		return &asynqSystem{setup: s, best: best, redis: redis, client: asynq.NewClient(redis), inspector: asynq.NewInspector(redis)}, nil
	}
}

func (s *asynqSystem) Prepare(context.Context) error { return nil }

func (s *asynqSystem) Enqueue(ctx context.Context, j *Job) error {
	var options []asynq.Option
	if j.Queue != "" {
		options = append(options, asynq.Queue(j.Queue))
	}
	if !j.RunAt.IsZero() {
		options = append(options, asynq.ProcessAt(j.RunAt))
	}
	if j.Unique {
		options = append(options, asynq.Unique(time.Hour))
	}
	if j.Keep > 0 {
		options = append(options, asynq.Retention(j.Keep))
	}
	_, err := s.client.EnqueueContext(ctx, asynq.NewTask(jobType, j.Payload), options...)
	return err
}

func (s *asynqSystem) EnqueueMany(context.Context, []Job) error { return ErrNoBatch }

func (s *asynqSystem) Work(_ context.Context, handle Handle) (func() error, error) {
	cfg := asynq.Config{Concurrency: s.setup.Handlers, Queues: s.setup.Queues, Logger: silent{}}
	if s.setup.Workload == "W8" {
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	}
	n := 1
	if s.best {
		n = 4
		cfg.Concurrency = max(1, cfg.Concurrency/n)
		cfg.TaskCheckInterval, cfg.DelayedTaskCheckInterval = 5*time.Millisecond, 5*time.Millisecond
	}
	servers := make([]*asynq.Server, n)
	for i := range servers {
		servers[i] = asynq.NewServer(s.redis, cfg)
		err := servers[i].Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			failures, _ := asynq.GetRetryCount(ctx)
			result, err := handle(ctx, task.Payload(), failures)
			if result != nil {
				if _, err := task.ResultWriter().Write(result); err != nil {
					return err
				}
			}
			return err
		}))
		if err != nil {
			return nil, err
		}
	}
	return func() error {
		var all sync.WaitGroup
		for _, server := range servers {
			all.Go(server.Shutdown)
		}
		all.Wait()
		return nil
	}, nil
}

func (s *asynqSystem) Left(context.Context) (int, error) {
	queues, err := s.inspector.Queues()
	if err != nil {
		return 0, err
	}
	left := 0
	for _, name := range queues {
		q, err := s.inspector.GetQueueInfo(name)
		if err != nil {
			return 0, err
		}
		left += q.Size - q.Completed
	}
	return left, nil
}

func (s *asynqSystem) Close() error { return errors.Join(s.client.Close(), s.inspector.Close()) }

// silent is a logger that drops everything.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}
