package shardbroker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestPolicy_LimitsOfAQueueAreDividedExactly(t *testing.T) {
	t.Parallel()
	b, ctx, now := named(t, "a", "b", "c"), t.Context(), time.Unix(1_800_000_000, 0)
	got, err := b.Policy(ctx, broker.PolicyRequest{Queue: "q", MaxActive: new(int64(8)), MaxDepth: new(int64(31)),
		Rate: &broker.Rate{Jobs: 10, Per: time.Second, Burst: 2}, KeyMaxActive: new(int64(2)), RetainDead: &broker.Retention{Count: 7}})
	want := broker.Policy{MaxActive: 8, MaxDepth: 31, Rate: broker.Rate{Jobs: 10, Per: time.Second, Burst: 2}, KeyMaxActive: 2,
		RetainDead: broker.Retention{Count: 7}}
	if err != nil || got != want {
		t.Errorf("the policy is %+v, %v; want %+v", got, err, want)
	}
	for _, r := range []broker.PolicyRequest{{MaxActive: new(int64(2))}, {MaxDepth: new(int64(1))}, {MaxBytes: new(int64(2))},
		{Rate: &broker.Rate{Jobs: 2, Per: time.Second}}, {RetryRate: &broker.Rate{Jobs: 1, Per: time.Second}},
		{RetainDead: &broker.Retention{Count: 2}}, {RetainCompleted: &broker.Retention{Count: 1}}} {
		r.Queue = "q"
		if _, err := b.Policy(ctx, r); !errors.Is(err, broker.ErrUnsupported) {
			t.Errorf("a limit of less than one a shard: %v, want ErrUnsupported", err)
		}
	}
	if got, err := b.Policy(ctx, broker.PolicyRequest{Queue: "q"}); err != nil || got != want {
		t.Errorf("after what was refused the policy is %+v, %v; want %+v", got, err, want)
	}
	accepted := 0
	for i := range 200 {
		switch r := send(t, b, now, newJob(fmt.Sprint("j", i))); {
		case r.Err == nil:
			accepted++
		case !errors.Is(r.Err, broker.ErrQueueFull):
			t.Fatal(r.Err)
		}
	}
	if accepted != 31 {
		t.Errorf("%d jobs were accepted, the queue's limit is 31", accepted)
	}
	if _, err := b.Policy(ctx, broker.PolicyRequest{Queue: "q", Rate: &broker.Rate{Jobs: broker.NoLimit}}); err != nil {
		t.Fatal(err)
	}
	w := &runner{t: t, b: b, queue: "q"}
	w.register(now)
	claimed := 0
	for range 10 {
		got, err := b.Claim(ctx, broker.ClaimRequest{Now: now, Worker: "w", Max: 5, Queues: []broker.Share{{Queue: "q", Max: 5}}})
		if err != nil {
			t.Fatal(err)
		}
		claimed += len(got.Jobs)
	}
	if claimed != 8 {
		t.Errorf("%d jobs are active, the queue's limit is 8", claimed)
	}
}
