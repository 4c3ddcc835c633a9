package membroker

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestWatch_ASlowWatcherLearnsHowManyEventsItMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q", "q"}, Kinds: []broker.EventKind{broker.EventSettled}})
		if err != nil {
			t.Fatal(err)
		}
		const sent = 3*watchBuffer + 10
		for i := range sent {
			enqueue(t, b, newTestJob("q", strconv.Itoa(i)))
			operate(t, b, broker.OpCancel, time.Now(), strconv.Itoa(i))
		}
		synctest.Wait()
		var received, missed int64
		var last string
		for received+missed < sent {
			select {
			case e := <-events:
				if e.Kind == broker.EventMissed {
					missed += e.Missed
				} else {
					received, last = received+1, e.ID
				}
				continue
			default:
			}
			break
		}
		if received+missed != sent || received == 0 || missed == 0 {
			t.Errorf("of %d events %d came and %d were reported as missed", sent, received, missed)
		}
		if last != strconv.Itoa(sent-1) {
			t.Errorf("the last event to come was that of job %s, want the newest, %d", last, sent-1)
		}
	})
}

func TestWatch_AWatchEndsWithItsContextAndLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		events, err := b.Watch(ctx, broker.WatchRequest{Queues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if e, open := <-events; open {
			t.Errorf("an event came from nowhere: %+v", e)
		}
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		if len(b.store.watchers) > 0 || len(b.watching) > 0 {
			t.Errorf("the store still knows watchers %v, the handle %v", b.store.watchers, b.watching)
		}
	})
}
