package shardbroker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// enqueueIn enqueues jobs of one shard.
func enqueueIn(t *testing.T, b *Broker, shard string, n int) {
	t.Helper()
	var request []broker.NewJob
	for i := 0; len(request) < n; i++ {
		j := newJob(fmt.Sprint(shard, i))
		if b.routes.of(label(j.ID, &j.Body))[0].Name == shard {
			request = append(request, j)
		}
	}
	if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: request}); err != nil {
		t.Fatal(err)
	}
}

// A shard that had no more jobs gets one, while another has enough for all claims.
func TestClaim_AShardWithManyJobsKeepsThoseOfOthersBackForASecondAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := named(t, "a", "b")
		_, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true})
		if err != nil {
			t.Fatal(err)
		}
		claims := func(n int) (got []broker.Job) {
			for range n {
				some, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 2, Queues: []broker.Share{{Queue: "q", Max: 2}}})
				if err != nil || len(some.Jobs) != 2 {
					t.Fatal(len(some.Jobs), err)
				}
				got = append(got, some.Jobs...)
			}
			return got
		}
		enqueueIn(t, b, "b", 100)
		claims(2)
		enqueueIn(t, b, "a", 1)
		time.Sleep(time.Second)
		if !slices.ContainsFunc(claims(2), func(j broker.Job) bool { return strings.HasPrefix(j.ID, "a") }) {
			t.Error("a second later, two claims took jobs of the shard with many jobs only")
		}
	})
}

// A process does not notice that its leases ran out in one shard, since the others renewed it. What it claimed there could be
// reclaimed at once, and run twice.
func TestClaim_AWorkerWhoseLeasesRanOutInAShardClaimsThereOnceItIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage()
		b := opened(t, Shard{Name: "a", Broker: membroker.New()}, Shard{Name: "b", Broker: o})
		renew := func(register bool) {
			req := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: 15 * time.Second, Register: register}
			if _, err := b.Renew(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		claimed := func() map[string]bool {
			got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 9, Queues: []broker.Share{{Queue: "q", Max: 9}}})
			if err != nil {
				t.Fatal(err)
			}
			in := make(map[string]bool)
			for _, j := range got.Jobs {
				in[b.holds(nil, &j)[0].Name] = true
			}
			return in
		}
		renew(true)
		enqueueIn(t, b, "a", 1)
		enqueueIn(t, b, "b", 1)
		o.away.Store(true)
		for range 4 {
			time.Sleep(5 * time.Second)
			renew(false)
		}
		o.away.Store(false)
		time.Sleep(longPause / 2)
		if in := claimed(); !in["a"] || in["b"] {
			t.Errorf("before it is renewed, it claimed from %v, want a alone", in)
		}
		renew(false)
		if in := claimed(); !in["b"] {
			t.Error("once it is renewed, it claimed nothing from the shard that was away")
		}
	})
}

// A shard that does not answer makes the renewal late for the process, but not for the shards that answered at once.
func TestClaim_ALeaseCountsFromWhenTheShardGaveIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		other := broker.Wrap(membroker.New(), func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
			if hangs.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return next(ctx)
		})
		b := opened(t, Shard{Name: "a", Broker: membroker.New()}, Shard{Name: "b", Broker: other})
		renew := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: 15 * time.Second, Register: true}
		if _, err := b.Renew(t.Context(), renew); err != nil {
			t.Fatal(err)
		}
		hangs.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := b.Renew(ctx, renew); err != nil {
			t.Fatal(err)
		}
		hangs.Store(false)
		time.Sleep(5 * time.Second)
		if order := b.inTurn(b.member("w")); len(order) == 0 {
			t.Error("within the lease, claims ask no shard")
		}
		time.Sleep(5 * time.Second)
		if order := b.inTurn(b.member("w")); len(order) > 0 {
			t.Errorf("after the lease, claims ask %d shards", len(order))
		}
	})
}
