package shardbroker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// Callers whose time is over, as those of a busy web server, must not make others think that the shards are away.
func TestShards_ACallThatHasNoTimeLeftBlamesNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := named(t, "a", "b")
		ctx := t.Context()
		renew := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true}
		if _, err := b.Renew(ctx, renew); err != nil {
			t.Fatal(err)
		}
		late, cancel := context.WithTimeout(ctx, 0)
		defer cancel()
		wait := broker.ClaimRequest{Worker: "w", Max: 4, Queues: []broker.Share{{Queue: "q", Max: 4}}, Wait: time.Minute}
		for n, call := range []func() error{
			func() error { _, err := b.Find(late, broker.Query{Queue: "q", State: broker.StatePending}); return err },
			func() error { _, err := b.Find(late, broker.Query{Queue: "q", Key: "k"}); return err },
			func() error {
				_, err := b.Mark(late, broker.MarkRequest{Name: "m", Action: broker.MarkRead})
				return err
			},
			func() error { _, err := b.Examine(late, broker.ExamineRequest{Queue: "q"}); return err },
			func() error { _, err := b.Claim(late, wait); return err },
			func() error { // it has less time than it may wait
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				_, err := b.Claim(ctx, wait)
				return err
			},
		} {
			for range 3 {
				if call() == nil {
					t.Errorf("call %d has no error", n)
				}
			}
			enqueueIn(t, b, "a", 1)
			enqueueIn(t, b, "b", 1)
			got, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Max: 4, Queues: wait.Queues})
			if err != nil || len(got.Jobs) != 2 {
				t.Fatalf("after call %d, %d of 2 jobs were claimed: %v", n, len(got.Jobs), err)
			}
			req := broker.SettleRequest{Worker: "w", Number: int64(n + 1)}
			for i := range got.Jobs {
				req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
			}
			if v, err := b.Settle(ctx, req); err != nil || v[0].Err != nil || v[1].Err != nil {
				t.Fatal(fmt.Sprint(v), err)
			}
		}
	})
}

func TestWatch_EndsWithCloseWhileAShardIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage()
		b := opened(t, Shard{Name: "a", Broker: membroker.New()}, Shard{Name: "b", Broker: o})
		o.away.Store(true)
		events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case _, open := <-events:
			if open {
				t.Error("an event came after Close")
			}
		default:
			t.Error("Close did not end the watch")
		}
	})
}
