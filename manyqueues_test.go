package jobs

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// costly is a store whose claims take 10 µs for each queue that they name and for each job. It
// counts both.
type costly struct {
	*tap
	named, gave atomic.Int64
}

func newCostly(b broker.Broker) *costly {
	c := &costly{tap: &tap{Broker: b}}
	c.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
		names := map[string]bool{}
		for _, share := range req.Queues {
			names[share.Queue] = true
		}
		reply, err := b.Claim(ctx, req)
		c.named.Add(int64(len(names)))
		c.gave.Add(int64(len(reply.Jobs)))
		time.Sleep(time.Duration(len(names)+len(reply.Jobs)) * 10 * time.Microsecond)
		return reply, err
	}
	return c
}

// A busy server of many queues mostly asks those that have jobs. It also soon finds a job of
// another queue.
func TestServer_ABusyServerOfManyQueuesDoesNotAskAllEachTime(t *testing.T) {
	const queues, backlog = 500, 20_000
	for _, full := range []int{1, 5, queues} {
		t.Run(strconv.Itoa(full), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				weights := make(map[string]int)
				for i := range queues {
					weights["queue"+strconv.Itoa(i)] = 1
				}
				b := newCostly(newStore())
				for i := range full {
					for part := range 4 {
						add(t, b, "queue"+strconv.Itoa(i), "part"+strconv.Itoa(part), backlog/full/4)
					}
				}
				var alone atomic.Pointer[time.Time]
				serve(t, b, Config{Queues: weights, Concurrency: 100, Logger: slog.New(slog.DiscardHandler)}, func(_ context.Context, job *Job) error {
					if job.Type() == "alone" {
						now := time.Now()
						alone.Store(&now)
					}
					return nil
				})
				time.Sleep(50 * time.Millisecond)
				enqueued, named, gave := time.Now(), b.named.Load(), b.gave.Load()
				add(t, b, "queue300", "alone", 1)
				pass(150 * time.Millisecond)
				if at := alone.Load(); full < queues && (at == nil || at.Sub(enqueued) > 120*time.Millisecond) {
					t.Errorf("a job of a queue that was empty at %v began at %v, want at most about ten times later than asking all queues takes",
						enqueued, at)
				}
				if named, gave = b.named.Load()-named, b.gave.Load()-gave; gave == 0 || named > gave {
					t.Errorf("it named %d queues for %d jobs, want fewer queues than jobs", named, gave)
				}
			})
		})
	}
}
