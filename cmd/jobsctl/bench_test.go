package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

func TestBench_MeasuresAndLeavesNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		small := []string{"bench", "--jobs", "300", "--callers", "8", "--concurrency", "8", "--pickups", "5", "--size", "10"}
		c.has(c.run(0, small...), `300 jobs of 10 bytes`, `enqueue in batches +\d+ jobs/s`, `enqueue one by one +\d+ jobs/s.*median [\d.]+ ms`,
			`drain +\d+ jobs/s +\(600 in `, `pickup +median [\d.]+ ms`)
		lines := strings.Split(strings.TrimSpace(c.run(0, append(small, "--json", "--queue", "bench-here")...)), "\n")
		for i, measure := range []string{"enqueue in batches", "enqueue one by one", "drain", "pickup"} {
			var f figure
			if err := json.Unmarshal([]byte(lines[i]), &f); err != nil || f.Measure != measure || f.Jobs == 0 || f.Seconds <= 0 {
				t.Errorf("line %d is %q, want the figure of %s", i+1, lines[i], measure)
			}
		}
		if out := c.run(0, "stats", "--json"); out != "" {
			t.Errorf("left over: %s", out)
		}
		c.run(0, "enqueue", "--type", "x", "--queue", "mine", "--id", "a")
		c.has(c.run(2, append(small, "--queue", "mine")...), `"mine" exists`)
		c.has(c.run(0, "ls", "--queue", "mine"), `(?m)^mine +a `)
		c.run(0, "delete", "a", "--yes")
		c.has(c.run(2, "bench", "--callers", "0"), `--callers is 0; use 1 to`)
	})
}

// interrupting is a broker that cancels a context at a call, as Ctrl-C does.
type interrupting struct {
	broker.Broker
	stop func()
}

func (b interrupting) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	defer b.stop()
	return b.Broker.Enqueue(ctx, req)
}

func TestBench_ABenchThatIsInterruptedRemovesItsQueue(t *testing.T) {
	t.Parallel()
	store := membroker.NewStore()
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	code := run(ctx, []string{"--broker", "memory://", "bench", "--jobs", "5000"},
		environment{in: strings.NewReader(""), out: &out, err: &errs,
			getenv: func(string) string { return "" }, home: func() (string, error) { return t.TempDir(), nil },
			open: func(context.Context, string) (broker.Broker, error) { return interrupting{store.Open(), cancel}, nil }})
	if code == 0 || strings.Contains(out.String(), "jobs/s") {
		t.Errorf("an interrupted bench exits with %d and says\n%s", code, &out)
	}
	queues, err := store.Open().Queues(t.Context(), broker.QueuesRequest{})
	if err != nil || len(queues.Queues) > 0 {
		t.Errorf("left over: %+v, %v\n%s", queues.Queues, err, &errs)
	}
}
