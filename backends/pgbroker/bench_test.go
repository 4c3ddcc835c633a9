package pgbroker

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func BenchmarkEnqueue(b *testing.B) {
	for _, size := range []int{1, 32, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := newBench(b)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				s.enqueue(size)
				n += size
			}
			perSecond(b, n)
		})
	}
}

// BenchmarkTurn claims, and settles with the next claim, until the queue is
// empty.
func BenchmarkTurn(b *testing.B) {
	for _, size := range []int{1, 100, 500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := newBench(b)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if s.stored < size {
					b.StopTimer()
					for range 50 {
						s.enqueue(1000)
					}
					b.StartTimer()
				}
				n += s.turn(size)
			}
			perSecond(b, n)
		})
	}
}

func perSecond(b *testing.B, jobs int) {
	b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
}

// bench is one producer and one worker on a store of their own.
type bench struct {
	b      testing.TB
	broker *Broker
	ids    int
	stored int
	settle broker.SettleRequest
}

func newBench(b testing.TB) *bench {
	pool := connect(b, testenv.Postgres(b), 4)
	br, err := New(b.Context(), pool, Config{Schema: schema(b, pool)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { br.Close() })
	_, err = br.Renew(b.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"bench"}, Lease: time.Hour, Register: true})
	if err != nil {
		b.Fatal(err)
	}
	return &bench{b: b, broker: br, settle: broker.SettleRequest{Worker: "w"}}
}

// enqueue stores jobs of a 200-byte payload under IDs of 26 bytes.
func (s *bench) enqueue(n int) {
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		s.ids++
		jobs[i] = broker.NewJob{Queue: "bench", ID: fmt.Sprintf("01JD%022d", s.ids), FirstSend: true,
			Body: broker.Body{Type: "email:send", Payload: payload, Priority: broker.PriorityNormal, MaxRetries: 25}}
	}
	receipts, err := s.broker.Enqueue(s.b.Context(), broker.EnqueueRequest{Jobs: jobs})
	if err != nil || receipts[0].Err != nil {
		s.b.Fatal(err, receipts)
	}
	s.stored += n
}

var payload = make([]byte, 200)

// turn settles what the last turn claimed, and claims again.
func (s *bench) turn(n int) int {
	req := broker.ClaimRequest{Worker: "w", Max: n, Queues: []broker.Share{{Queue: "bench", Max: n}}, Settle: s.settle}
	got, err := s.broker.Claim(s.b.Context(), req)
	if err != nil || got.SettleErr != nil {
		s.b.Fatal(err, got.SettleErr)
	}
	for _, v := range got.Verdicts {
		if v.Err != nil {
			s.b.Fatal(v.Err)
		}
	}
	s.settle.Number++
	s.settle.Items = s.settle.Items[:0]
	for i := range got.Jobs {
		s.settle.Items = append(s.settle.Items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil),
			Waited: time.Millisecond, Ran: time.Millisecond})
	}
	s.stored -= len(got.Jobs)
	return len(got.Jobs)
}
