package membroker

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed81422ce9/jobs/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type claimed struct {
	broker.Claimed
	err error
}

func newTestJob(queue, id string) broker.NewJob {
	return broker.NewJob{Queue: queue, ID: id, Body: broker.Body{Type: "t", Priority: broker.PriorityNormal,
		Payload: []byte("payload of " + id)}}
}

func register(t *testing.T, b *Broker, worker string, queues ...string) {
	t.Helper()
	got, err := b.Renew(context.Background(), broker.RenewRequest{Worker: worker, Queues: queues, Lease: time.Hour, Register: true})
	if err != nil || got.Lost {
		t.Fatalf("registering %s: %+v, %v", worker, got, err)
	}
}

func enqueue(t *testing.T, b *Broker, jobs ...broker.NewJob) []broker.Receipt {
	t.Helper()
	receipts, err := b.Enqueue(context.Background(), broker.EnqueueRequest{Jobs: jobs})
	if err != nil {
		t.Fatalf("enqueueing: %v", err)
	}
	for _, r := range receipts {
		if r.Err != nil {
			t.Fatalf("enqueueing %s: %v", r.ID, r.Err)
		}
	}
	return receipts
}

func claimRequest(worker string, most int, wait time.Duration, queues ...string) broker.ClaimRequest {
	req := broker.ClaimRequest{Worker: worker, Max: most, Wait: wait}
	for _, q := range queues {
		req.Queues = append(req.Queues, broker.Share{Queue: q, Max: most})
	}
	return req
}

func claim(t *testing.T, b *Broker, worker string, most int, queues ...string) []broker.Job {
	t.Helper()
	got, err := b.Claim(context.Background(), claimRequest(worker, most, 0, queues...))
	if err != nil {
		t.Fatalf("claiming: %v", err)
	}
	return got.Jobs
}

func claimInBackground(t *testing.T, b *Broker, worker string, most int, wait time.Duration, queues ...string) <-chan claimed {
	answer := make(chan claimed, 1)
	go func() {
		got, err := b.Claim(t.Context(), claimRequest(worker, most, wait, queues...))
		answer <- claimed{got, err}
	}()
	return answer
}

func pause(t *testing.T, b *Broker, queue string, paused bool) {
	t.Helper()
	if _, err := b.Policy(context.Background(), broker.PolicyRequest{Queue: queue, Paused: &paused}); err != nil {
		t.Fatalf("pausing: %v", err)
	}
}

func ids(jobs []broker.Job) []string {
	all := make([]string, len(jobs))
	for i := range jobs {
		all[i] = jobs[i].ID
	}
	return all
}
