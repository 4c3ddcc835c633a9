package integration

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	switch {
	case os.Getenv(envFleet) != "":
		os.Exit(serveInFleet())
	case os.Getenv(envURL) != "":
		os.Exit(work())
	}
	testenv.Main(m)
}

// quiet drops the logs of go-redis about stores that the tests stop.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

const (
	// lease is short, because the tests wait for leases to run out.
	lease = time.Second
	// soon bounds every wait. It is generous, because a wait that takes longer fails
	// its test.
	soon = 30 * time.Second

	queue = "work"
)

// onStores runs a test against every store that processes can share.
func onStores(t *testing.T, test func(t *testing.T, s *store)) {
	for name, place := range map[string]func(testing.TB) string{"redis": testenv.RedisPlace, "postgres": testenv.PostgresPlace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, openStore(t, place(t)))
		})
	}
}

// store is the tests' own access to the store, without faults.
type store struct {
	url       string
	client    *jobs.Client
	inspector *inspect.Inspector
}

func openStore(t *testing.T, url string) *store {
	t.Helper()
	if err := backends.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	client := jobs.NewClient(b, jobs.ClientConfig{
		Defaults: []jobs.Option{jobs.WithQueue(queue), jobs.WithRetention(time.Hour)},
	})
	t.Cleanup(func() {
		client.Close()
		if err := b.Close(); err != nil {
			t.Errorf("closing the broker: %v", err)
		}
	})
	return &store{url: url, client: client, inspector: inspect.New(b)}
}

// enqueue enqueues n tasks of a type and returns their IDs.
func (s *store) enqueue(t *testing.T, n int, typ string, payload string, opts ...jobs.Option) []string {
	t.Helper()
	tasks := make([]*jobs.Task, n)
	for i := range tasks {
		tasks[i] = jobs.NewTask(typ, []byte(payload), opts...)
	}
	receipts, err := s.client.EnqueueMany(t.Context(), tasks)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, n)
	for i, r := range receipts {
		ids[i] = r.ID
	}
	return ids
}

// job returns the record of a job.
func (s *store) job(t *testing.T, id string) *jobs.JobRecord {
	t.Helper()
	record, err := s.inspector.Job(t.Context(), queue, id)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// completed waits until the jobs have completed, and returns their records.
func (s *store) completed(t *testing.T, ids []string) []*jobs.JobRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	records := make([]*jobs.JobRecord, len(ids))
	for i, id := range ids {
		record, err := s.client.Wait(ctx, queue, id)
		if err != nil {
			t.Fatalf("job %d of %d did not complete: %v", i+1, len(ids), err)
		}
		if record.State != broker.StateCompleted {
			t.Fatalf("job %s is %v, want completed", id, record.State)
		}
		records[i] = record
	}
	return records
}
