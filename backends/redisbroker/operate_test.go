package redisbroker

import (
	"errors"
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

// A dead job whose head cannot be read is refused. The other jobs of the call are decided.
func TestOperate_AMalformedHeadAffectsOnlyItsJob(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	enqueue(t, b, job("q", "bad"), job("q", "good"))
	l := &life{t: t, b: b, queue: "q"}
	failure := broker.Failure{Message: "no"}
	die := broker.Die(broker.ReasonRetries, failure)
	l.settle(at(0), "w", claimAt(t, b, at(0), "w", 2, "q").Jobs, die, die)
	if err := c.HSet(t.Context(), b.queue("q").key("h"), "bad", "1,6,nonsense").Err(); err != nil {
		t.Fatal(err)
	}
	results, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpSuppress, Now: at(1),
		Refs: []broker.Ref{{Queue: "q", ID: "bad", Epoch: broker.AnyEpoch}, {Queue: "q", ID: "good", Epoch: broker.AnyEpoch}}})
	if err != nil || !errors.Is(results[0].Err, broker.ErrMalformed) || results[1].Err != nil {
		t.Errorf("got %+v, %v; want ErrMalformed for the first job alone", results, err)
	}
	if is := c.SIsMember(t.Context(), b.queue("q").key("ds"), "bad").Val(); is {
		t.Error("the job that was refused is in the set of suppressed jobs")
	}
}
