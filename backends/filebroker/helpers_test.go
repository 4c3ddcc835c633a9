package filebroker

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), "jobs.db") }

// openTest opens a file and closes it at the end of the test.
func openTest(t *testing.T, path string) *Broker {
	t.Helper()
	b, err := Open(path)
	if err != nil {
		t.Fatalf("opening %s: %v", path, err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func register(b *Broker, worker string) error {
	_, err := b.Renew(context.Background(), broker.RenewRequest{Worker: worker, Queues: []string{"q"}, Lease: time.Hour, Register: true})
	return err
}

// enqueue stores jobs whose records are kept after they complete.
func enqueue(ctx context.Context, b *Broker, ids ...string) error {
	var req broker.EnqueueRequest
	for _, id := range ids {
		req.Jobs = append(req.Jobs, broker.NewJob{Queue: "q", ID: id, Body: broker.Body{Type: "t", Payload: []byte("payload of " + id),
			Priority: broker.PriorityNormal, Retention: time.Hour, GivenID: true}})
	}
	receipts, err := b.Enqueue(ctx, req)
	for _, r := range receipts {
		if err == nil {
			err = r.Err
		}
	}
	return err
}

func claim(b *Broker, worker string, most int) (broker.Claimed, error) {
	return b.Claim(context.Background(), broker.ClaimRequest{Worker: worker, Max: most, Queues: []broker.Share{{Queue: "q", Max: most}}})
}

func complete(b *Broker, worker string, number int64, jobs []broker.Job) error {
	req := broker.SettleRequest{Worker: worker, Number: number}
	for i := range jobs {
		req.Items = append(req.Items, broker.Settlement{Job: &jobs[i], Outcome: broker.Complete(nil)})
	}
	verdicts, err := b.Settle(context.Background(), req)
	for _, v := range verdicts {
		if err == nil {
			err = v.Err
		}
	}
	return err
}

// found returns the states of the given jobs, without those that do not exist.
func found(t *testing.T, b *Broker, ids ...string) map[string]broker.State {
	t.Helper()
	states := make(map[string]broker.State)
	for some := range slices.Chunk(ids, 1000) {
		page, err := b.Find(t.Context(), broker.Query{Queue: "q", IDs: some, Limit: len(some)})
		if err != nil {
			t.Fatalf("finding: %v", err)
		}
		for _, j := range page.Jobs {
			if states[j.ID] = j.State; string(j.Payload) != "payload of "+j.ID {
				t.Errorf("job %s has the payload %q", j.ID, j.Payload)
			}
		}
	}
	return states
}

// consistent fails the test if stored data contradict each other.
func consistent(t *testing.T, b *Broker) {
	t.Helper()
	if found, err := examinetest.All(t.Context(), b, broker.ExamineRequest{Limit: 1000}, nil); err != nil || len(found) > 0 {
		t.Fatalf("an examination finds %+v, %v", found, err)
	}
}
