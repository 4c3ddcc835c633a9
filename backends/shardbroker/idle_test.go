package shardbroker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// A shard that had no more jobs gets one, while another has enough for all claims.
func TestClaim_AShardWithManyJobsKeepsThoseOfOthersBackForASecondAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := opened(t, Shard{Name: "a", Broker: membroker.New()}, Shard{Name: "b", Broker: membroker.New()})
		_, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true})
		if err != nil {
			t.Fatal(err)
		}
		enqueue := func(shard string, n int) {
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
		enqueue("b", 100)
		claims(2)
		enqueue("a", 1)
		time.Sleep(time.Second)
		if !slices.ContainsFunc(claims(2), func(j broker.Job) bool { return strings.HasPrefix(j.ID, "a") }) {
			t.Error("a second later, two claims took jobs of the shard with many jobs only")
		}
	})
}
