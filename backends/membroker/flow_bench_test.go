package membroker

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// One operation is one job's life, in batches of 100: without a key, with one of so
// many, and beside limits that keep nothing back.
func BenchmarkLifeOfKeys(b *testing.B) {
	rate := broker.Rate{Jobs: 1_000_000, Per: time.Second, Burst: 1_000_000}
	for _, c := range []struct {
		name   string
		keys   int
		policy broker.PolicyRequest
	}{
		{"keys=0", 0, broker.PolicyRequest{}},
		{"keys=0/limits", 0, broker.PolicyRequest{MaxActive: new(int64(1000)), Rate: &rate}},
		{"keys=100", 100, broker.PolicyRequest{}},
		{"keys=100/limits", 100, broker.PolicyRequest{KeyMaxActive: new(int64(1000)), KeyRate: &rate}},
		{"keys=100000", 100_000, broker.PolicyRequest{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			const batch = 100
			l := newBenchLife(b, c.policy)
			for l.next < c.keys { // each has a job that waits
				l.enqueue(batch, c.keys)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += batch {
				l.enqueue(batch, c.keys)
				if got := l.work(batch); got != batch {
					b.Fatal(got)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// A claim of a queue all of whose keys are at their limits is to cost what one of an
// empty queue does.
func BenchmarkClaimOfNothing(b *testing.B) {
	for _, keys := range []int{0, 50_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			l := newBenchLife(b, broker.PolicyRequest{KeyMaxActive: new(int64(1))})
			for range 2 {
				for n := 0; n < keys; n += 100 {
					l.enqueue(100, keys)
				}
			}
			for n := 0; n < keys; n += 1000 {
				l.claim(1000)
			}
			b.ResetTimer()
			for range b.N {
				if got := l.claim(10); len(got) > 0 {
					b.Fatal(len(got))
				}
			}
		})
	}
}

type benchLife struct {
	b      *testing.B
	handle *Broker
	next   int
	number int64
}

func newBenchLife(b *testing.B, policy broker.PolicyRequest) *benchLife {
	l := &benchLife{b: b, handle: New()}
	b.Cleanup(func() { l.handle.Close() })
	_, err := l.handle.Renew(context.Background(), broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true})
	l.ok(err)
	policy.Queue = "q"
	_, err = l.handle.Policy(context.Background(), policy)
	l.ok(err)
	return l
}

func (l *benchLife) ok(err error) {
	if err != nil {
		l.b.Fatal(err)
	}
}

func (l *benchLife) enqueue(n, keys int) {
	news := make([]broker.NewJob, n)
	for i := range news {
		l.next++
		news[i] = newTestJob("q", strconv.Itoa(l.next))
		if keys > 0 {
			news[i].Body.Key = strconv.Itoa(l.next % keys)
		}
	}
	_, err := l.handle.Enqueue(context.Background(), broker.EnqueueRequest{Jobs: news})
	l.ok(err)
}

func (l *benchLife) claim(n int) []broker.Job {
	got, err := l.handle.Claim(context.Background(), broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: n}}, Max: n})
	l.ok(err)
	return got.Jobs
}

func (l *benchLife) work(n int) int {
	jobs := l.claim(n)
	l.number++
	settle := broker.SettleRequest{Worker: "w", Number: l.number, Items: make([]broker.Settlement, len(jobs))}
	for i := range jobs {
		settle.Items[i] = broker.Settlement{Job: &jobs[i], Outcome: broker.Complete(nil)}
	}
	_, err := l.handle.Settle(context.Background(), settle)
	l.ok(err)
	return len(jobs)
}
