package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_AFinishedJobIsSettledAtOnceWhileAClaimWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 2)
		serve(t, b, Config{Concurrency: 10, PollInterval: time.Minute}, func(_ context.Context, j *Job) error {
			time.Sleep(time.Second)
			if j.ID() == "a-1" {
				time.Sleep(time.Hour)
			}
			return nil
		})
		pass(time.Second)
		synctest.Wait()
		expect(t, b, DefaultQueue, "a-0", StateCompleted)
		pass(time.Hour)
	})
}

func TestServer_ABusyServerSettlesAndClaimsInOneRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var calls tally
		counted := &tap{Broker: b,
			claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
				calls.add("claim", 1)
				time.Sleep(time.Millisecond) // a round trip
				return b.Claim(ctx, req)
			},
			settle: func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
				calls.add("settle", 1)
				time.Sleep(time.Millisecond)
				return b.Settle(ctx, req)
			}}
		add(t, b, DefaultQueue, "a", 1000)
		serve(t, counted, Config{Concurrency: 10, Prefetch: NoPrefetch}, func(context.Context, *Job) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		pass(11 * time.Second)
		if n := count(t, b, DefaultQueue, StateCompleted); n != 1000 {
			t.Fatalf("%d jobs are done", n)
		}
		if claims, settles := calls.get("claim"), calls.get("settle"); claims > 1010 || settles > 50 {
			t.Errorf("1000 jobs took %d claims and %d settles of their own; want at most one claim a job, and hardly any settle", claims, settles)
		}
	})
}

func TestServer_ASettleWhoseReplyWasLostIsRepeatedUnderItsNumber(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"settle", "claim"} {
		t.Run(way, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				var mu sync.Mutex
				lost := 0
				var numbers []int64
				var verdicts []broker.Verdict
				lose := func(req broker.SettleRequest) bool {
					mu.Lock()
					defer mu.Unlock()
					if len(req.Items) > 0 {
						numbers = append(numbers, req.Number)
						lost++
					}
					return len(req.Items) > 0 && lost <= 3
				}
				concurrency := 3
				lossy := &tap{Broker: b}
				lossy.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
					v, err := b.Settle(ctx, req)
					if lose(req) {
						return nil, errCut
					}
					return v, err
				}
				if way == "claim" {
					concurrency = 1 // no claim waits while a job runs
					lossy.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
						got, err := b.Claim(ctx, req)
						if len(req.Settle.Items) > 0 && lose(req.Settle) {
							got.Verdicts, got.SettleErr = nil, errCut
						}
						return got, err
					}
				}
				cfg := Config{Concurrency: concurrency, Prefetch: NoPrefetch, RetryPolicy: Constant(time.Hour),
					Hooks: Hooks{Settle: func(e SettleEvent) {
						verdicts = append(verdicts, e.Verdicts...)
					}}}
				add(t, b, DefaultQueue, "a", 2)
				serve(t, lossy, cfg, func(_ context.Context, j *Job) error {
					time.Sleep(time.Second + time.Duration(j.ID()[2]-'0')*10*time.Second) // not at once: the next claim would carry the outcome
					return errors.New("no")
				})
				pass(time.Minute)
				for _, id := range []string{"a-0", "a-1"} {
					if j := expect(t, b, DefaultQueue, id, StateRetry); j.Failures != 1 {
						t.Errorf("%s was charged %d failures, want 1", id, j.Failures)
					}
				}
				if want := []int64{1, 1, 1, 1, 2}; !slices.Equal(numbers, want) {
					t.Errorf("the settles had the numbers %v, want %v", numbers, want)
				}
				for _, v := range verdicts {
					if v.Err != nil || v.State != StateRetry {
						t.Errorf("a repeat was answered with %+v", v)
					}
				}
			})
		})
	}
}

