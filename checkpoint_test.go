package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// keepOf returns what a settle keeps, or nil if it keeps nothing.
func keepOf(req broker.SettleRequest) *broker.Kept {
	for i := range req.Items {
		if o := req.Items[i].Outcome; o.Kind() == broker.OutcomeKeep {
			return o.Kept()
		}
	}
	return nil
}

// checkpointOf is the checkpoint that the store has of a job.
func checkpointOf(t testing.TB, b broker.Broker, id string) string {
	t.Helper()
	if k := stored(t, b, DefaultQueue, id).Kept; k != nil {
		return string(k.Checkpoint)
	}
	return ""
}

func TestJob_ACheckpointIsStoredAtOnceAndComesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var came []string
		serve(t, b, Config{RetryPolicy: Constant(time.Minute)}, func(ctx context.Context, job *Job) error {
			came = append(came, string(job.Checkpoint()))
			view := job.WithPayload([]byte("decoded"))
			next := fmt.Sprint("run ", len(came))
			p := []byte(next)
			if err := view.SetCheckpoint(ctx, p); err != nil {
				t.Errorf("SetCheckpoint: %v", err)
			}
			p[0] = 'X' // the caller may use it again
			if j := expect(t, b, DefaultQueue, job.ID(), StateActive); j.Deliveries != 0 && j.Failures == 0 {
				t.Errorf("a keep was charged: %+v", j.Head)
			}
			if got := checkpointOf(t, b, job.ID()); got != next {
				t.Errorf("SetCheckpoint returned, and the store has the checkpoint %q, want %q", got, next)
			}
			if got := string(job.Checkpoint()); got != next {
				t.Errorf("Checkpoint is %q after SetCheckpoint of %q", got, next)
			}
			switch len(came) {
			case 1:
				return errors.New("retry")
			case 2:
				return Snooze(time.Minute)
			}
			return nil
		})
		id := add(t, b, DefaultQueue, "import", 1)[0]
		pass(time.Hour)
		if want := []string{"", "run 1", "run 2"}; fmt.Sprint(came) != fmt.Sprint(want) {
			t.Errorf("the runs began with the checkpoints %q, want %q", came, want)
		}
		if j := expect(t, b, DefaultQueue, id, StateCompleted); j.Kept != nil {
			t.Errorf("the completed job still has %v", j.Kept)
		}
	})
}

func TestServer_ACheckpointSurvivesTheDeathOfItsServerAndAZombieCannotReplaceIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		dying := newCable(b)
		var zombie error
		over := make(chan struct{})
		cfg := Config{Lease: 9 * time.Second, Logger: (&testLog{}).logger()}
		serve(t, dying, cfg, func(ctx context.Context, job *Job) error {
			defer close(over)
			if err := job.SetCheckpoint(ctx, []byte("half")); err != nil {
				t.Errorf("SetCheckpoint: %v", err)
			}
			dying.setCut(true)
			time.Sleep(time.Minute) // whatever becomes of its context
			dying.setCut(false)
			zombie = job.SetCheckpoint(context.WithoutCancel(ctx), []byte("of the zombie"))
			return nil
		})
		id := add(t, b, DefaultQueue, "import", 1)[0]
		pass(time.Second)
		var came string
		serve(t, b, cfg, func(ctx context.Context, job *Job) error {
			came = string(job.Checkpoint())
			time.Sleep(2 * time.Minute)
			return nil
		})
		<-over
		pass(0)
		if !errors.Is(zombie, ErrLeaseLost) {
			t.Errorf("SetCheckpoint of a handler whose lease was lost: got %v, want ErrLeaseLost", zombie)
		}
		if got := checkpointOf(t, b, id); got != "half" || came != "half" {
			t.Errorf("the second run began with %q, and the store has %q; want what the first server stored, %q", came, got, "half")
		}
		pass(5 * time.Minute)
		expect(t, b, DefaultQueue, id, StateCompleted)
	})
}

