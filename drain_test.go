package jobs

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
)

func TestServer_ADrainLetsHandlersFinish(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 100)
		s := serve(t, b, Config{Concurrency: 100}, func(ctx context.Context, j *Job) error {
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		pass(time.Second)
		began := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("the drain took %v, want the 9s that the handlers still had to run", took)
		}
		if n := count(t, b, DefaultQueue, StateCompleted); n != 100 {
			t.Errorf("%d of 100 jobs are done", n)
		}
		if s.Ready() == nil {
			t.Error("it is ready after its shutdown")
		}
	})
}

func TestServer_NoJobIsClaimedAfterTheDrainBegan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var draining atomic.Bool
		late := make(chan struct{})
		tapped := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if draining.Load() {
				t.Error("a claim was made after the drain began")
			}
			if req.Wait > 0 { // this one executes when the drain has begun, and its reply comes
				<-late
				req.Wait = 0
				return b.Claim(context.Background(), req)
			}
			return b.Claim(ctx, req)
		}}
		var ran atomic.Bool
		gate := make(chan struct{})
		add(t, b, DefaultQueue, "long", 1)
		s := serve(t, tapped, Config{}, func(_ context.Context, j *Job) error {
			if j.Type() == "long" {
				<-gate
				return nil
			}
			ran.Store(true)
			return nil
		})
		synctest.Wait()
		add(t, b, DefaultQueue, "a", 10)
		draining.Store(true)
		done := make(chan error)
		go func() { done <- s.Shutdown(context.Background()) }()
		synctest.Wait()
		close(late)
		synctest.Wait()
		if n := count(t, b, DefaultQueue, StatePending); n != 10 || ran.Load() {
			t.Errorf("%d of 10 jobs are pending while the handler goes on; another ran: %v", n, ran.Load())
		}
		close(gate)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if j := stored(t, b, DefaultQueue, "a-0"); j.Crashes+j.Failures != 0 {
			t.Errorf("being released was charged: %+v", j.Head)
		}
	})
}

