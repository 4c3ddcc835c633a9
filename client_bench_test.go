package jobs

import (
	"context"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// instantStore accepts everything at once and allocates nothing but receipts.
type instantStore struct{ broker.Broker }

func (instantStore) Limits() broker.Limits { return broker.Limits{} }

func (instantStore) Enqueue(_ context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	receipts := make([]broker.Receipt, len(req.Jobs))
	for i := range receipts {
		receipts[i].State = StatePending
	}
	return receipts, nil
}

// The ceilings for a lone Enqueue without options, above the one allocation of
// the store: for a context that can be cancelled, as a request's, and for one
// that cannot.
const (
	maxEnqueueAllocs     = 7
	maxEnqueueAllocsBare = 5
)

func TestClient_EnqueueAllocatesLittle(t *testing.T) {
	c := NewClient(instantStore{}, ClientConfig{})
	task := NewTask("mail", make([]byte, 200))
	for _, k := range []struct {
		name    string
		ctx     context.Context
		ceiling float64
	}{{"a request's context", t.Context(), maxEnqueueAllocs}, {"a bare context", context.Background(), maxEnqueueAllocsBare}} {
		got := testing.AllocsPerRun(1000, func() {
			if _, err := c.Enqueue(k.ctx, task); err != nil {
				t.Error(err)
			}
		}) - 1
		if got > k.ceiling {
			t.Errorf("under %s Enqueue makes %v allocations, the ceiling is %v", k.name, got, k.ceiling)
		}
	}
}

func BenchmarkEnqueue(b *testing.B) {
	c := NewClient(instantStore{}, ClientConfig{})
	task := NewTask("mail", make([]byte, 200))
	ctx := b.Context()
	b.Run("one caller", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Enqueue(ctx, task); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("many callers", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := c.Enqueue(ctx, task); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("batches of 1000", func(b *testing.B) {
		b.ReportAllocs()
		tasks := make([]*Task, 1000)
		for i := range tasks {
			tasks[i] = task
		}
		for b.Loop() {
			if _, err := c.EnqueueMany(ctx, tasks); err != nil {
				b.Fatal(err)
			}
		}
	})
}
