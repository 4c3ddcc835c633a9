package inspect

import (
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// What an undo would take back depends on the destination. To count it writes nothing, not
// even the ID of a store.
func TestMove_HeldJobsAreCountedByDestination(t *testing.T) {
	t.Parallel()
	from, there, elsewhere, fresh := newPlace(membroker.New()), newPlace(membroker.New()), newPlace(membroker.New()), newPlace(membroker.New())
	from.put(t, broker.NewJob{Queue: "default", ID: "x", Body: broker.Body{Type: "t", Priority: 2}})
	m, err := from.mover(t.Context(), "default", Destination{Broker: there.Broker}, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.StoreID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if results, err := from.Operate(t.Context(), broker.Operation{Kind: broker.OpHold, Holder: m.holder,
		Refs: []broker.Ref{{Queue: "default", ID: "x", Epoch: broker.AnyEpoch}}}); err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	for _, c := range []struct {
		to   Destination
		want int
	}{
		{Destination{}, 1}, {Destination{Broker: there.Broker}, 1}, {Destination{Broker: there.Broker, Queue: "other"}, 0},
		{Destination{Broker: elsewhere.Broker}, 0}, {Destination{Broker: fresh.Broker}, 0},
	} {
		if n, err := from.CountHeld(t.Context(), "default", c.to); err != nil || n != c.want {
			t.Errorf("%d jobs are held for %+v, %v; want %d", n, c.to, err, c.want)
		}
	}
	if id, err := fresh.storeID(t.Context(), false); err != nil || id != "" {
		t.Errorf("counting gave a store the ID %q, %v", id, err)
	}
}