func TestServer_JobsFetchedAheadAreGivenBackWhenTheDrainBegins(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		gate := make(chan struct{})
		var block atomic.Bool
		var log testLog
		s := serve(t, b, Config{Concurrency: 2, Logger: log.logger()}, func(context.Context, *Job) error {
			if block.Load() {
				<-gate
			}
			return nil
		})
		add(t, b, DefaultQueue, "quick", 10)
		synctest.Wait()
		block.Store(true)
		add(t, b, DefaultQueue, "blocked", 20)
		synctest.Wait()
		if n := count(t, b, DefaultQueue, StateActive); n != 20 {
			t.Fatalf("%d jobs are leased, want 2 running and 18 ahead", n)
		}
		done := make(chan error)
		go func() { done <- s.Shutdown(context.Background()) }()
		synctest.Wait()
		if n := count(t, b, DefaultQueue, StatePending); n != 18 {
			t.Errorf("%d jobs are pending while the handlers go on, want the 18 that had not begun", n)
		}
		if line := strings.Join(log.lines("draining"), ""); !strings.Contains(line, "released=18") ||
			!strings.Contains(line, "default/blocked-19") {
			t.Errorf("the log does not name them: %s", line)
		}
		close(gate)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestServer_ADrainLongerThanALeaseKeepsItsLeasesAndLogsWhatItReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var log testLog
		add(t, b, DefaultQueue, "secret", 2, func(j *broker.NewJob) { j.Body.Payload = []byte("payload-text") })
		gate := make(chan struct{})
		s := serve(t, b, Config{Logger: log.logger(), ShutdownTimeout: 10 * broker.DefaultLease}, func(_ context.Context, j *Job) error {
			if j.ID() == "secret-1" {
				<-gate // deaf to its context
				return nil
			}
			time.Sleep(9 * broker.DefaultLease)
			return nil
		})
		synctest.Wait()
		other := serve(t, b, Config{}, func(_ context.Context, j *Job) error {
			if j.ID() == "secret-0" || j.Crashes() > 0 {
				t.Errorf("%s was taken away, crashes %d", j.ID(), j.Crashes())
			}
			return nil
		})
		began := time.Now()
		err := s.Shutdown(t.Context())
		if err == nil || !strings.Contains(err.Error(), "1 handlers") {
			t.Errorf("the error is %v, want one that counts the handler", err)
		}
		if took := time.Since(began); took != 10*broker.DefaultLease+engine.ShutdownGrace {
			t.Errorf("the drain took %v", took)
		}
		synctest.Wait()
		expect(t, b, DefaultQueue, "secret-0", StateCompleted)
		expect(t, b, DefaultQueue, "secret-1", StateCompleted) // at once, by the other server
		released := strings.Join(log.lines("released jobs whose handlers did not return"), "")
		if !strings.Contains(released, "default/secret-1 (secret)") || strings.Contains(log.String(), "payload-text") {
			t.Errorf("the log does not name what was released, or shows a payload:\n%s", log.String())
		}
		close(gate)
		synctest.Wait()
		if j := expect(t, b, DefaultQueue, "secret-1", StateCompleted); j.Deliveries != 2 {
			t.Errorf("it was delivered %d times", j.Deliveries)
		}
		if err := other.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestServer_HandlersThatOutliveShutdownTimeoutAreCutOffWithoutACharge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		err   error
		state State
	}{
		{"an error releases", errors.New("interrupted"), StatePending},
		{"nil completes", nil, StateCompleted},
		{"SkipRetry stands", SkipRetry, StateDead},
		{"Snooze stands", Snooze(time.Hour), StateRetry},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				add(t, b, DefaultQueue, "a", 1)
				s := serve(t, b, Config{ShutdownTimeout: 5 * time.Second}, func(ctx context.Context, j *Job) error {
					<-ctx.Done()
					if cause := context.Cause(ctx); cause != ErrShutdown {
						t.Errorf("the cause is %v, want ErrShutdown", cause)
					}
					time.Sleep(time.Second)
					return c.err
				})
				synctest.Wait()
				began := time.Now()
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != 6*time.Second {
					t.Errorf("the drain took %v, want 6s", took)
				}
				j := expect(t, b, DefaultQueue, "a-0", c.state)
				if c.state == StatePending && (j.Failures != 0 || j.Crashes != 0 || len(j.Errors.Entries) != 0) {
					t.Errorf("it was charged: %+v", j.Head)
				}
			})
		})
	}
}

func TestServer_ShutdownReturnsWhenItsContextEndsAndHurriesTheDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 1)
		s := serve(t, b, Config{ShutdownTimeout: time.Hour}, func(ctx context.Context, j *Job) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		expect(t, b, DefaultQueue, "a-0", StatePending)
	})
}

func TestServer_TheErrorOfADrainSaysHowLongItWaited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for want, patience := range map[string]time.Duration{
			"within ShutdownTimeout (1m0s) and a grace of 2s":    time.Hour,
			"within a wait that was cut short and a grace of 2s": time.Second,
		} {
			b, gate := newStore(), make(chan struct{})
			add(t, b, DefaultQueue, "a", 1)
			s := serve(t, b, Config{ShutdownTimeout: time.Minute}, func(context.Context, *Job) error { <-gate; return nil })
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_ = s.Shutdown(ctx)
			cancel()
			if err := s.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a drain that could wait for %v says %v, want %q", patience, err, want)
			}
			close(gate)
		}
	})
}