func TestServer_OutcomesAreKeptUntilTheStoreIsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCable(newStore())
		add(t, c.Broker, DefaultQueue, "a", 10)
		runs := 0
		serve(t, c, Config{Concurrency: 1, Lease: time.Hour}, func(context.Context, *Job) error {
			runs++
			if runs == 1 {
				c.setCut(true)
			}
			return nil
		})
		pass(10 * time.Minute)
		c.setCut(false)
		pass(10 * time.Second)
		if n := count(t, c.Broker, DefaultQueue, StateCompleted); n != 10 || runs != 10 {
			t.Errorf("%d jobs are done after %d runs, want 10 and 10", n, runs)
		}
	})
}

func TestServer_OneOutcomeThatTheStoreRefusesHarmsNoOther(t *testing.T) {
	t.Parallel()
	for _, always := range []bool{false, true} {
		t.Run(map[bool]string{false: "as it is", true: "whatever it is"}[always], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				refuse := func(items []broker.Settlement) error {
					for _, item := range items {
						if item.Job.ID == "a-3" && (always || item.Outcome.Kind() == broker.OutcomeComplete) {
							return broker.Invalid("items", "a-3 is bad")
						}
					}
					return nil
				}
				picky := &tap{Broker: b}
				picky.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
					if err := refuse(req.Items); err != nil {
						return nil, err
					}
					return b.Settle(ctx, req)
				}
				picky.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
					if err := refuse(req.Settle.Items); err != nil {
						return broker.Claimed{}, err
					}
					return b.Claim(ctx, req)
				}
				add(t, b, DefaultQueue, "a", 20)
				serve(t, picky, Config{Concurrency: 20}, func(context.Context, *Job) error {
					time.Sleep(time.Second)
					return nil
				})
				pass(10 * time.Second)
				if n := count(t, b, DefaultQueue, StateCompleted); n != 19 {
					t.Errorf("%d jobs are done, want all but the one", n)
				}
				if !always {
					if j := expect(t, b, DefaultQueue, "a-3", StateRetry); !strings.Contains(j.Errors.Last().Message, "a-3 is bad") {
						t.Errorf("its error does not say why: %q", j.Errors.Last().Message)
					}
				}
			})
		})
	}
}

func TestServer_ResultsAndErrorHistoryAreKeptAsConfigured(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 1, func(j *broker.NewJob) { j.Body.MaxRetries = 10 })
		serve(t, b, Config{ErrorHistory: 2, RetryPolicy: Constant(time.Second)}, func(_ context.Context, j *Job) error {
			if j.Attempt() < 5 {
				return errors.New("no")
			}
			j.SetResult([]byte("done"))
			return nil
		})
		pass(time.Minute)
		j := expect(t, b, DefaultQueue, "a-0", StateCompleted)
		if string(j.Result) != "done" || len(j.Errors.Entries) != 2 || j.Errors.Dropped != 3 {
			t.Errorf("result %q, %d errors kept and %d dropped; want \"done\", 2 and 3", j.Result, len(j.Errors.Entries), j.Errors.Dropped)
		}
	})
}

func TestServer_AnOutcomeDoesNotWaitForAClaimThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 1)
		due := make(chan struct{})
		hanging := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			select {
			case <-due:
				if req.Wait == 0 {
					<-ctx.Done()
				}
			default:
			}
			got, err := b.Claim(ctx, req)
			got.NextDue = got.Now.Add(time.Second) // makes it claim then
			return got, err
		}}
		serve(t, hanging, Config{Concurrency: 2}, func(context.Context, *Job) error {
			time.Sleep(500 * time.Millisecond)
			close(due)
			time.Sleep(501 * time.Millisecond) // and the job ends just after that
			return nil
		})
		pass(1000*time.Millisecond + 2*youngCall)
		expect(t, b, DefaultQueue, "a-0", StateCompleted)
	})
}

