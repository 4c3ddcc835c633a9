package pgbroker

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// A decision about a thousand dead jobs must not hold all of their payloads.
func TestOperate_KeepsNoPayloads(t *testing.T) {
	t.Parallel()
	b := open(t)
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: "q", ID: "a",
		Body:    broker.Body{Type: "t", Priority: broker.PriorityNormal, Payload: make([]byte, 1000)},
		Restore: &broker.Restored{State: broker.StateDead, Head: broker.Head{Reason: broker.ReasonRetries}}}}})
	if err != nil || receipts[0].Err != nil {
		t.Fatal(err, receipts)
	}
	ref := broker.Ref{Queue: "q", ID: "a", Epoch: broker.AnyEpoch}
	o := &operating{b: b.Broker, op: &broker.Operation{Kind: broker.OpRedrive, Refs: []broker.Ref{ref}}, queue: "q",
		results: []*broker.OperationResult{{Ref: ref}}}
	if err := b.transact(t.Context(), func(s session) error { return o.look(t.Context(), s) }); err != nil {
		t.Fatal(err)
	}
	if dead := o.seen["a"].dead; dead.Type != "t" || len(dead.Payload) > 0 {
		t.Errorf("a decision keeps a job of type %q with %d bytes of payload, want the job without payload", dead.Type, len(dead.Payload))
	}
}
