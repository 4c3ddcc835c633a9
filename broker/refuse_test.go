package broker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// Who reads a refusal learns where the job is and what the operation is for.
func TestRefuse_RefusalsSayWhy(t *testing.T) {
	t.Parallel()
	ref := broker.Ref{Queue: "q", ID: "a", Epoch: broker.AnyEpoch}
	seen := broker.Ref{Queue: "q", ID: "a", Epoch: 3}
	decide := func(op broker.Operation, ref broker.Ref, state broker.State, holder string) error {
		done, err := op.Decide(ref, state, 4, holder)
		if done {
			t.Errorf("%v of a job that is %v: it is taken to be done", op.Kind, state)
		}
		return err
	}
	full := map[broker.State]int64{broker.StateDead: 2, broker.StatePending: 1}
	workers := []broker.WorkerInfo{{ID: "w2"}, {ID: "w1"}}
	for _, c := range []struct {
		err  error
		is   error
		hint string
	}{
		{decide(broker.Operation{Kind: broker.OpRedrive}, ref, broker.StateCompleted, ""), broker.ErrWrongState,
			"its state is completed; redrive is for dead jobs"},
		{decide(broker.Operation{Kind: broker.OpReschedule}, ref, broker.StateDead, ""), broker.ErrWrongState,
			"its state is dead; reschedule is for scheduled, pending and retry jobs"},
		{decide(broker.Operation{Kind: broker.OpEdit}, ref, broker.StateWaiting, "w"), broker.ErrWrongState,
			`its state is waiting, held by "w"; edit is for scheduled, pending, retry and dead jobs`},
		{decide(broker.Operation{Kind: broker.OpSuppress}, ref, broker.StateRetry, ""), broker.ErrWrongState,
			"its state is retry; suppress is for dead jobs"},
		{decide(broker.Operation{Kind: broker.OpHold, Holder: "v"}, ref, broker.StateWaiting, "w"), broker.ErrWrongState,
			`its state is waiting, held by "w"; hold is for scheduled, pending and retry jobs`},
		{decide(broker.Operation{Kind: broker.OpDelete, Holder: "v"}, ref, broker.StateWaiting, "w"), broker.ErrWrongState,
			`its state is waiting, held by "w"; only its holder decides about it`},
		{decide(broker.Operation{Kind: broker.OpDelete}, seen, broker.StateWaiting, "w"), broker.ErrWrongState,
			`it changed since it was read, its state is waiting, held by "w"`},
		{decide(broker.Operation{Kind: broker.OpDelete}, seen, broker.StateDead, ""), broker.ErrWrongState,
			"it changed since it was read, its state is dead"},
		{decide(broker.Operation{Kind: broker.OpCancel}, ref, broker.StateActive, ""), nil, ""},
		{decide(broker.Operation{Kind: broker.OpDelete, Holder: "w"}, ref, broker.StateWaiting, "w"), nil, ""},
		{decide(broker.Operation{Kind: broker.OpUnhold}, ref, broker.StateWaiting, broker.Behind("b")), broker.ErrWrongState,
			`its state is waiting, held by "@behind:b"; only its holder decides about it`},
		{decide(broker.Operation{Kind: broker.OpCancel}, ref, broker.StateWaiting, broker.Behind("b")), nil, ""},
		{broker.Held("w"), broker.ErrWrongState, `its state is waiting, held by "w"`},
		{broker.QueueInUse(broker.QueueInfo{Counts: full}), broker.ErrWrongState, "it has jobs: 1 pending, 2 dead"},
		{broker.QueueInUse(broker.QueueInfo{Workers: workers}), broker.ErrWrongState, "it has live workers (2): w1, w2"},
		{broker.QueueInUse(broker.QueueInfo{Workers: append(workers, workers...)}), broker.ErrWrongState,
			"it has live workers (4): w1, w1, w2 and others"},
		{broker.QueueInUse(broker.QueueInfo{Counts: full, Workers: workers[:1]}), broker.ErrWrongState,
			"it has jobs: 1 pending, 2 dead; it has live workers (1): w2"},
		{broker.QueueInUse(broker.QueueInfo{}), broker.ErrWrongState, "it was in use a moment ago"},
		{broker.QueueFull(5, 4), broker.ErrQueueFull, "its depth is 5, its policy's limit is 4"},
		{broker.Duplicate("a", "a"), broker.ErrDuplicate, "the ID exists"},
		{broker.Duplicate("a", "b"), broker.ErrDuplicate, `job "b" holds its unique key`},
	} {
		var e *broker.Error
		switch {
		case c.is == nil:
			if c.err != nil {
				t.Errorf("got %v, want no error", c.err)
			}
		case !errors.Is(c.err, c.is) || !errors.As(c.err, &e) || e.Hint != c.hint:
			t.Errorf("got  %v\nwant %v: %s", c.err, c.is, c.hint)
		}
	}
	again := broker.Operation{Kind: broker.OpHold, Holder: "w"}
	if done, err := again.Decide(seen, broker.StateWaiting, 4, "w"); !done || err != nil {
		t.Errorf("a repeated hold is %v, %v; want that it is done, whatever the epoch", done, err)
	}
	long := broker.Held(strings.Repeat("x", 300))
	if len(long.Error()) > 200 {
		t.Errorf("a long holder floods the log: %v", long)
	}
}
