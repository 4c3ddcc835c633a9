package jobs

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_ADeadIDLeadsToAFreshOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		b := &tap{Broker: store}
		var attempts tally
		b.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			if req.Register && attempts.add(req.Worker, 1) == 1 && attempts.add("workers", 1) == 1 {
				// It is applied, its answer is lost, and it runs out before it is repeated.
				if _, err := store.Renew(ctx, req); err != nil {
					t.Error(err)
				}
				if _, err := store.Retire(ctx, broker.RetireRequest{Worker: req.Worker, Queues: req.Queues}); err != nil {
					t.Error(err)
				}
				return broker.Renewed{}, errCut
			}
			return store.Renew(ctx, req)
		}
		var log testLog
		s := serve(t, b, Config{Logger: log.logger()}, func(context.Context, *Job) error { return nil })
		add(t, store, DefaultQueue, "a", 1)
		pass(5 * time.Second)
		expect(t, store, DefaultQueue, "a-0", StateCompleted)
		if err := s.Ready(); err != nil {
			t.Error(err)
		}
		if n := len(workers(t, store)); n != 1 {
			t.Errorf("%d workers are registered, want one; the log:\n%s", n, log.String())
		}
		shutDown(t, s)
	})
}

// reconnecting counts how often it is told to open new connections, which is
// the only thing that helps it.
type reconnecting struct {
	tap
	times atomic.Int64
}

func (b *reconnecting) Reconnect() { b.times.Add(1) }

func TestServer_AnOutageThatLastsIsToldOfAgainAndEndsWithNewConnections(t *testing.T) {
	stale := errors.New("read-only transaction")
	for name, affects := range map[string]func(broker.RenewRequest) bool{
		"registering": func(broker.RenewRequest) bool { return true },
		"renewing":    func(req broker.RenewRequest) bool { return !req.Register },
		"claiming":    func(broker.RenewRequest) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newStore()
				b := &reconnecting{tap: tap{Broker: store}}
				b.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
					if b.times.Load() < 3 && affects(req) {
						return broker.Renewed{}, stale
					}
					return store.Renew(ctx, req)
				}
				b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
					if b.times.Load() < 3 && name != "renewing" {
						return broker.Claimed{}, stale
					}
					return store.Claim(ctx, req)
				}
				var log testLog
				s := serve(t, b, Config{Logger: log.logger()}, func(context.Context, *Job) error { return nil })
				add(t, store, DefaultQueue, "a", 1)
				pass(2 * time.Minute)
				if err := s.Ready(); err == nil {
					t.Errorf("after two minutes in which %s did not work once the server says that it is ready", name)
				} else if name != "claiming" && !strings.Contains(err.Error(), stale.Error()) {
					t.Errorf("Ready does not say why %s does not work: %v", name, err)
				}
				lines := len(log.lines(stale.Error()))
				if loud := len(log.lines("level=ERROR")); lines < 4 || loud == 0 {
					t.Errorf("the log tells of the outage %d times, %d of them as an error; want at least 4 and 1:\n%s", lines, loud, log.String())
				}
				if lines > 60 {
					t.Errorf("the log tells of the outage %d times in two minutes", lines)
				}
				pass(2 * time.Minute)
				expect(t, store, DefaultQueue, "a-0", StateCompleted)
				if n := b.times.Load(); n != 3 {
					t.Errorf("the broker was told to reconnect %d times, want as often as it took: 3", n)
				}
				shutDown(t, s)
			})
		})
	}
}

