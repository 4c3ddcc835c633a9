package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// An answer that was lost changes nothing: the repeat says what became of the job.
func TestClient_ALostAnswerOfAReplacedJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := membroker.NewStore()
		b := store.Open()
		defer b.Close()
		plain := NewClient(b, ClientConfig{})
		defer plain.Close()
		task := func(payload string) *Task {
			return NewTask("sync", []byte(payload), WithUniqueKey("k"), WithUniqueKeepLast())
		}
		first, err := plain.Enqueue(t.Context(), task("1"))
		if err != nil {
			t.Fatal(err)
		}
		lossy := NewClient(faulty.Wrap(store.Open(), faulty.Plan{{Method: "Enqueue", Call: 1, Fault: faulty.ReplyLost}}), ClientConfig{})
		defer lossy.Close()
		info, err := lossy.Enqueue(t.Context(), task("2"))
		if err != nil || !info.Replaced || info.ID != first.ID {
			t.Errorf("the job whose first answer was lost: %+v, %v; want it replaced into %s", info, err, first.ID)
		}
		page, err := b.Find(context.Background(), broker.Query{Queue: first.Queue, IDs: []string{first.ID}})
		if err != nil || len(page.Jobs) != 1 || string(page.Jobs[0].Payload) != "2" {
			t.Errorf("the store has %+v, %v; want one job with payload 2", page.Jobs, err)
		}
	})
}

// JobInfo says which job has the payload, and after which one it runs.
func TestClient_TellsWhatBecameOfAJobThatMetAHeldKey(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	c := NewClient(b, ClientConfig{})
	defer c.Close()
	ctx := t.Context()
	key := WithUniqueKey("k")
	first, err := c.Enqueue(ctx, NewTask("sync", nil, key))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{first.Queue}, Lease: time.Hour, Register: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Max: 1, Queues: []broker.Share{{Queue: first.Queue, Max: 1}}}); err != nil ||
		len(got.Jobs) != 1 {
		t.Fatal(got, err)
	}
	if info, err := c.Enqueue(ctx, NewTask("sync", nil, key, WithUniqueReplace())); !errors.Is(err, ErrDuplicate) || info.ID != first.ID {
		t.Errorf("a job that would replace a running one: %+v, %v; want ErrDuplicate and %s", info, err, first.ID)
	}
	receipts, err := c.EnqueueMany(ctx, []*Task{NewTask("sync", []byte("2"), key, WithUniqueKeepLast()),
		NewTask("sync", []byte("3"), key, WithUniqueDebounce(time.Minute, time.Hour))})
	if err != nil || len(receipts) != 2 {
		t.Fatal(receipts, err)
	}
	if r := receipts[0]; r.State != StateWaiting || r.Behind != first.ID || r.Replaced {
		t.Errorf("a job that keeps the last beside a running one: %+v; want it waiting behind %s", r, first.ID)
	}
	if r := receipts[1]; r.State != StateWaiting || !r.Replaced || r.ID != receipts[0].ID || r.RunAt.IsZero() {
		t.Errorf("the next one: %+v; want it replaced into %s, due in a minute", r, receipts[0].ID)
	}
}
