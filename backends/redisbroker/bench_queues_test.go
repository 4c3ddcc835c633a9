package redisbroker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// BenchmarkClaimOfManyQueues claims ten jobs from n queues, of which all, only the
// last, or none have jobs.
func BenchmarkClaimOfManyQueues(b *testing.B) {
	const each = 10
	for _, n := range []int{1, 10, 100, 1000} {
		for _, have := range []string{"all", "last", "none"} {
			b.Run(fmt.Sprintf("%d/%s", n, have), func(b *testing.B) {
				o, err := redis.ParseURL(testenv.PrivateRedis(b).URL)
				if err != nil {
					b.Fatal(err)
				}
				c := redis.NewClient(o)
				b.Cleanup(func() { _ = c.Close() })
				q := openAs(b, c, Config{Logger: slog.New(slog.DiscardHandler)})
				ctx := context.Background()
				names, shares := make([]string, n), make([]broker.Share, n)
				for i := range names {
					names[i] = "q" + strconv.Itoa(i)
					shares[i] = broker.Share{Queue: names[i], Max: each}
				}
				if _, err := q.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: names, Lease: time.Hour, Register: true}); err != nil {
					b.Fatal(err)
				}
				req := broker.ClaimRequest{Worker: "w", Queues: shares, Max: each}
				if _, err := q.Claim(ctx, req); err != nil {
					b.Fatal(err)
				}
				fill := func(queue string, jobs int) {
					for from := 0; from < jobs; from += 1000 {
						batch := benchJobs(from, min(1000, jobs-from))
						for i := range batch {
							batch[i].Queue = queue
						}
						if _, err := q.Enqueue(ctx, broker.EnqueueRequest{Jobs: batch}); err != nil {
							b.Fatal(err)
						}
					}
				}
				switch have {
				case "all":
					for _, name := range names {
						fill(name, each*(b.N/n+1))
					}
				case "last":
					fill(names[n-1], each*b.N)
				}
				measured(b, c, 1, func() {
					for range b.N {
						if have == "all" { // rotate the shares, as a server does
							first := shares[0]
							copy(shares, shares[1:])
							shares[n-1] = first
						}
						got, err := q.Claim(ctx, req)
						if err != nil || have == "none" != (len(got.Jobs) == 0) {
							b.Fatal(len(got.Jobs), err)
						}
						if len(got.Jobs) > 0 {
							completeNext(b, q, &req, got.Jobs)
						}
					}
				})
			})
		}
	}
}

// completeNext makes the next claim complete these jobs.
func completeNext(tb testing.TB, q *Broker, req *broker.ClaimRequest, jobs []broker.Job) {
	tb.Helper()
	req.Settle = broker.SettleRequest{Worker: "w", Number: req.Settle.Number + 1, Items: make([]broker.Settlement, len(jobs))}
	for i := range jobs {
		req.Settle.Items[i] = broker.Settlement{Job: &jobs[i], Outcome: broker.Complete(nil)}
	}
}

// BenchmarkBuckets drains the front of a queue of many pending jobs, whose bodies are
// spread over 1, 8 or 64 hashes.
func BenchmarkBuckets(b *testing.B) {
	const batch = 100
	for _, pending := range []int{0, 1_000_000} {
		for _, buckets := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%d/%d", pending, buckets), func(b *testing.B) {
				server := testenv.PrivateRedis(b)
				o, err := redis.ParseURL(server.URL)
				if err != nil {
					b.Fatal(err)
				}
				c := redis.NewClient(o)
				b.Cleanup(func() { _ = c.Close() })
				q := openAs(b, c, Config{Prefix: "jobs", Buckets: buckets, Logger: slog.New(slog.DiscardHandler)})
				ctx := context.Background()
				if _, err := q.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"default"}, Lease: time.Hour, Register: true}); err != nil {
					b.Fatal(err)
				}
				jobs := pending + b.N*batch
				for from := 0; from < jobs; from += 1000 {
					if _, err := q.Enqueue(ctx, broker.EnqueueRequest{Jobs: spacedJobs(from, min(1000, jobs-from))}); err != nil {
						b.Fatal(err)
					}
				}
				req := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "default", Max: batch}}, Max: batch}
				measured(b, c, batch, func() {
					for range b.N {
						got, err := q.Claim(ctx, req)
						if err != nil || len(got.Jobs) != batch {
							b.Fatal(len(got.Jobs), err)
						}
						completeNext(b, q, &req, got.Jobs)
					}
				})
			})
		}
	}
}

// spacedJobs returns jobs whose IDs were generated 100 µs apart.
func spacedJobs(from, n int) []broker.NewJob {
	jobs := benchJobs(from, n)
	for i := range jobs {
		const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
		ms := int64(1_700_000_000_000) + int64(from+i)/10
		id := []byte(fmt.Sprintf("%010d%016d", 0, from+i))
		for at := 9; at >= 0; at-- {
			id[at] = digits[ms%32]
			ms /= 32
		}
		jobs[i].ID = string(id)
	}
	return jobs
}
