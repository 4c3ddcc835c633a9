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
	"github.com/seed81422ce9/jobs/workflow"
)

// The settings of a server process of a fleet.
const (
	envFleet      = "JOBS_INTEGRATION_FLEET"     // its role
	envFleetURL   = "JOBS_INTEGRATION_FLEET_URL" // of the store
	envFleetLease = "JOBS_INTEGRATION_FLEET_LEASE"
	envFleetLost  = "JOBS_INTEGRATION_FLEET_LOST" // one call in this many is carried out, but its answer is lost

	roleTicks     = "ticks"
	roleWorkflows = "workflows"
)

// serveInFleet runs a server process that will be killed. It prints each run of a
// handler before the run ends, so a job whose run was not printed has not ended
// and runs again.
func serveInFleet() int {
	if err := runInFleet(); err != nil {
		fmt.Println("log", err)
		return 1
	}
	return 0
}

func runInFleet() error {
	lease, err := time.ParseDuration(os.Getenv(envFleetLease))
	if err != nil {
		return err
	}
	lost, err := strconv.Atoi(os.Getenv(envFleetLost))
	if err != nil {
		return err
	}
	b, err := backends.Open(context.Background(), os.Getenv(envFleetURL))
	if err != nil {
		return err
	}
	defer b.Close()
	b = losing(b, lost)
	client := jobs.NewClient(b, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithQueue(queue)}})
	defer client.Close()
	logger := slog.New(slog.NewTextHandler(logLines{}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var handler jobs.HandlerFunc
	var extension jobs.Extension
	switch role := os.Getenv(envFleet); role {
	case roleTicks:
		handler = runTick
		extension = schedule.New(b, "test").Extension(client, schedule.ExtensionConfig{Concurrency: 32, Logger: logger})
	case roleWorkflows:
		handler = runNode
		extension = workflow.Extension(client, workflow.ExtensionConfig{Logger: logger})
	default:
		return fmt.Errorf("there is no role %q", role)
	}
	server, err := jobs.NewServer(b, jobs.Config{
		Queues: map[string]int{queue: 1}, Concurrency: 20, Lease: lease, CrashBudget: 100, RetryPolicy: jobs.Constant(lease / 10),
		Logger: logger, Extensions: []jobs.Extension{extension},
	})
	if err != nil {
		return err
	}
	return server.Run(context.Background(), handler)
}

// losing returns a broker that loses some answers of the calls with which
// extensions store their decisions and carry them out.
func losing(b broker.Broker, oneOf int) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		err := next(ctx)
		switch c.Method {
		case "Mark", "Enqueue", "Settle", "Operate":
			if err == nil && rand.IntN(oneOf) == 0 {
				c.Clear()
				return faulty.ErrReplyLost
			}
		}
		return err
	})
}

// logLines prints lines of the log with the prefix "log".
type logLines struct{}

func (logLines) Write(line []byte) (int, error) {
	_, err := os.Stdout.WriteString("log " + strings.ReplaceAll(strings.TrimSpace(string(line)), "\n", " ") + "\n")
	return len(line), err
}