// A keep may hear of it before the heartbeat does.
func TestServer_AKeepThatFindsTheLeaseLostEndsTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		lost := &tap{Broker: b}
		answer := func(req broker.SettleRequest, verdicts []broker.Verdict) {
			for i := range verdicts {
				if req.Items[i].Outcome.Kind() == broker.OutcomeKeep {
					verdicts[i] = broker.Verdict{Queue: verdicts[i].Queue, ID: verdicts[i].ID, Err: ErrLeaseLost}
				}
			}
		}
		lost.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
			verdicts, err := b.Settle(ctx, req)
			answer(req, verdicts)
			return verdicts, err
		}
		lost.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Claim(ctx, req)
			answer(req.Settle, got.Verdicts)
			return got, err
		}
		var cause error
		serve(t, lost, Config{Logger: (&testLog{}).logger()}, func(ctx context.Context, job *Job) error {
			job.SetProgress(1, 2, "")
			select {
			case <-ctx.Done():
				cause = context.Cause(ctx)
			case <-time.After(time.Second): // the next heartbeat comes later
			}
			return nil
		})
		add(t, b, DefaultQueue, "import", 1)
		pass(time.Minute)
		if !errors.Is(cause, ErrLeaseLost) {
			t.Errorf("the handler's context ended with %v, want ErrLeaseLost as soon as a keep is refused", cause)
		}
	})
}

func TestServer_ACheckpointWhoseAnswerIsLostIsStoredAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var numbers []int64
		lossy := &tap{Broker: b}
		lost := func(req broker.SettleRequest) bool {
			if keepOf(req) == nil {
				return false
			}
			numbers = append(numbers, req.Number)
			return len(numbers) < 3
		}
		lossy.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
			verdicts, err := b.Settle(ctx, req)
			if lost(req) {
				return nil, errCut
			}
			return verdicts, err
		}
		lossy.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Claim(ctx, req)
			if lost(req.Settle) {
				got.Verdicts, got.SettleErr = nil, errCut
			}
			return got, err
		}
		serve(t, lossy, Config{Logger: (&testLog{}).logger()}, func(ctx context.Context, job *Job) error {
			if err := job.SetCheckpoint(ctx, []byte("half")); err != nil {
				t.Errorf("SetCheckpoint: %v", err)
			}
			return nil
		})
		id := add(t, b, DefaultQueue, "import", 1)[0]
		pass(time.Minute)
		expect(t, b, DefaultQueue, id, StateCompleted)
		if len(numbers) != 3 || numbers[0] != numbers[2] {
			t.Errorf("the checkpoint was sent under the numbers %v, want three times the same one", numbers)
		}
	})
}

func TestServer_ACheckpointThatIsNotStoredGoesWithTheOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		cause error // of the end of the context
		drain bool
	}{"timeout": {cause: ErrTimeout}, "drain": {cause: ErrShutdown, drain: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				var away atomic.Bool // what keeps alone does not come through
				slow := &tap{Broker: b}
				slow.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
					if keepOf(req) != nil && away.Load() {
						return nil, errCut
					}
					return b.Settle(ctx, req)
				}
				slow.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
					if settle := req.Settle; keepOf(settle) != nil && away.Load() {
						req.Settle = broker.SettleRequest{}
						got, err := b.Claim(ctx, req)
						got.SettleErr = errCut
						return got, err
					}
					return b.Claim(ctx, req)
				}
				var kept error
				s := serve(t, slow, Config{Logger: (&testLog{}).logger(), RetryPolicy: Constant(time.Hour), ShutdownTimeout: time.Minute},
					func(ctx context.Context, job *Job) error {
						away.Store(true)
						kept = job.SetCheckpoint(ctx, []byte("half"))
						if again := job.SetCheckpoint(ctx, []byte("last")); !errors.Is(again, test.cause) {
							t.Errorf("SetCheckpoint with a context that has ended: got %v, want %v", again, test.cause)
						}
						away.Store(false)
						return ctx.Err()
					})
				id := add(t, b, DefaultQueue, "import", 1, func(j *broker.NewJob) { j.Body.Timeout = 10 * time.Minute })[0]
				pass(time.Second)
				if test.drain {
					if err := s.Shutdown(t.Context()); err != nil {
						t.Errorf("Shutdown: %v", err)
					}
				}
				pass(20 * time.Minute)
				if !errors.Is(kept, test.cause) {
					t.Errorf("SetCheckpoint: got %v, want the cause of the context's end, %v", kept, test.cause)
				}
				if got := checkpointOf(t, b, id); got != "last" {
					t.Errorf("the job came back with the checkpoint %q, want %q", got, "last")
				}
			})
		})
	}
}

func TestServer_ACheckpointEndsWithTheServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		c := newCable(b)
		kept := make(chan error, 1)
		s := serve(t, c, Config{Logger: (&testLog{}).logger(), ShutdownTimeout: time.Second}, func(ctx context.Context, job *Job) error {
			c.setCut(true)
			kept <- job.SetCheckpoint(context.WithoutCancel(ctx), []byte("half"))
			return nil
		})
		add(t, b, DefaultQueue, "import", 1)
		pass(time.Second)
		if err := s.Shutdown(t.Context()); err == nil {
			t.Error("the drain says nothing of the handler that did not return")
		}
		select {
		case err := <-kept:
			if !errors.Is(err, ErrShutdown) {
				t.Errorf("SetCheckpoint after the server's end: got %v, want ErrShutdown", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("SetCheckpoint still waits after the server's end")
		}
	})
}

func TestJob_ACheckpointThatIsTooLargeIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		serve(t, b, Config{}, func(ctx context.Context, job *Job) error {
			large := make([]byte, MaxCheckpoint)
			if err := job.SetCheckpoint(ctx, large); err != nil {
				t.Errorf("a checkpoint of MaxCheckpoint bytes: %v", err)
			}
			err := job.SetCheckpoint(ctx, make([]byte, MaxCheckpoint+1))
			if !errors.Is(err, ErrTooLarge) || !errors.Is(err, SkipRetry) {
				t.Errorf("a larger one: got %v, want ErrTooLarge and SkipRetry", err)
			}
			for _, part := range []string{"checkpoint", "65537", "65536", "store it elsewhere", job.ID()} {
				if !strings.Contains(fmt.Sprint(err), part) {
					t.Errorf("the error %q does not say %q", err, part)
				}
			}
			if n := len(job.Checkpoint()); n != MaxCheckpoint {
				t.Errorf("after a refusal the checkpoint has %d bytes, want the %d of the one before", n, MaxCheckpoint)
			}
			return nil
		})
		id := add(t, b, DefaultQueue, "import", 1)[0]
		pass(time.Minute)
		if j := expect(t, b, DefaultQueue, id, StateCompleted); j.Failures != 0 {
			t.Errorf("the refusal was charged: %+v", j.Head)
		}
	})
}

func TestServer_AJobThatKeepsIsToldOfItsCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var cause error
		serve(t, b, Config{Logger: (&testLog{}).logger()}, func(ctx context.Context, job *Job) error {
			for i := int64(0); ctx.Err() == nil; i++ {
				_ = job.SetCheckpoint(ctx, fmt.Append(nil, i))
				job.SetProgress(i, 0, "")
				time.Sleep(100 * time.Millisecond)
			}
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		id := add(t, b, DefaultQueue, "import", 1)[0]
		pass(3 * time.Second)
		_, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel,
			Refs: []broker.Ref{{Queue: DefaultQueue, ID: id, Epoch: broker.AnyEpoch}}})
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if !errors.Is(cause, ErrCancelled) {
			t.Errorf("the handler's context ended with %v, want ErrCancelled", cause)
		}
		expect(t, b, DefaultQueue, id, StateCancelled)
	})
}

func TestJob_AViewOutsideOfAServerKeepsForItself(t *testing.T) {
	t.Parallel()
	record := &broker.Job{Queue: "q", ID: "1", Head: broker.Head{Kept: &broker.Kept{Checkpoint: []byte("before")}}}
	job := NewJob(record)
	if got := string(job.Checkpoint()); got != "before" {
		t.Errorf("the checkpoint is %q, want that of the record", got)
	}
	if err := job.WithPayload(nil).SetCheckpoint(t.Context(), []byte("after")); err != nil {
		t.Fatal(err)
	}
	job.SetProgress(-1, -2, "note")
	if got, p := string(job.Checkpoint()), job.Progress(); got != "after" || p != (Progress{Note: "note"}) {
		t.Errorf("the view has the checkpoint %q and the progress %v", got, p)
	}
	if string(record.Kept.Checkpoint) != "before" {
		t.Errorf("the record was changed: %v", record.Kept)
	}
}
