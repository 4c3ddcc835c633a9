package shardbroker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A claim that may take fewer jobs of a queue than there are shards waits for that queue in a part of the shards, and soon in
// others, even if it wants many jobs of another queue.
func TestClaim_ASmallShareOfAQueueMeetsJobsOfAllShards(t *testing.T) {
	t.Parallel()
	for _, shares := range [][]broker.Share{
		{{Queue: "q", Max: 1}, {Queue: "other", Max: 10}},
		{{Queue: "q", Max: 1}, {Queue: "other", Max: 7}, {Queue: "q", Max: 2}},
	} {
		t.Run(fmt.Sprint(shares), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := named(t, "a", "b", "c", "d")
				_, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q", "other"}, Lease: time.Hour, Register: true})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 12 { // some in each shard
					stored := make(chan time.Time, 1)
					time.AfterFunc(time.Second, func() {
						_, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{newJob(fmt.Sprint("job", i))}})
						if err != nil {
							t.Error(err)
						}
						stored <- time.Now()
					})
					got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 10, Wait: time.Minute, Queues: shares})
					if err != nil || len(got.Jobs) != 1 {
						t.Fatal(got, err)
					}
					if late := time.Since(<-stored); late > 4*waitStep {
						t.Errorf("job %d was found %v after it came, want at most %v", i, late, 4*waitStep)
					}
				}
			})
		})
	}
}
