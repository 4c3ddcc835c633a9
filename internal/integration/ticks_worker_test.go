package integration

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/schedule"
)

// What a process that runs schedules is told.
const (
	envTicks     = "JOBS_INTEGRATION_TICKS" // the URL of the store
	envTickLease = "JOBS_INTEGRATION_TICK_LEASE"
	envTickLost  = "JOBS_INTEGRATION_TICK_LOST" // of so many calls, one is carried out and its answer lost
)

// tick is a process that runs schedules and the jobs of their ticks. It tells
// each run on its standard output before the run ends: a job whose run is not
// told has not ended, and runs again.
func tick() int {
	if err := runTicks(); err != nil {
		fmt.Println("log", err)
		return 1
	}
	return 0
}

func runTicks() error {
	lease, err := time.ParseDuration(os.Getenv(envTickLease))
	if err != nil {
		return err
	}
	b, err := backends.Open(context.Background(), os.Getenv(envTicks))
	if err != nil {
		return err
	}
	defer b.Close()
	lost, err := strconv.Atoi(os.Getenv(envTickLost))
	if err != nil {
		return err
	}
	b = losing(b, lost)
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	logger := slog.New(slog.NewTextHandler(logLines{}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	server, err := jobs.NewServer(b, jobs.Config{
		Queues: map[string]int{queue: 1}, Concurrency: 20, Lease: lease, CrashBudget: 100, Logger: logger,
		Extensions: []jobs.Extension{schedule.New(b, "test").Extension(client, schedule.ExtensionConfig{Concurrency: 32, Logger: logger})},
	})
	if err != nil {
		return err
	}
	return server.Run(context.Background(), jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
		k, ok := schedule.TickOf(job)
		if !ok {
			return fmt.Errorf("%s is of no tick", job.ID())
		}
		late := time.Since(k.At)
		_, err := os.Stdout.WriteString(tickRan{job.ID(), job.CreatedAt().UnixMicro(), late}.line())
		return err
	}))
}

// losing is a broker that loses some answers of the calls by which ticks are
// decided, written down, enqueued and settled.
func losing(b broker.Broker, oneOf int) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		err := next(ctx)
		switch c.Method {
		case "Mark", "Enqueue", "Settle":
			if err == nil && rand.IntN(oneOf) == 0 {
				c.Clear()
				return faulty.ErrReplyLost
			}
		}
		return err
	})
}

// logLines marks lines of the log.
type logLines struct{}

func (logLines) Write(line []byte) (int, error) {
	_, err := os.Stdout.WriteString("log " + strings.ReplaceAll(strings.TrimSpace(string(line)), "\n", " ") + "\n")
	return len(line), err
}

// tickRan is one run of a job: of two jobs with one ID, the later was created later.
type tickRan struct {
	id      string
	created int64 // microseconds
	late    time.Duration
}

func (r tickRan) line() string { return fmt.Sprintf("ran %s %d %d\n", r.id, r.created, r.late) }

func parseRan(line string) (r tickRan, ok bool) {
	f := strings.Fields(line)
	if len(f) != 4 || f[0] != "ran" {
		return r, false
	}
	created, err := strconv.ParseInt(f[2], 10, 64)
	late, err2 := strconv.ParseInt(f[3], 10, 64)
	return tickRan{f[1], created, time.Duration(late)}, err == nil && err2 == nil
}
