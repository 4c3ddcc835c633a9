package membroker

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// watchBuffer is how many events a watcher may lag behind before it misses some.
const watchBuffer = 256

// watcher is a Watch that has not ended. Its channel is used only under the store's mutex, for
// sends and for the close.
type watcher struct {
	handle *Broker
	req    broker.WatchRequest
	events chan broker.Event
	stop   func() bool
}

// Watch delivers events of later calls until ctx ends or the handle is closed,
// and closes the channel then. §25.
func (b *Broker) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	if _, err := b.begin(ctx, "watch", time.Time{}, req.Check()); err != nil {
		return nil, err
	}
	defer b.end()
	req.Queues, req.Kinds = slices.Compact(slices.Sorted(slices.Values(req.Queues))), slices.Clone(req.Kinds)
	w := &watcher{handle: b, req: req, events: make(chan broker.Event, watchBuffer)}
	for _, name := range req.Queues {
		b.store.watchers[name] = append(b.store.watchers[name], w)
	}
	b.watching[w] = struct{}{}
	w.stop = context.AfterFunc(ctx, func() {
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		w.leave()
	})
	return w.events, nil
}

// leave ends a watch; ending it again does nothing.
func (w *watcher) leave() {
	if _, on := w.handle.watching[w]; !on {
		return
	}
	delete(w.handle.watching, w)
	s := w.handle.store
	for _, name := range w.req.Queues {
		others := slices.DeleteFunc(s.watchers[name], func(o *watcher) bool { return o == w })
		if s.watchers[name] = others; len(others) == 0 {
			delete(s.watchers, name)
		}
	}
	w.stop()
	close(w.events)
}

// emit sends an event to the watchers of its queue.
func (s *Store) emit(e broker.Event) {
	for _, w := range s.watchers[e.Queue] {
		if w.req.Wants(e.Kind) {
			broker.SendEvent(w.events, e)
		}
	}
}