func TestServer_WhatItHoldsIsNotGivenUpBecauseClaimsFail(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		b := &reconnecting{tap: tap{Broker: store}}
		b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if got, err := store.Claim(ctx, req); err != nil || len(got.Jobs) > 0 {
				return got, err
			}
			return broker.Claimed{}, errCut
		}
		add(t, store, DefaultQueue, "a", 1)
		serve(t, b, Config{}, func(ctx context.Context, _ *Job) error {
			time.Sleep(10 * time.Minute)
			return context.Cause(ctx)
		})
		pass(11 * time.Minute)
		if j := expect(t, store, DefaultQueue, "a-0", StateCompleted); j.Deliveries != 1 {
			t.Errorf("the job was delivered %d times", j.Deliveries)
		}
		if b.times.Load() < 5 {
			t.Errorf("new connections were opened %d times in eleven minutes of failing claims", b.times.Load())
		}
	})
}

func TestServer_StartsAndWorksOverALinkOfTwoSeconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		const trip = 2 * time.Second
		b := &tap{Broker: store}
		var connected atomic.Int64 // round trips made to connect
		b.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			for req.Register && connected.Load() < 3 {
				if !waits(ctx, trip) {
					connected.Store(0)
					return broker.Renewed{}, errCut
				}
				connected.Add(1)
			}
			if !waits(ctx, trip) {
				return broker.Renewed{}, errCut
			}
			return store.Renew(ctx, req)
		}
		b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if !waits(ctx, trip) {
				return broker.Claimed{}, errCut
			}
			return store.Claim(ctx, req)
		}
		b.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
			if !waits(ctx, trip) {
				return nil, errCut
			}
			return store.Settle(ctx, req)
		}
		var log testLog
		serve(t, b, Config{Logger: log.logger()}, func(context.Context, *Job) error { time.Sleep(time.Minute); return nil })
		add(t, store, DefaultQueue, "a", 5)
		pass(3 * time.Minute)
		if n := count(t, store, DefaultQueue, StateCompleted); n != 5 {
			t.Errorf("%d of 5 jobs are done", n)
		}
		if lost := log.lines("lost"); len(lost) > 0 {
			t.Errorf("the link is slow, yet enough for a lease of 15 s: %q", lost)
		}
	})
}

func TestServer_AStoreThatRefusesToRegisterItEndsTheServer(t *testing.T) {
	for _, refusal := range []error{ErrClosed, ErrNewerForm, ErrInvalid} {
		t.Run(refusal.Error(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := &tap{Broker: newStore()}
				b.renew = func(context.Context, broker.RenewRequest) (broker.Renewed, error) { return broker.Renewed{}, refusal }
				s := serve(t, b, Config{}, func(context.Context, *Job) error { return nil })
				pass(time.Minute)
				select {
				case <-s.engine.Done():
					if !errors.Is(s.engine.Err(), refusal) {
						t.Errorf("the server ended with %v", s.engine.Err())
					}
				default:
					t.Error("a minute after it was refused the server goes on")
				}
			})
		})
	}
}

func TestServer_AnIdleWorkerThatCannotClaimIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		b := &tap{Broker: store}
		b.claim = func(context.Context, broker.ClaimRequest) (broker.Claimed, error) { return broker.Claimed{}, errCut }
		s := serve(t, b, Config{}, func(context.Context, *Job) error { return nil })
		pass(time.Second)
		first := currentWorker(s)
		pass((3 + 2) * broker.DefaultLease)
		if currentWorker(s) == first {
			t.Error("after leases without a claim that succeeds the worker is the same")
		}
	})
}

func TestServer_AStandstillAfterAFailureThatIsOverCostsNoWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		b := &tap{Broker: store}
		renewals := 0
		b.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			switch renewals++; renewals {
			case 2:
				return broker.Renewed{}, errCut
			case 4:
				defer time.Sleep(2 * broker.DefaultLease) // the process stands still right after the answer
			}
			return store.Renew(ctx, req)
		}
		s := serve(t, b, Config{}, func(context.Context, *Job) error { return nil })
		pass(time.Second)
		first := currentWorker(s)
		pass(time.Minute)
		if renewals < 5 || currentWorker(s) != first {
			t.Errorf("after %d renewals the worker is %s, was %s; want the same, since the store has it still", renewals, currentWorker(s), first)
		}
	})
}
