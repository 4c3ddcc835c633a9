package redisbroker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// However a job ends, the queue's record knows how large its head has become.
func TestBroker_ExaminesJobsWithLargeEndsWithoutFindings(t *testing.T) {
	t.Parallel()
	c := client(t)
	long := broker.Failure{Message: strings.Repeat("m", broker.MaxErrorBytes), Stack: strings.Repeat("s", broker.MaxErrorBytes)}
	for name, outcome := range map[string]broker.Outcome{
		"dead":      broker.Die(broker.ReasonSkipRetry, long),
		"retried":   broker.Retry(time.Hour, long),
		"crashed":   broker.Crash(0, long),
		"cancelled": broker.Cancel(long),
		"completed": broker.Complete(make([]byte, 100<<10)),
	} {
		b := openAs(t, c, Config{Prefix: testenv.Name(t) + name})
		ctx := t.Context()
		if _, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: "q", ID: "a",
			Body: broker.Body{Type: "t", Priority: broker.PriorityNormal, MaxRetries: 3, Retention: time.Hour}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true,
			Info: broker.WorkerInfo{ID: "w"}}); err != nil {
			t.Fatal(err)
		}
		got, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 1}}, Max: 1})
		if err != nil || len(got.Jobs) != 1 {
			t.Fatal(got.Jobs, err)
		}
		if _, err := b.Settle(ctx, broker.SettleRequest{Worker: "w", Number: 1,
			Items: []broker.Settlement{{Job: &got.Jobs[0], Outcome: outcome}}}); err != nil {
			t.Fatal(err)
		}
		if found := examinetest.Examine(t, b, broker.ExamineRequest{}); len(found) > 0 {
			t.Errorf("a job that is %s: %v", name, found)
		}
	}
}

// After one large job, an examination of a queue still takes many small jobs in a step.
func TestBroker_ExaminesSmallJobsInLargeStepsBesideALargeOne(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := openAs(t, c, Config{Prefix: testenv.Name(t), Buckets: 1})
	large := job("q", "large")
	large.Body.Payload = make([]byte, 1<<20)
	jobs := []broker.NewJob{large}
	for i := range 300 {
		jobs = append(jobs, job("q", fmt.Sprintf("small-%03d", i)))
	}
	enqueue(t, b, jobs...)
	steps, records := 0, 0
	for req := (broker.ExamineRequest{Now: at(0), Limit: broker.MaxExamine}); ; {
		got, err := b.Examine(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if got.Part == "jobs" {
			steps, records = steps+1, records+got.Records
		}
		if req.Cursor = got.Cursor; req.Cursor == "" {
			break
		}
	}
	if steps > 3 || records != len(jobs) {
		t.Errorf("%d jobs were examined in %d steps, want %d in at most 3", records, steps, len(jobs))
	}
}
