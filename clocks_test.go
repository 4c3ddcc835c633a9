package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// shifted is a store whose clock is off from that of its callers; jump moves
// it further.
type shifted struct {
	*tap
	by atomic.Int64
}

func newShifted(by time.Duration) *shifted {
	store := newStore()
	s := &shifted{tap: &tap{Broker: store}}
	s.by.Store(int64(by))
	s.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
		if req.Wait > 0 { // a request with Now does not wait
			now := req
			now.Wait, now.Now = 0, s.now()
			got, err := store.Claim(ctx, now)
			if !got.NextDue.IsZero() {
				req.Wait = min(req.Wait, got.NextDue.Sub(got.Now))
			}
			if err != nil || len(got.Jobs) > 0 || !waits(ctx, req.Wait) {
				return got, err
			}
		}
		req.Wait, req.Now, req.Settle.Now = 0, s.now(), s.now()
		return store.Claim(ctx, req)
	}
	s.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
		req.Now = s.now()
		return store.Settle(ctx, req)
	}
	s.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
		req.Now = s.now()
		return store.Renew(ctx, req)
	}
	s.reclaim = func(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
		req.Now = s.now()
		return store.Reclaim(ctx, req)
	}
	s.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
		q.Now = s.now()
		return store.Find(ctx, q)
	}
	return s
}

func (s *shifted) Ping(context.Context) (time.Time, error) { return s.now(), nil }

func TestServer_SkewedClocksDoNoHarm(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShifted(by)
				req := broker.EnqueueRequest{Now: s.now()}
				for _, j := range []broker.NewJob{
					{ID: "delayed", Delay: 90 * time.Second},
					{ID: "expiring", Body: broker.Body{Deadline: s.now().Add(30 * time.Second)}},
					{ID: "failing", Body: broker.Body{Retention: time.Hour}},
				} {
					j.Queue, j.Body.Type, j.Body.Priority, j.Body.MaxRetries = DefaultQueue, j.ID, broker.PriorityNormal, 3
					req.Jobs = append(req.Jobs, j)
				}
				if _, err := s.Broker.Enqueue(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				var took tally
				var failedAt time.Time
				serve(t, s, Config{Concurrency: 3, PollInterval: time.Second, RetryPolicy: Constant(20 * time.Second)},
					func(ctx context.Context, j *Job) error {
						switch {
						case j.Type() == "expiring":
							start := time.Now()
							<-ctx.Done()
							took.add(j.ID(), int(time.Since(start)))
							return ctx.Err()
						case j.ID() == "failing" && j.Attempt() == 0:
							failedAt = s.now()
							return errors.New("no")
						}
						took.add(j.ID(), int(time.Since(began)))
						if last := j.record.Errors.Last().At; j.ID() == "failing" && !last.Equal(failedAt) {
							t.Errorf("the failure is dated %v, %v by the store", last, failedAt)
						}
						return nil
					})
				pass(10 * time.Minute)
				// Right after a jump of the store's clock, what counts is what the claim said.
				s.by.Add(int64(time.Hour))
				if _, err := s.Broker.Enqueue(t.Context(), broker.EnqueueRequest{Now: s.now(),
					Jobs: []broker.NewJob{{Queue: DefaultQueue, ID: "expiring-2",
						Body: broker.Body{Type: "expiring", Priority: broker.PriorityNormal, Deadline: s.now().Add(30 * time.Second)}}}}); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
				if d := time.Duration(took.get("expiring-2")); d < 28*time.Second || d > 30*time.Second {
					t.Errorf("after a jump a deadline in 30s cut a run that began within 2s off after %v", d)
				}
				for id, want := range map[string]time.Duration{"delayed": 90 * time.Second, "expiring": 30 * time.Second, "failing": 20 * time.Second} {
					if d := time.Duration(took.get(id)); d != want {
						t.Errorf("%s: %v, want %v", id, d, want)
					}
				}
				if j := expect(t, s, DefaultQueue, "expiring", StateDead); j.Crashes != 0 {
					t.Errorf("a skewed clock cost %d crashes", j.Crashes)
				}
			})
		})
	}
}

func TestServer_AJumpOfTheStoresClockCostsNobodyAJob(t *testing.T) {
	t.Parallel()
	// At the default lease of 15 s, in all phases of the two servers' renewals.
	for _, jump := range []time.Duration{3, 5, 8, 10, 11, 12, 13, 14, 15, 17, 30, 3600, -10, -3600} {
		for phase := range 6 {
			jump, later := jump*time.Second, time.Duration(phase)*900*time.Millisecond
			t.Run(fmt.Sprintf("%v/%v", jump, later), func(t *testing.T) {
				bubble(t, func(t *testing.T) { testJump(t, jump, later) })
			})
		}
	}
}

func testJump(t *testing.T, jump, later time.Duration) {
	s := newShifted(0)
	looking := unsure(s)
	var runs tally
	handler := func(ctx context.Context, j *Job) error {
		runs.add(j.ID(), 1)
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Minute):
		}
		return nil
	}
	serve(t, looking, Config{Concurrency: 1}, handler)
	pass(2500 * time.Millisecond) // so that the two renew at different times
	serve(t, looking, Config{Concurrency: 1}, handler)
	pass(17 * time.Second)
	add(t, s, DefaultQueue, "a", 2)
	pass(2*time.Second + later)
	s.by.Store(int64(jump))
	pass(10 * time.Minute)
	for _, id := range []string{"a-0", "a-1"} {
		if j := stored(t, s, DefaultQueue, id); runs.get(id) != 1 || j.Crashes != 0 {
			t.Errorf("%s ran %d times, %d crashes were charged", id, runs.get(id), j.Crashes)
		}
	}
}
