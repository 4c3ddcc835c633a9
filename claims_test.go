package jobs

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// farStore is a store that a claim takes a millisecond to reach.
type farStore struct {
	broker.Broker
	mu            sync.Mutex
	flying, asked int         // claims under way that do not wait
	most, mostAsk int         // of those
	sent          []time.Time // when such claims were sent
}

func (s *farStore) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	if req.Wait == 0 {
		s.mu.Lock()
		s.flying, s.asked, s.sent = s.flying+1, s.asked+req.Max, append(s.sent, time.Now())
		s.most, s.mostAsk = max(s.most, s.flying), max(s.mostAsk, s.asked)
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.flying, s.asked = s.flying-1, s.asked-req.Max
			s.mu.Unlock()
		}()
	}
	time.Sleep(time.Millisecond)
	return s.Broker.Claim(ctx, req)
}

func TestServer_TwoClaimsAreUnderWayWhileQuickJobsArePlenty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &farStore{Broker: newStore()}
		add(t, b, DefaultQueue, "a", 5000)
		serve(t, b, Config{Concurrency: 10, Prefetch: 90}, func(context.Context, *Job) error { return nil })
		pass(10 * time.Second)
		if n := count(t, b, DefaultQueue, StatePending) + count(t, b, DefaultQueue, StateActive); n != 0 {
			t.Errorf("%d jobs are left", n)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.most != 2 || b.mostAsk > 100 {
			t.Errorf("up to %d claims for %d jobs were under way, want 2 for no more than the 100 that may be held", b.most, b.mostAsk)
		}
	})
}

func TestServer_ASlowStreamOfQuickJobsIsClaimedInFewClaims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &farStore{Broker: newStore()}
		serve(t, b, Config{Concurrency: 100}, func(context.Context, *Job) error { return nil })
		pass(time.Second)
		for i := range 200 { // ten jobs a millisecond
			add(t, b, DefaultQueue, fmt.Sprint("s", i), 10)
			pass(time.Millisecond)
		}
		pass(time.Second)
		if n := count(t, b, DefaultQueue, StatePending) + count(t, b, DefaultQueue, StateActive); n != 0 {
			t.Errorf("%d jobs are left", n)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := len(b.sent); n > 130 {
			t.Errorf("%d claims for 2000 jobs that came within 200 ms, a claim taking 1 ms; want them about 2 ms apart", n)
		}
	})
}