func TestServer_AStoreThatIsDownDoesNotHangTheDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCable(newStore())
		add(t, c.Broker, DefaultQueue, "a", 3)
		s := serve(t, c, Config{Concurrency: 3, Lease: time.Hour}, func(_ context.Context, j *Job) error {
			time.Sleep(2 * time.Second)
			return nil
		})
		synctest.Wait()
		c.setCut(true)
		began := time.Now()
		err := s.Shutdown(t.Context())
		if err == nil || !strings.Contains(err.Error(), "3 outcomes") {
			t.Errorf("the error is %v, want one that counts what could not be settled", err)
		}
		if took := time.Since(began); took > defaultShutdownTimeout+engine.ShutdownGrace+engine.LastCalls {
			t.Errorf("the drain took %v", took)
		}
	})
}

// A broker that was closed before the server takes no outcome any more, so the drain does not wait for that.
func TestServer_ABrokerClosedTooEarlyDoesNotDelayTheDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, drained := range []bool{false, true} { // whether the drain began before the broker was closed
			b := newStore()
			add(t, b, DefaultQueue, "a", 1)
			s := serve(t, b, Config{}, func(_ context.Context, j *Job) error {
				time.Sleep(2 * time.Second)
				return nil
			})
			synctest.Wait()
			began := time.Now()
			if drained {
				s.engine.Drain()
				synctest.Wait()
			}
			b.Close()
			err := s.Shutdown(t.Context())
			if !errors.Is(err, ErrClosed) {
				t.Errorf("the error is %v, want ErrClosed", err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("the drain took %v, want the 2s of the handler", took)
			}
		}
	})
}

func TestServer_OutcomesAreSettledWhenTheStoreComesBackDuringTheDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCable(newStore())
		add(t, c.Broker, DefaultQueue, "a", 3)
		s := serve(t, c, Config{Concurrency: 3}, func(_ context.Context, j *Job) error {
			time.Sleep(2 * time.Second)
			return nil
		})
		synctest.Wait()
		c.setCut(true)
		time.AfterFunc(12*time.Second, func() { c.setCut(false) })
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n := count(t, c.Broker, DefaultQueue, StateCompleted); n != 3 {
			t.Errorf("%d of 3 jobs are done", n)
		}
	})
}

func TestServer_CancellationsArriveDuringADrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 1)
		s := serve(t, b, Config{}, func(ctx context.Context, j *Job) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		synctest.Wait()
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() {
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
		pass(time.Second)
		cancelJob(t, b, "a-0")
		wg.Wait()
		expect(t, b, DefaultQueue, "a-0", StateCancelled)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the drain took %v, want 1s", took)
		}
	})
}

func TestServer_ADrainThatCannotSettleRetiresItsWorkerAllTheSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		b := &tap{Broker: store}
		b.settle = func(ctx context.Context, _ broker.SettleRequest) ([]broker.Verdict, error) {
			<-ctx.Done()
			return nil, errCut
		}
		b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			req.Settle = broker.SettleRequest{}
			got, err := store.Claim(ctx, req)
			got.SettleErr = errCut
			return got, err
		}
		s := serve(t, b, Config{ShutdownTimeout: time.Second}, func(context.Context, *Job) error { return nil })
		add(t, store, DefaultQueue, "a", 1)
		pass(time.Second)
		expect(t, store, DefaultQueue, "a-0", StateActive)
		if err := s.Shutdown(t.Context()); err == nil {
			t.Error("the drain does not tell of the outcome that was not settled")
		}
		if n := len(workers(t, store)); n != 0 {
			t.Errorf("%d workers are left", n)
		}
		expect(t, store, DefaultQueue, "a-0", StatePending) // at once, not a lease later
	})
}

// An orchestrator commonly kills a process 30 s after it asked it to end.
func TestConfig_ADrainAndACloseTakeLessThan30Seconds(t *testing.T) {
	t.Parallel()
	if worst := defaultShutdownTimeout + engine.ShutdownGrace + engine.LastCalls + engine.LastLoops + engine.LastEvents +
		broker.MaxClose; worst >= 30*time.Second {
		t.Errorf("a drain and a Close take %v at worst, want less than 30 s", worst)
	}
}
