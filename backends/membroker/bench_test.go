package membroker

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// One operation is one job's whole life: enqueued, claimed and completed, in
// batches of 100, on one goroutine, before any number of jobs that wait in the
// same queue.
func BenchmarkLife(b *testing.B) {
	for _, pending := range []int{0, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			const batch = 100
			handle := New()
			defer handle.Close()
			ctx := context.Background()
			renew := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true}
			if _, err := handle.Renew(ctx, renew); err != nil {
				b.Fatal(err)
			}
			payload := make([]byte, 200)
			news := make([]broker.NewJob, batch)
			next := 0
			enqueue := func() {
				for i := range news {
					next++
					news[i] = broker.NewJob{Queue: "q", ID: strconv.Itoa(next),
						Body: broker.Body{Type: "email:send", Payload: payload, Priority: broker.PriorityNormal, MaxRetries: 25}}
				}
				if _, err := handle.Enqueue(ctx, broker.EnqueueRequest{Jobs: news}); err != nil {
					b.Fatal(err)
				}
			}
			for next < pending {
				enqueue()
			}
			ids := testing.AllocsPerRun(10, func() { _ = strconv.Itoa(1_000_000_000 + next) })
			claim := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: batch}}, Max: batch}
			number := int64(0)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += batch {
				enqueue()
				got, err := handle.Claim(ctx, claim)
				if err != nil || len(got.Jobs) != batch {
					b.Fatal(len(got.Jobs), err)
				}
				number++
				settle := broker.SettleRequest{Worker: "w", Number: number, Items: make([]broker.Settlement, batch)}
				for i := range got.Jobs {
					settle.Items[i] = broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)}
				}
				if _, err := handle.Settle(ctx, settle); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(ids, "allocs-for-ids/op")
		})
	}
}
