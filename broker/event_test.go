package broker_test

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestSendEvent_TellsWhatWasMissedBeforeTheNewest(t *testing.T) {
	t.Parallel()
	events := make(chan broker.Event, 2)
	for _, id := range []string{"a", "b", "c", "d"} {
		broker.SendEvent(events, broker.Event{Kind: broker.EventSettled, ID: id})
	}
	// c found a and b, d found the news of these, and c.
	if got := <-events; got.Kind != broker.EventMissed || got.Missed != 3 {
		t.Errorf("the watcher first gets %+v, want that it missed 3 events", got)
	}
	if got := <-events; got.ID != "d" || len(events) != 0 {
		t.Errorf("then it gets %+v and %d more, want the newest event alone", got, len(events))
	}
}

func TestWatchRequest_Wants(t *testing.T) {
	t.Parallel()
	all, settled := broker.WatchRequest{}, broker.WatchRequest{Kinds: []broker.EventKind{broker.EventSettled}}
	if !all.Wants(broker.EventCancel) || !settled.Wants(broker.EventSettled) || settled.Wants(broker.EventCancel) {
		t.Error("a request wants other kinds of events than it names; one that names none wants all")
	}
}
