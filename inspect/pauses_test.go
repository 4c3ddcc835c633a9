package inspect_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func TestInspector_NotesWhoPausedAQueueAndWhen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		defer b.Close()
		i, ctx := inspect.New(b), t.Context()
		note := func() string {
			t.Helper()
			n, known, err := i.PauseNote(ctx, "mail")
			if err != nil {
				t.Fatal(err)
			}
			if !known {
				return "nothing"
			}
			return fmt.Sprintf("%t by %q at %s", n.Paused, n.By, n.At.Format("15:04"))
		}
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now().UTC()
		at := func(minutes int) string { return begin.Add(time.Duration(minutes) * time.Minute).Format("15:04") }
		if got := note(); got != "nothing" {
			t.Errorf("of a queue that nobody paused: %s", got)
		}
		ok(i.As("ada").Pause(ctx, "mail"))
		time.Sleep(time.Minute)
		ok(i.As("bob").Pause(ctx, "mail")) // it is paused already
		depth := int64(10)
		_, err := i.As("eve").SetPolicy(ctx, inspect.PolicyRequest{Queue: "mail", MaxDepth: &depth})
		ok(err)
		ok(i.As("eve").PauseKey(ctx, "mail", "acme"))
		if got, want := note(), `true by "ada" at `+at(0); got != want {
			t.Errorf("after a pause: %s, want %s", got, want)
		}
		time.Sleep(time.Minute)
		ok(i.Resume(ctx, "mail"))
		if got, want := note(), `false by "" at `+at(2); got != want {
			t.Errorf("after somebody resumed it: %s, want %s", got, want)
		}
	})
}

func TestInspector_EndTimesAreThoseOfTheNewestRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		defer b.Close()
		i, ctx := inspect.New(b), t.Context()
		_, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"mail"}, Lease: time.Hour, Register: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := i.EndTimes(ctx, "mail"); err != nil || got.Jobs != 0 {
			t.Errorf("without jobs: %+v, %v", got, err)
		}
		for n := range 100 { // the first is due after a minute, which does not count
			j := broker.NewJob{Queue: "mail", ID: fmt.Sprint(n),
				Body: broker.Body{Type: "t", Priority: broker.PriorityNormal, Retention: 24 * time.Hour}}
			if n == 0 {
				j.Delay, j.Body.DueAfter = time.Minute, time.Minute
			}
			if _, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{j}}); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				time.Sleep(time.Minute)
			}
			time.Sleep(time.Duration(n+1) * time.Millisecond)
			got, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "mail", Max: 1}}, Max: 1})
			if err != nil || len(got.Jobs) != 1 {
				t.Fatalf("claimed %d jobs: %v", len(got.Jobs), err)
			}
			if _, err := b.Settle(ctx, broker.SettleRequest{Worker: "w", Number: int64(n + 1),
				Items: []broker.Settlement{{Job: &got.Jobs[0], Outcome: broker.Complete(nil)}}}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := i.EndTimes(ctx, "mail")
		if err != nil || got.Jobs != 100 || got.P50 != 50*time.Millisecond || got.P95 != 95*time.Millisecond || got.P99 != 99*time.Millisecond {
			t.Errorf("the times are %+v (error %v), want 50, 95 and 99 ms of 100 jobs", got, err)
		}
	})
}
