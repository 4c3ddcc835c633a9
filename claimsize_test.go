package jobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// thin is a link to a store that carries so many bytes a second of what claims
// and reclaims give. An answer that its caller did not wait for is lost, and the
// jobs in it stay leased.
func thin(b broker.Broker, rate int, lost *atomic.Int64) *tap {
	carry := func(ctx context.Context, got broker.Claimed, err error) (broker.Claimed, error) {
		size := 0
		for i := range got.Jobs {
			size += len(got.Jobs[i].Payload)
		}
		if !waits(ctx, time.Millisecond+time.Duration(size)*time.Second/time.Duration(rate)) {
			lost.Add(1)
			return broker.Claimed{}, ctx.Err()
		}
		return got, err
	}
	return &tap{Broker: b,
		claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Claim(ctx, req)
			return carry(ctx, got, err)
		},
		reclaim: func(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
			got, err := b.Reclaim(ctx, req)
			return carry(ctx, got, err)
		}}
}

func heavy(size int) func(*broker.NewJob) {
	return func(j *broker.NewJob) { j.Body.Payload = make([]byte, size) }
}

func TestServer_ClaimsOverAThinLink(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate, jobs, size int
		lost             int64
	}{
		{1_250_000, 40, 400_000, 0}, // 10 Mbit/s
		{1_250_000, 400, 60_000, 0},
		{125_000, 40, 100_000, 3}, // 1 Mbit/s: the first claims are lost
		{12_500_000, 320, 512_000, 0},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				add(t, b, DefaultQueue, "a", test.jobs, heavy(test.size))
				var lost atomic.Int64
				serve(t, thin(b, test.rate, &lost), Config{Concurrency: 160}, func(context.Context, *Job) error { return nil })
				ideal := time.Duration(test.jobs*test.size) * time.Second / time.Duration(test.rate)
				pass(3*ideal + 30*time.Second)
				if n := count(t, b, DefaultQueue, StateCompleted); n != test.jobs {
					t.Errorf("%d of %d jobs are done after three times the %v that the link needs, and 30 s", n, test.jobs, ideal)
				}
				if n := lost.Load(); n > test.lost {
					t.Errorf("%d answers were not waited for, want at most %d", n, test.lost)
				}
			})
		})
	}
}

func TestServer_ReclaimsOverAThinLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 40, heavy(400_000))
		ctx, queues := t.Context(), []string{DefaultQueue}
		if _, err := b.Renew(ctx, broker.RenewRequest{Worker: "dead", Queues: queues, Lease: time.Second, Register: true}); err != nil {
			t.Fatal(err)
		}
		got, err := b.Claim(ctx, broker.ClaimRequest{Worker: "dead", Queues: []broker.Share{{Queue: DefaultQueue, Max: 40}}, Max: 40,
			Bytes: 1 << 30})
		if err != nil || len(got.Jobs) != 40 {
			t.Fatal(len(got.Jobs), err)
		}
		var lost atomic.Int64
		serve(t, thin(b, 1_250_000, &lost), Config{Concurrency: 4}, func(context.Context, *Job) error { return nil })
		pass(2 * time.Minute)
		if n := count(t, b, DefaultQueue, StateCompleted); n != 40 {
			t.Errorf("%d of 40 jobs of a server that died are done after two minutes", n)
		}
		if n := lost.Load(); n > 0 {
			t.Errorf("%d answers were not waited for", n)
		}
	})
}

// What a claim leased whose answer was lost is given back at once, not with the
// next renewal that would come anyway.
func TestServer_GivesBackWhatALostClaimLeasedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var lost atomic.Bool
		lossy := &tap{Broker: b}
		lossy.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Claim(ctx, req)
			if len(got.Jobs) > 0 && lost.CompareAndSwap(false, true) {
				return broker.Claimed{}, errCut
			}
			return got, err
		}
		serve(t, lossy, Config{}, func(context.Context, *Job) error { return nil })
		synctest.Wait()
		add(t, b, DefaultQueue, "a", 1)
		pass(500 * time.Millisecond)
		expect(t, b, DefaultQueue, "a-0", StateCompleted)
	})
}
