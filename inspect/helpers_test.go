package inspect

import (
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

func newStore(t testing.TB) *membroker.Broker {
	b := membroker.New()
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func newTestClient(t testing.TB, b broker.Broker, cfg jobs.ClientConfig) *jobs.Client {
	c := jobs.NewClient(b, cfg)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mustEnqueue(t testing.TB, c *jobs.Client, task *jobs.Task, opts ...jobs.Option) *jobs.JobInfo {
	t.Helper()
	info, err := c.Enqueue(t.Context(), task, opts...)
	if err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	return info
}
