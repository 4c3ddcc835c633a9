package faulty_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

func enqueue(b broker.Broker, id string) error {
	_, err := b.Enqueue(context.Background(), broker.EnqueueRequest{Jobs: []broker.NewJob{
		{Queue: "q", ID: id, Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}}}})
	return err
}

func stored(t *testing.T, b broker.Broker) []string {
	t.Helper()
	page, err := b.Find(context.Background(), broker.Query{Queue: "q", State: broker.StatePending})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, j := range page.Jobs {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestFaults_BefallTheCallsThePlanNames(t *testing.T) {
	t.Parallel()
	inner := membroker.New()
	defer inner.Close()
	b := faulty.Wrap(inner, faulty.Plan{
		{Method: "Enqueue", Call: 2, Fault: faulty.Unavailable},
		{Method: "Enqueue", Call: 3, Fault: faulty.ReplyLost},
		{Method: "Ping", Fault: faulty.Unavailable},
	})
	for i, want := range []error{nil, broker.ErrUnavailable, faulty.ErrReplyLost, nil} {
		if err := enqueue(b, string(rune('a'+i))); !errors.Is(err, want) {
			t.Errorf("Enqueue %d: error %v, want %v", i+1, err, want)
		}
	}
	if got, want := stored(t, inner), []string{"a", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("stored %v, want %v: the second call must not arrive, the third must", got, want)
	}
	for range 2 {
		if _, err := b.Ping(t.Context()); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("Ping: error %v, want %v each time", err, broker.ErrUnavailable)
		}
	}
	if broker.MayHaveApplied(broker.ErrUnavailable) || !broker.MayHaveApplied(faulty.ErrReplyLost) {
		t.Error("a call that was not made must be known as such, one whose reply is lost must not")
	}
	if got := b.Calls("Enqueue"); got != 4 {
		t.Errorf("Calls counts %d enqueues, want 4", got)
	}
	b.Set(nil)
	if _, err := b.Ping(t.Context()); err != nil || b.Calls("Enqueue") != 0 {
		t.Errorf("after the plan was taken back: Ping error %v, %d calls counted; want none", err, b.Calls("Enqueue"))
	}
}

func TestFaults_ASlowCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := membroker.New()
		defer inner.Close()
		b := faulty.Wrap(inner, faulty.Plan{{Fault: faulty.Slow(time.Minute)}})
		start := time.Now()
		if _, err := b.Ping(t.Context()); err != nil || time.Since(start) != time.Minute {
			t.Errorf("Ping took %v and answered %v, want a minute and nil", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Enqueue(ctx, broker.EnqueueRequest{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Enqueue past its deadline: error %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

func TestFaults_ACutAnswerLosesItsSecondHalf(t *testing.T) {
	t.Parallel()
	inner := membroker.New()
	defer inner.Close()
	b := faulty.Wrap(inner, faulty.Plan{{Fault: faulty.ReplyCut}})
	var jobs []broker.NewJob
	for _, id := range []string{"a", "b", "c"} {
		jobs = append(jobs, broker.NewJob{Queue: "q", ID: id, Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}})
	}
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs})
	if err != nil || receipts[0].Err != nil || !errors.Is(receipts[1].Err, faulty.ErrReplyLost) ||
		!errors.Is(receipts[2].Err, faulty.ErrReplyLost) {
		t.Errorf("Enqueue: %+v, error %v; want the first receipt and two that are unknown", receipts, err)
	}
	if got := stored(t, inner); len(got) != 3 {
		t.Errorf("stored %v, want all three: the call was made", got)
	}
	if _, err := inner.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Minute,
		Register: true}); err != nil {
		t.Fatal(err)
	}
	got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 3, Queues: []broker.Share{{Queue: "q", Max: 3}}})
	if len(got.Jobs) != 1 || !errors.Is(err, faulty.ErrReplyLost) {
		t.Errorf("Claim: %d jobs, error %v; want one of three, beside the error", len(got.Jobs), err)
	}
	settle := broker.SettleRequest{Worker: "w", Number: 1, Items: []broker.Settlement{{Job: &got.Jobs[0], Outcome: broker.Complete(nil)}}}
	if verdicts, err := b.Settle(t.Context(), settle); len(verdicts) != 0 || !errors.Is(err, faulty.ErrReplyLost) {
		t.Errorf("Settle of one job: %+v, error %v; want no verdict: an answer of one part is lost as a whole", verdicts, err)
	}
	b.Set(nil)
	if verdicts, err := b.Settle(t.Context(), settle); err != nil || verdicts[0].Err != nil {
		t.Errorf("the same Settle again: %+v, error %v; want the verdict that was lost", verdicts, err)
	}
}

func TestFaults_ACallTimesOutBeforeOrAfterTheStoreAppliedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := membroker.New()
		defer inner.Close()
		b := faulty.Wrap(inner, faulty.Plan{
			{Method: "Enqueue", Call: 1, Fault: faulty.Slow(time.Minute)},
			{Method: "Enqueue", Call: 2, Fault: faulty.SlowReply(time.Minute)},
			{Method: "Claim", Fault: faulty.Expire(time.Second)},
		})
		for _, id := range []string{"before", "after"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: "q", ID: id,
				Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}}}})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Enqueue of %s: error %v, want %v", id, err, context.DeadlineExceeded)
			}
		}
		if got := stored(t, inner); !slices.Equal(got, []string{"after"}) {
			t.Errorf("stored %v, want the job of the second call alone", got)
		}
		if _, err := inner.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"other"}, Lease: time.Hour,
			Register: true}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 1, Queues: []broker.Share{{Queue: "other", Max: 1}},
			Wait: time.Minute})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Claim: error %v after %v, want the store's own answer to a context that ends after a second", err, time.Since(start))
		}
	})
}
