package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

// fill enqueues n jobs with a payload of 200 bytes.
func fill(b *testing.B, to broker.Broker, n int) {
	b.Helper()
	payload := make([]byte, 200)
	for done := 0; done < n; {
		batch := make([]broker.NewJob, min(1000, n-done))
		for i := range batch {
			batch[i] = broker.NewJob{Queue: DefaultQueue, ID: strconv.Itoa(done + i),
				Body: broker.Body{Type: "noop", Payload: payload, Priority: broker.PriorityNormal, MaxRetries: 25}}
		}
		receipts, err := to.Enqueue(b.Context(), broker.EnqueueRequest{Jobs: batch})
		if err != nil || receipts[0].Err != nil {
			b.Fatal(err, receipts[0].Err)
		}
		done += len(batch)
	}
}

// drainJobs runs a server with 100 slots until it has handled b.N jobs.
func drainJobs(b *testing.B, to broker.Broker, h HandlerFunc) {
	s, err := NewServer(to, Config{Concurrency: 100, Logger: discard})
	if err != nil {
		b.Fatal(err)
	}
	var handled atomic.Int64
	all := make(chan struct{})
	b.ReportAllocs()
	b.ResetTimer()
	began, cpu := time.Now(), cpuTime(b)
	if err := s.Start(context.Background(), HandlerFunc(func(ctx context.Context, j *Job) error {
		err := h(ctx, j)
		if handled.Add(1) == int64(b.N) {
			close(all)
		}
		return err
	})); err != nil {
		b.Fatal(err)
	}
	<-all
	if err := s.Shutdown(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "jobs/s")
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/job")
}

// cpuTime is what the process has used: steadier than wall time where others
// use the machine as well. It includes the collection of garbage.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkServerNoop drains a backlog in memory through a handler that does
// nothing.
func BenchmarkServerNoop(b *testing.B) {
	store := membroker.New()
	fill(b, store, b.N)
	drainJobs(b, store, func(context.Context, *Job) error { return nil })
}

// BenchmarkServerOverhead is the same without a store: claims and settles are
// answered at once. What is left is the framework's own cost, with a chain of
// three middlewares.
func BenchmarkServerOverhead(b *testing.B) {
	through := func(h Handler) Handler {
		return HandlerFunc(func(ctx context.Context, j *Job) error { return h.ProcessJob(ctx, j) })
	}
	h := Chain(through, through, through)(HandlerFunc(func(context.Context, *Job) error { return nil }))
	drainJobs(b, newInstantBroker(b.N), h.ProcessJob)
}

// BenchmarkServerContext is that with handlers that use their context.
func BenchmarkServerContext(b *testing.B) {
	drainJobs(b, newInstantBroker(b.N), func(ctx context.Context, _ *Job) error {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		return child.Err()
	})
}

// BenchmarkServerFailure is that with handlers that fail.
func BenchmarkServerFailure(b *testing.B) {
	failure := errors.New("no route to host")
	drainJobs(b, newInstantBroker(b.N), func(context.Context, *Job) error { return failure })
}

// instantBroker has a number of equal jobs and costs nothing.
type instantBroker struct {
	broker.Broker
	left atomic.Int64
	jobs []broker.Job
}

func newInstantBroker(n int) *instantBroker {
	b := &instantBroker{Broker: membroker.New(), jobs: make([]broker.Job, broker.MaxClaim)}
	b.left.Store(int64(n))
	for i := range b.jobs {
		b.jobs[i] = broker.Job{Queue: DefaultQueue, ID: fmt.Sprint(i), Body: broker.Body{Type: "noop", MaxRetries: 25}}
	}
	return b
}

func (b *instantBroker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	n := int64(req.Max)
	if left := b.left.Add(-n); left < 0 {
		b.left.Add(min(n, -left))
		n = max(0, n+left)
	}
	got := broker.Claimed{Now: time.Now(), Jobs: b.jobs[:n:n], More: true, Verdicts: verdictsFor(req.Settle.Items)}
	if n == 0 && req.Wait == 0 {
		got.More = false
	}
	if n == 0 && req.Wait > 0 {
		<-ctx.Done()
		got.More = false
	}
	return got, nil
}

func (b *instantBroker) Settle(_ context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	return verdictsFor(req.Items), nil
}

var someVerdicts = make([]broker.Verdict, broker.MaxBatch)

func verdictsFor(items []broker.Settlement) []broker.Verdict { return someVerdicts[:len(items)] }
