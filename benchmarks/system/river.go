package system

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// connections is the pool size of River and of the bare prototype. With more, River
// was slower.
const connections = 16

// riverArgs has the payload unchanged: the cheapest JSON that River allows.
type riverArgs struct{ json.RawMessage }

func (riverArgs) Kind() string { return jobType }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	handle Handle
	now    bool // retry at once
}

func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	result, err := w.handle(ctx, job.Args.RawMessage, job.Attempt-1)
	if result != nil {
		if err := river.RecordOutput(ctx, json.RawMessage(result)); err != nil {
			return err
		}
	}
	return err
}

func (w *riverWorker) NextRetry(*river.Job[riverArgs]) time.Time {
	if w.now {
		return time.Now()
	}
	return time.Time{}
}

type riverSystem struct {
	setup  Setup
	best   bool
	pool   *pgxpool.Pool
	insert *river.Client[pgx.Tx]
}

func openRiver(best bool) func(context.Context, Setup) (System, error) {
	return func(ctx context.Context, s Setup) (System, error) {
		most := connections
		if len(s.Queues) > 0 { // a fleet
			most = 4
		}
		pool, err := openPool(ctx, s.URL, most)
		if err != nil {
			return nil, err
		}
		r := &riverSystem{setup: s, best: best, pool: pool}
		r.insert, err = river.NewClient(riverpgxv5.New(pool), r.config())
		return r, err
	}
}

func openPool(ctx context.Context, url string, most int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(most)
	return pgxpool.NewWithConfig(ctx, cfg)
}

func (s *riverSystem) config() *river.Config {
	cfg := &river.Config{Logger: slog.New(slog.DiscardHandler)}
	// How soon an insert notifies depends on the cooldown of the inserting client. A
	// shorter one makes bulk inserts slower.
	if s.best && s.quick() {
		cfg.FetchCooldown, cfg.FetchPollInterval = time.Millisecond, 20*time.Millisecond
	}
	return cfg
}

// quick reports whether the workload asks for latency rather than throughput.
func (s *riverSystem) quick() bool { return s.setup.Workload == "W4" }

func (s *riverSystem) Prepare(ctx context.Context) error {
	m, err := rivermigrate.New(riverpgxv5.New(s.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func riverOptions(j *Job) *river.InsertOpts {
	return &river.InsertOpts{Queue: j.Queue, Priority: j.Priority, ScheduledAt: j.RunAt,
		UniqueOpts: river.UniqueOpts{ByArgs: j.Unique}}
}

func (s *riverSystem) Enqueue(ctx context.Context, j *Job) error {
	_, err := s.insert.Insert(ctx, riverArgs{j.Payload}, riverOptions(j))
	return err
}

func (s *riverSystem) EnqueueMany(ctx context.Context, batch []Job) error {
	params := make([]river.InsertManyParams, len(batch))
	for i := range batch {
		params[i] = river.InsertManyParams{Args: riverArgs{batch[i].Payload}, InsertOpts: riverOptions(&batch[i])}
	}
	var err error
	if s.best {
		_, err = s.insert.InsertManyFast(ctx, params)
	} else {
		_, err = s.insert.InsertMany(ctx, params)
	}
	return err
}

func (s *riverSystem) Work(ctx context.Context, handle Handle) (func() error, error) {
	cfg := s.config()
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handle: handle, now: s.setup.Workload == "W8"})
	handlers := s.setup.Handlers
	if s.best && !s.quick() {
		cfg.FetchCooldown, cfg.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
		if s.setup.Workload != "shutdown" { // that workload counts handlers
			handlers = 2000
		}
	}
	cfg.Workers = workers
	cfg.Queues = map[string]river.QueueConfig{}
	for name := range s.setup.Queues {
		cfg.Queues[name] = river.QueueConfig{MaxWorkers: handlers}
	}
	if len(cfg.Queues) == 0 {
		cfg.Queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: handlers}
	}
	client, err := river.NewClient(riverpgxv5.New(s.pool), cfg)
	if err != nil {
		return nil, err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return func() error { return client.Stop(context.Background()) }, nil
}

func (s *riverSystem) Left(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, "select count(*) from river_job where state <> 'completed'").Scan(&n)
	return n, err
}

func (s *riverSystem) Close() error {
	s.pool.Close()
	return nil
}