func TestServer_OutcomesOfAQueueThatFailsAreSentAgainAndHoldUpNoOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		for _, q := range []string{"near", "far"} {
			add(t, b, q, q, 5)
		}
		var calls tally
		// The node of the queue "far" answers every second settle only; what it
		// did not answer it may have done, and here it has.
		partly := func(req broker.SettleRequest, verdicts []broker.Verdict) []broker.Verdict {
			calls.add("settle", 1)
			for i := range verdicts {
				if verdicts[i].Queue == "far" && calls.get("settle")%2 == 1 {
					verdicts[i] = broker.Verdict{Queue: "far", ID: verdicts[i].ID, Err: errors.New("connection reset")}
				}
			}
			return verdicts
		}
		flaky := &tap{Broker: b,
			claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
				got, err := b.Claim(ctx, req)
				if len(req.Settle.Items) > 0 {
					got.Verdicts = partly(req.Settle, got.Verdicts)
				}
				return got, err
			},
			settle: func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
				verdicts, err := b.Settle(ctx, req)
				return partly(req, verdicts), err
			}}
		var runs tally
		known := 0
		hooks := Hooks{Settle: func(e SettleEvent) {
			for _, v := range e.Verdicts {
				if v.Err != nil {
					t.Errorf("job %s: the verdict %v was taken for an answer", v.ID, v.Err)
				}
				known++
			}
		}}
		serve(t, flaky, Config{Concurrency: 10, Queues: map[string]int{"near": 1, "far": 1}, Hooks: hooks},
			func(_ context.Context, j *Job) error {
				runs.add(j.ID(), 1)
				return nil
			})
		pass(time.Minute)
		for _, q := range []string{"near", "far"} {
			if n := count(t, b, q, StateCompleted); n != 5 {
				t.Errorf("queue %s: %d of 5 jobs are completed", q, n)
			}
			for i := range 5 {
				if n := runs.get(fmt.Sprintf("%s-%d", q, i)); n != 1 {
					t.Errorf("job %s-%d ran %d times", q, i, n)
				}
			}
		}
		if known != 10 {
			t.Errorf("the hook was told %d verdicts of 10 jobs", known)
		}
	})
}

func TestServer_ALostSettleIsRepeatedWhileTheServerIsBusy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var once sync.Once
		lossy := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			lost := false
			if len(req.Settle.Items) > 0 {
				once.Do(func() { lost, req.Settle = true, broker.SettleRequest{} })
			}
			time.Sleep(time.Millisecond)
			got, err := b.Claim(ctx, req)
			if lost {
				got.SettleErr = errCut
			}
			return got, err
		}}
		add(t, b, DefaultQueue, "a", 10_000)
		serve(t, lossy, Config{Concurrency: 1}, func(context.Context, *Job) error { return nil })
		pass(6 * time.Millisecond) // of about twelve that the backlog takes, in claims one after the other
		expect(t, b, DefaultQueue, "a-0", StateCompleted)
		if n := count(t, b, DefaultQueue, StatePending); n == 0 {
			t.Error("the server is busy no more, which this test is about")
		}
	})
}

func TestServer_AServerThatCannotSettleStopsClaiming(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var broken atomic.Bool
		broken.Store(true)
		half := &tap{Broker: b}
		half.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
			if broken.Load() {
				return nil, errCut
			}
			return b.Settle(ctx, req)
		}
		half.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if len(req.Settle.Items) == 0 || !broken.Load() {
				return b.Claim(ctx, req)
			}
			req.Settle = broker.SettleRequest{}
			got, err := b.Claim(ctx, req)
			got.SettleErr = errCut
			return got, err
		}
		for _, typ := range []string{"a", "b", "c"} {
			add(t, b, DefaultQueue, typ, 10_000)
		}
		s := serve(t, half, Config{Concurrency: 100}, func(context.Context, *Job) error { return nil })
		pass(time.Minute)
		if n := count(t, b, DefaultQueue, StateActive); n > maxUnsettled+2*broker.MaxClaim {
			t.Errorf("%d jobs are leased, and what became of them is recorded nowhere", n)
		}
		if err := s.Ready(); err == nil {
			t.Error("the server claims nothing and says that it is ready")
		}
		broken.Store(false)
		pass(10 * time.Second)
		if n := count(t, b, DefaultQueue, StateCompleted); n != 30_000 {
			t.Errorf("%d jobs of 30000 are done after the store recovered", n)
		}
		if err := s.Ready(); err != nil {
			t.Errorf("after the store recovered: %v", err)
		}
	})
}
