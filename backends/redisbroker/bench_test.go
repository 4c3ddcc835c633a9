package redisbroker

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// serverCPU returns the CPU time that the server has used so far.
func serverCPU(tb testing.TB, c *redis.Client) time.Duration {
	tb.Helper()
	text, err := c.Info(context.Background(), "cpu").Result()
	if err != nil {
		tb.Fatal(err)
	}
	info := parseInfo(text)
	var sum float64
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		v, err := strconv.ParseFloat(info[field], 64)
		if err != nil {
			tb.Fatal(err)
		}
		sum += v
	}
	return time.Duration(sum * float64(time.Second))
}

var benchPayload = func() []byte {
	p := make([]byte, 200)
	for i := range p {
		p[i] = 'a' + byte(i%26)
	}
	return p
}()

// benchID returns an ID of 26 characters, like generated IDs.
func benchID(n int) string { return fmt.Sprintf("01HZY%021d", n) }

func benchJobs(from, n int) []broker.NewJob {
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = broker.NewJob{Queue: "default", ID: benchID(from + i), FirstSend: true, Body: broker.Body{
			Type: "email:welcome", Payload: benchPayload, Priority: broker.PriorityNormal, MaxRetries: broker.DefaultMaxRetries,
		}}
	}
	return jobs
}

// measured runs f, and reports the number of jobs and the server's CPU time per job.
func measured(b *testing.B, c *redis.Client, jobs int, f func()) {
	before := serverCPU(b, c)
	b.ReportAllocs()
	b.ResetTimer()
	f()
	b.StopTimer()
	n := float64(b.N * jobs)
	b.ReportMetric(n/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64((serverCPU(b, c)-before).Nanoseconds())/1e3/n, "redis-µs/job")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkEnqueue(b *testing.B) {
	for _, batch := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(batch), func(b *testing.B) {
			c := client(b)
			q := open(b, c)
			b.Cleanup(func() { remove(b, c, q) })
			reqs := make([]broker.EnqueueRequest, b.N)
			for i := range reqs {
				reqs[i].Jobs = benchJobs(i*batch, batch)
			}
			measured(b, c, batch, func() {
				for i := range reqs {
					if _, err := q.Enqueue(context.Background(), reqs[i]); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkDrain claims jobs and settles the previous ones in the same round trip, as a
// busy worker does.
func BenchmarkDrain(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(strconv.Itoa(batch), func(b *testing.B) {
			c := client(b)
			q := open(b, c)
			b.Cleanup(func() { remove(b, c, q) })
			if _, err := q.Renew(context.Background(), broker.RenewRequest{Worker: "w", Queues: []string{"default"}, Lease: time.Hour,
				Register: true}); err != nil {
				b.Fatal(err)
			}
			for from := 0; from < b.N*batch; from += 1000 {
				if _, err := q.Enqueue(context.Background(), broker.EnqueueRequest{Jobs: benchJobs(from, min(1000, b.N*batch-from))}); err != nil {
					b.Fatal(err)
				}
			}
			measured(b, c, batch, func() {
				req := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "default", Max: batch}}, Max: batch}
				for range b.N {
					got, err := q.Claim(context.Background(), req)
					if err != nil || len(got.Jobs) != batch {
						b.Fatal(len(got.Jobs), err)
					}
					req.Settle = broker.SettleRequest{Worker: "w", Number: req.Settle.Number + 1, Items: make([]broker.Settlement, len(got.Jobs))}
					for i := range got.Jobs {
						req.Settle.Items[i] = broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil),
							Waited: time.Millisecond, Ran: time.Millisecond}
					}
				}
			})
		})
	}
}

// remove deletes what a benchmark stored.
func remove(tb testing.TB, c *redis.Client, q *Broker) {
	err := walk(c, q.config.Prefix, func(node *redis.Client, key, _ string) error { return node.Unlink(context.Background(), key).Err() })
	if err != nil {
		tb.Error(err)
	}
}

// BenchmarkMemory measures bytes per stored job with a payload of 200 bytes.
func BenchmarkMemory(b *testing.B) {
	const jobs = 100_000
	for _, kind := range []string{"pending", "scheduled"} {
		b.Run(kind, func(b *testing.B) {
			server := testenv.PrivateRedis(b)
			o, err := redis.ParseURL(server.URL)
			if err != nil {
				b.Fatal(err)
			}
			c := redis.NewClient(o)
			b.Cleanup(func() { _ = c.Close() })
			for range b.N {
				q := openAs(b, c, Config{Prefix: "jobs-" + rand.Text(), Logger: slog.New(slog.DiscardHandler)})
				before := usedMemory(b, c)
				for from := 0; from < jobs; from += 1000 {
					batch := benchJobs(from, 1000)
					if kind == "scheduled" {
						for i := range batch {
							batch[i].Delay = time.Hour + time.Duration(from+i)*time.Millisecond
						}
					}
					if _, err := q.Enqueue(context.Background(), broker.EnqueueRequest{Jobs: batch}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(usedMemory(b, c)-before)/jobs, "bytes/job")
			}
		})
	}
}

func usedMemory(tb testing.TB, c *redis.Client) int64 {
	tb.Helper()
	text, err := c.Info(context.Background(), "memory").Result()
	if err != nil {
		tb.Fatal(err)
	}
	n, err := strconv.ParseInt(parseInfo(text)["used_memory"], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// BenchmarkFailOnce lets every job fail once, with an immediate retry, and completes
// it the second time.
func BenchmarkFailOnce(b *testing.B) {
	const batch = 100
	c := client(b)
	q := open(b, c)
	b.Cleanup(func() { remove(b, c, q) })
	ctx := context.Background()
	if _, err := q.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"default"}, Lease: time.Hour, Register: true}); err != nil {
		b.Fatal(err)
	}
	for from := 0; from < b.N*batch; from += 1000 {
		if _, err := q.Enqueue(ctx, broker.EnqueueRequest{Jobs: benchJobs(from, min(1000, b.N*batch-from))}); err != nil {
			b.Fatal(err)
		}
	}
	failure := broker.Failure{Message: "connection refused", Class: "retryable", At: time.Now()}
	measured(b, c, batch, func() {
		req := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "default", Max: batch}}, Max: batch}
		for done := 0; done < b.N*batch; {
			got, err := q.Claim(ctx, req)
			if err != nil {
				b.Fatal(err)
			}
			req.Settle = broker.SettleRequest{Worker: "w", Number: req.Settle.Number + 1, Items: make([]broker.Settlement, len(got.Jobs))}
			for i := range got.Jobs {
				o := broker.Retry(time.Microsecond, failure)
				if got.Jobs[i].Failures > 0 {
					o = broker.Complete(nil)
					done++
				}
				req.Settle.Items[i] = broker.Settlement{Job: &got.Jobs[i], Outcome: o}
			}
		}
	})
}
