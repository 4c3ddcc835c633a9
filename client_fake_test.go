package jobs

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// enqueueCall is one call that a spyStore got: its jobs, and the context under
// which it came.
type enqueueCall struct {
	ctx  context.Context
	jobs []broker.NewJob
}

// spyStore is an in-memory broker that records the calls of Enqueue and lets a
// test come before and after them.
type spyStore struct {
	*membroker.Broker
	before func(call int, ctx context.Context, req broker.EnqueueRequest) error // an error keeps the call from the store
	after  func(call int) error                                                 // an error replaces the answer of a call that was applied
	limits broker.Limits

	mu    sync.Mutex
	calls []enqueueCall
}

func newSpyStore(t testing.TB) *spyStore {
	s := &spyStore{Broker: membroker.New()}
	t.Cleanup(func() { _ = s.Broker.Close() })
	return s
}

func (s *spyStore) Limits() broker.Limits { return s.limits }

func (s *spyStore) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	s.mu.Lock()
	call := len(s.calls)
	s.calls = append(s.calls, enqueueCall{ctx, append([]broker.NewJob(nil), req.Jobs...)})
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(call, ctx, req); err != nil {
			return nil, err
		}
	}
	receipts, err := s.Broker.Enqueue(ctx, req)
	if err == nil && s.after != nil {
		err = s.after(call)
	}
	return receipts, err
}

// sizes lists how many jobs each call so far had.
func (s *spyStore) sizes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n []int
	for _, c := range s.calls {
		n = append(n, len(c.jobs))
	}
	return n
}

// stored lists the pending and scheduled jobs of a queue.
func (s *spyStore) stored(t testing.TB, queue string) []broker.Job {
	t.Helper()
	var all []broker.Job
	for _, state := range []State{StatePending, StateScheduled} {
		for job, err := range inspect.New(s.Broker).Select(inspect.Query{Queue: queue, State: state}).Jobs(t.Context()) {
			if err != nil {
				t.Fatalf("listing %s jobs of %q: %v", state, queue, err)
			}
			all = append(all, *job)
		}
	}
	return all
}

// only returns the one job of a queue.
func (s *spyStore) only(t testing.TB, queue string) broker.Job {
	t.Helper()
	all := s.stored(t, queue)
	if len(all) != 1 {
		t.Fatalf("queue %q holds %d jobs, want 1", queue, len(all))
	}
	return all[0]
}

func newTestClient(t testing.TB, b broker.Broker, cfg ClientConfig) *Client {
	c := NewClient(b, cfg)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mustEnqueue(t testing.TB, c *Client, task *Task, opts ...Option) *JobInfo {
	t.Helper()
	info, err := c.Enqueue(t.Context(), task, opts...)
	if err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	return info
}

var errReset = errors.New("connection reset by peer")
