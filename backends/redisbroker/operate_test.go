package redisbroker

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// Refs are decided in order, so a job that waits behind an earlier one of the call is decided as what that one's end made of it.
func TestOperate_DecidesAboutAJobBehindAnEarlierOne(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	held := func(id string) broker.NewJob {
		j := job("q", id)
		j.Body.Unique = broker.Unique{Key: "key", Mode: broker.UniqueUntilDone, Conflict: broker.ConflictKeepLast}
		return j
	}
	enqueue(t, b, held("first"))
	got := claimAt(t, b, at(0), "w", 1, "q").Jobs
	enqueue(t, b, held("second"))
	if _, err := b.Settle(t.Context(), broker.SettleRequest{Now: at(0), Worker: "w", Number: 1,
		Items: []broker.Settlement{{Job: &got[0], Outcome: broker.Release()}}}); err != nil {
		t.Fatal(err)
	}
	refs := []broker.Ref{{Queue: "q", ID: "first", Epoch: broker.AnyEpoch}, {Queue: "q", ID: "second", Epoch: broker.AnyEpoch}}
	operate := func(op broker.Operation) []broker.OperationResult {
		t.Helper()
		op.Holder, op.Now = "mover", at(0)
		results, err := b.Operate(t.Context(), op)
		if err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
		return results
	}
	operate(broker.Operation{Kind: broker.OpHold, Refs: refs[:1]})
	second := operate(broker.Operation{Kind: broker.OpDelete, Refs: refs})[1]
	if second.Err != nil || second.State != broker.StateNone || second.Holder != "" {
		t.Errorf("a mover's delete of both: the second is %v, held by %q, %v; want it gone", second.State, second.Holder, second.Err)
	}
}
