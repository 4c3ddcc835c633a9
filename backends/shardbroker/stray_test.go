package shardbroker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// A store with jobs becomes one of two shards, by processes that do not say that the other one joins. The jobs that would
// be in the other shard end where they are.
func TestStray_AJobEndsInTheShardThatGaveIt(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, n := newMoving(t), 40
			for i := range n {
				j := broker.EnqueueRequest{Jobs: []broker.NewJob{newJob(fmt.Sprint("j", i))}}
				if _, err := m.stores["a"].Open().Enqueue(t.Context(), j); err != nil {
					t.Fatal(err)
				}
			}
			b := m.before()
			server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{"q": 1}, Concurrency: map[bool]int{true: 1, false: 50}[waits]})
			if err != nil {
				t.Fatal(err)
			}
			ran := make(map[string]int)
			var mu sync.Mutex
			err = server.Start(t.Context(), jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
				mu.Lock()
				defer mu.Unlock()
				ran[j.ID()]++
				return nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			if err := server.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			for id, times := range ran {
				if times != 1 {
					t.Errorf("job %s ran %d times", id, times)
				}
			}
			info, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}})
			if err != nil || len(ran) != n || total(info.Queues[0].Counts) != 0 || len(b.strays) != 0 {
				t.Errorf("%d jobs ran; left are %v, %v, and the broker remembers %d workers", len(ran), info.Queues[0].Counts, err, len(b.strays))
			}
		})
	}
}
