package main

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/system"
)

// slow is a system whose enqueue takes long.
type slow struct {
	system.System
	took int
}

func (s *slow) EnqueueMany(_ context.Context, batch []system.Job) error {
	time.Sleep(10 * time.Millisecond)
	s.took += len(batch)
	return nil
}

// A worker that is faster than the producer waits, so that the queue keeps its depth,
// also for the next round.
func TestDepth_ADepthIsKeptThoughTheWorkerIsQuicker(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counter")
	synctest.Test(t, func(t *testing.T) {
		missing, err := openCounter(path)
		if err != nil {
			t.Fatal(err)
		}
		store := &slow{}
		w := worker{task: task{Replaced: true}, started: missing}
		p := producer{task: task{Counter: path, Batch: 1000}, system: store}
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- p.keepDepth(t.Context(), stop) }()
		const jobs = 50_050
		most := int64(0)
		for n := range jobs {
			if _, err := w.handle(t.Context(), payload(n, time.Now()), 0); err != nil {
				t.Fatal(err)
			}
			most = max(most, missing.Load())
		}
		if most > mostMissing {
			t.Errorf("up to %d jobs were missing, want at most %d", most, mostMissing)
		}
		close(stop)
		if err := <-ended; err != nil || store.took != jobs || missing.Load() != 0 {
			t.Errorf("of %d jobs %d were replaced and %d are missing, %v", jobs, store.took, missing.Load(), err)
		}
	})
}
