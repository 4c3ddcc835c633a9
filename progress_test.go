package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestJob_ProgressIsStoredNowAndThenAndWithTheOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var keeps atomic.Int64
		counting := &tap{Broker: b}
		counting.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
			if keepOf(req) != nil {
				keeps.Add(1)
			}
			return b.Settle(ctx, req)
		}
		counting.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if keepOf(req.Settle) != nil {
				keeps.Add(1)
			}
			return b.Claim(ctx, req)
		}
		serve(t, counting, Config{}, func(ctx context.Context, job *Job) error {
			for i := range int64(1000) {
				job.SetProgress(i+1, 1000, "rows")
				time.Sleep(10 * time.Millisecond)
			}
			job.SetProgress(1001, 1000, strings.Repeat("é", 200))
			return nil
		})
		id := add(t, b, DefaultQueue, "import", 1)[0]
		pass(5 * time.Second)
		k := stored(t, b, DefaultQueue, id).Kept
		if k == nil || k.Progress.Done < 380 || k.Progress.Done > 510 || k.Progress.Total != 1000 || k.Progress.Note != "rows" {
			t.Errorf("after five of ten seconds the store has %v, want about 500 of 1000 and at most a second less", k)
		}
		pass(time.Minute)
		want := broker.Progress{Done: 1001, Total: 1000, Note: strings.Repeat("é", 128)}
		if j := expect(t, b, DefaultQueue, id, StateCompleted); j.Kept == nil || j.Kept.Progress != want {
			t.Errorf("the completed job shows %v, want what was said last: %v", j.Kept, want)
		}
		if n := keeps.Load(); n < 8 || n > 12 {
			t.Errorf("progress that changed a thousand times in ten seconds was stored %d times, want about once a second", n)
		}
	})
}

// What is said while the outcome is under way must neither be lost nor come after it.
func TestJob_ProgressAndCheckpointsMayMeetTheOutcome(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	const n = 300
	var late sync.WaitGroup
	s := serve(t, b, Config{Concurrency: 20, RetryPolicy: Constant(0)}, func(ctx context.Context, job *Job) error {
		for i := range 4 {
			late.Go(func() {
				for k := range int64(20) {
					job.SetProgress(k, 20, "")
					if i == 0 {
						if err := job.SetCheckpoint(context.Background(), fmt.Append(nil, k)); err != nil && !errors.Is(err, ErrLeaseLost) {
							t.Errorf("SetCheckpoint beside the outcome: %v", err)
						}
					}
				}
			})
		}
		if job.Attempt() == 0 {
			return errors.New("again")
		}
		return nil
	})
	ids := add(t, b, DefaultQueue, "busy", n)
	testenv.Eventually(t, "that all jobs are completed", func() bool { return count(t, b, DefaultQueue, StateCompleted) == n })
	done := make(chan struct{})
	go func() {
		late.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("SetCheckpoint still waits a minute after its handler has returned")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	for _, id := range ids {
		if j := expect(t, b, DefaultQueue, id, StateCompleted); j.Failures != 1 || j.Crashes != 0 {
			t.Fatalf("job %s has %+v, want one failure", id, j.Head)
		}
	}
}

// A settle of a job waits for the transaction that completes it, and with it the
// outcomes of others.
func TestJob_ProgressIsLeftToTheTransactionThatCompletesTheJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newTransactional()
		settle, claim := b.settle, b.claim
		var keeps atomic.Int64
		b.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
			if keepOf(req) != nil {
				keeps.Add(1)
			}
			return settle(ctx, req)
		}
		b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if keepOf(req.Settle) != nil {
				keeps.Add(1)
			}
			return claim(ctx, req)
		}
		s := serve(t, b, Config{}, func(ctx context.Context, job *Job) error {
			job.SetProgress(1, 2, "")
			pass := func() { time.Sleep(5 * time.Second) }
			pass()
			if keeps.Load() != 1 {
				t.Errorf("before the transaction progress was stored %d times, want once", keeps.Load())
			}
			job.SetProgress(2, 2, "")
			job.CompletesInTx()
			keeps.Store(0)
			pass()
			job.SetProgress(3, 2, "")
			pass()
			if got := job.Kept().Progress.Done; got != 3 {
				t.Errorf("the transaction takes along the progress %d, want 3", got)
			}
			b.committed[job.ID()] = true
			return nil
		})
		id := add(t, b, DefaultQueue, "order", 1)[0]
		pass(time.Hour)
		if n := keeps.Load(); n > 1 { // one may have been under way
			t.Errorf("after CompletesInTx progress was stored %d times", n)
		}
		expect(t, b, DefaultQueue, id, StateCompleted)
		s.Shutdown(t.Context())
		b.Close()
	})
}
