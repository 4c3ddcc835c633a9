package jobs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_ALostReplyOfAClaimStrandsNothing(t *testing.T) {
	t.Parallel()
	for _, unknown := range []string{"with an error that says so", "silently"} {
		t.Run(unknown, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				var once sync.Once
				lossy := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
					got, err := b.Claim(ctx, req)
					if len(got.Jobs) > 0 {
						once.Do(func() {
							got = broker.Claimed{Now: got.Now}
							if unknown == "with an error that says so" {
								err = errCut
							}
						})
					}
					return got, err
				}}
				var at time.Time
				serve(t, lossy, Config{PollInterval: time.Minute}, func(context.Context, *Job) error { at = time.Now(); return nil })
				pass(time.Minute)
				began := time.Now()
				add(t, b, DefaultQueue, "a", 1)
				pass(5 * time.Minute)
				j := expect(t, b, DefaultQueue, "a-0", StateCompleted)
				if took := at.Sub(began); took > broker.DefaultLease || j.Crashes != 0 || j.Failures != 0 {
					t.Errorf("it ran after %v, with %d crashes and %d failures; want a lease at most and no charge", took, j.Crashes, j.Failures)
				}
			})
		})
	}
}

func TestServer_AClaimThatExecutesAfterItWasGivenUpStrandsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		executed := make(chan struct{})
		var once sync.Once
		late := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (got broker.Claimed, err error) {
			once.Do(func() {
				err = errCut
				req.Wait = 0
				time.AfterFunc(4*time.Second, func() {
					defer close(executed)
					if got, err := b.Claim(context.Background(), req); err != nil || len(got.Jobs) != 1 {
						t.Error("the late claim got", len(got.Jobs), err)
					}
				})
			})
			if err != nil {
				return got, err
			}
			<-executed
			return b.Claim(ctx, req)
		}}
		add(t, b, DefaultQueue, "a", 1)
		began := time.Now()
		var at time.Time
		serve(t, late, Config{}, func(context.Context, *Job) error { at = time.Now(); return nil })
		pass(5 * time.Minute)
		if took := at.Sub(began); at.IsZero() || took > 4*time.Second+broker.DefaultLease {
			t.Errorf("it ran after %v, want within a lease of the claim's execution", took)
		}
	})
}

func TestServer_ALostReplyIsNoticedUnderLoadToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var lose atomic.Bool
		busy := &tap{Broker: b}
		busy.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Claim(ctx, req)
			for _, j := range got.Jobs {
				if j.ID == "lost-0" && lose.CompareAndSwap(true, false) {
					return broker.Claimed{}, errCut
				}
			}
			return got, err
		}
		busy.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			got, err := b.Renew(ctx, req)
			time.Sleep(50 * time.Millisecond) // jobs come and go meanwhile
			return got, err
		}
		serve(t, busy, Config{Concurrency: 10}, func(context.Context, *Job) error { return nil })
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			for waits(ctx, 10*time.Millisecond) {
				add(t, b, DefaultQueue, "load"+time.Now().String(), 1)
			}
		}()
		pass(time.Minute)
		lose.Store(true)
		add(t, b, DefaultQueue, "lost", 1)
		pass(broker.DefaultLease)
		stop()
		synctest.Wait()
		if j := expect(t, b, DefaultQueue, "lost-0", StateCompleted); j.Crashes != 0 || lose.Load() {
			t.Errorf("crashes %d, not lost at all: %v", j.Crashes, lose.Load())
		}
	})
}

func TestServer_AHealthyServerHasNoDoubtsAboutItsLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		tapped := &tap{Broker: b, find: func(ctx context.Context, q broker.Query) (broker.Page, error) {
			if q.Worker != "" {
				t.Error("the server listed its leases")
			}
			return b.Find(ctx, q)
		}}
		tapped.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			got, err := b.Renew(ctx, req)
			time.Sleep(60 * time.Millisecond) // jobs come and go meanwhile
			return got, err
		}
		serve(t, tapped, Config{Concurrency: 4, RetryPolicy: Constant(time.Second)}, func(_ context.Context, j *Job) error {
			time.Sleep(70 * time.Millisecond)
			if j.Attempt() < 2 {
				return errors.New("no")
			}
			return nil
		})
		for range 60 {
			add(t, b, DefaultQueue, time.Now().String(), 50)
			pass(3 * time.Second)
		}
		pass(time.Minute)
		if n := count(t, b, DefaultQueue, StateCompleted); n != 3000 {
			t.Errorf("%d jobs of 3000 are done", n)
		}
	})
}

// A store that did not count says nothing: there is nothing to doubt.
func TestServer_RenewalWithoutACountRaisesNoDoubts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		tapped := &tap{Broker: b, find: func(ctx context.Context, q broker.Query) (broker.Page, error) {
			if q.Worker != "" {
				t.Error("the server listed its leases")
			}
			return b.Find(ctx, q)
		}}
		var renewals atomic.Int64
		tapped.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			got, err := b.Renew(ctx, req)
			got.Held = nil
			renewals.Add(1)
			return got, err
		}
		serve(t, tapped, Config{}, func(context.Context, *Job) error { time.Sleep(2 * time.Minute); return nil })
		add(t, b, DefaultQueue, "long", 1)
		pass(time.Minute)
		if n := renewals.Load(); n < 5 {
			t.Fatalf("%d renewals within a minute, want more", n)
		}
		pass(2 * time.Minute)
	})
}

func TestServer_AJobThatEndsDuringARenewalRaisesNoDoubts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		end, over := make(chan struct{}), make(chan struct{})
		tapped := &tap{Broker: b}
		tapped.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			got, err := b.Renew(ctx, req)
			if !req.Register { // which counts one job more than are left when it is answered
				select {
				case end <- struct{}{}:
				case <-over:
				}
				time.Sleep(time.Second)
			}
			return got, err
		}
		tapped.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			if q.Worker != "" {
				t.Error("the server listed its leases")
			}
			return b.Find(ctx, q)
		}
		add(t, b, DefaultQueue, "a", 10)
		serve(t, tapped, Config{Concurrency: 10}, func(context.Context, *Job) error {
			select {
			case <-end:
			case <-over:
			}
			return nil
		})
		pass(30 * time.Second)
		if n := count(t, b, DefaultQueue, StateCompleted); n < 5 || n > 9 {
			t.Errorf("%d jobs are done, want one a renewal", n)
		}
		close(over)
	})
}
