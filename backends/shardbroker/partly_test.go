package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// A job that a call stored while its shard changes has a receipt, even if the shard of all other jobs is away: an error of the whole
// call would say that nothing was stored.
func TestEnqueue_AnswersForAJobThatMovedWhileTheOthersFail(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	b := m.both(func(name string, b broker.Broker) broker.Broker {
		return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if name == "c" && c.Method == "Enqueue" {
				return broker.ErrUnavailable
			}
			return next(ctx)
		})
	})
	var moved, other []broker.NewJob
	for i := 0; len(moved) == 0 || len(other) == 0; i++ {
		j := newJob(fmt.Sprint("j", i))
		switch of := b.routes.of(label(j.ID, &j.Body)); {
		case of[0].Name == "d" && len(of) == 2:
			moved = []broker.NewJob{j} // not its first sending, so the old shard is asked
		case of[0].Name == "c":
			j.FirstSend = true
			other = []broker.NewJob{j}
		}
	}
	got, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: switchAt, Jobs: append(moved, other...)})
	if err != nil || len(got) != 2 {
		t.Fatalf("%d receipts, error %v; want a receipt for each job", len(got), err)
	}
	if got[0].Err != nil || !errors.Is(got[1].Err, broker.ErrUnavailable) {
		t.Errorf("errors %v and %v, want none for the job that was stored, ErrUnavailable for the other", got[0].Err, got[1].Err)
	}
}

// The results of a removal of several queues have those that were removed before a shard was away.
func TestRemoveQueue_AnswersForTheQueuesRemovedBeforeAFailure(t *testing.T) {
	t.Parallel()
	removals := 0
	m := newMoving(t)
	b := opened(t, Shard{Name: "a", Broker: m.stores["a"].Open()}, Shard{Name: "b", Broker: broker.Wrap(m.stores["b"].Open(),
		func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if c.Method == "Operate" {
				removals++
			}
			if removals > 1 {
				return broker.ErrUnavailable
			}
			return next(ctx)
		})})
	op := broker.Operation{Kind: broker.OpRemoveQueue}
	for _, name := range []string{"first", "second"} {
		if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: name, Paused: new(true)}); err != nil {
			t.Fatal(err)
		}
		op.Refs = append(op.Refs, broker.Ref{Queue: name})
	}
	got, err := b.Operate(t.Context(), op)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d results, error %v; want a result for each queue", len(got), err)
	}
	if got[0].Err != nil || !errors.Is(got[1].Err, broker.ErrUnavailable) {
		t.Errorf("errors %v and %v, want none for the queue that is gone, ErrUnavailable for the other", got[0].Err, got[1].Err)
	}
}

// Rules that some shards have, or will get from a server, were not refused: whoever reads the error may not think so.
func TestPolicy_AnErrorSaysWhetherSomethingWasSet(t *testing.T) {
	t.Parallel()
	for name, req := range map[string]broker.PolicyRequest{
		"a pause": {Queue: "q", Paused: new(true)}, "a limit": {Queue: "q", MaxActive: new(int64(40))},
	} {
		for _, all := range []bool{false, true} {
			outages := map[string]*outage{"a": newOutage(), "b": newOutage()}
			b := opened(t, Shard{Name: "a", Broker: outages["a"]}, Shard{Name: "b", Broker: outages["b"]})
			marks := highest(b.routes.fixed, hash("mark "+markOf("max-active", "q"))).Name
			for name, o := range outages {
				o.away.Store(all || name != marks)
			}
			_, err := b.Policy(t.Context(), req)
			if !errors.Is(err, broker.ErrUnavailable) || broker.MayHaveApplied(err) == all {
				t.Errorf("%s, while all shards are away (%v): %v; it may have been applied: %v", name, all, err, broker.MayHaveApplied(err))
			}
		}
	}
}

func TestRemoveQueue_AnErrorSaysWhetherSomethingWasRemoved(t *testing.T) {
	t.Parallel()
	for _, half := range []bool{false, true} {
		other := broker.Wrap(membroker.New(), func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if c.Method == "Operate" || !half && c.Method == "Queues" {
				return broker.ErrUnavailable
			}
			return next(ctx)
		})
		b := opened(t, Shard{Name: "a", Broker: membroker.New()}, Shard{Name: "b", Broker: other})
		if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Paused: new(true)}); err != nil {
			t.Fatal(err)
		}
		_, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpRemoveQueue, Refs: []broker.Ref{{Queue: "q"}}})
		if !errors.Is(err, broker.ErrUnavailable) || broker.MayHaveApplied(err) != half {
			t.Errorf("removed in one shard (%v): %v; it may have been applied: %v", half, err, broker.MayHaveApplied(err))
		}
	}
}
