package redisbroker

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	watchBuffer = 256 // how many events a watcher may lag behind before it misses some
	// Settles publish events of a queue for watchSpan after a watcher announced itself.
	// Watchers repeat that every watchRepeat, so that one failure does no harm.
	watchSpan   = time.Minute
	watchRepeat = 20 * time.Second
)

// Watch delivers events of later calls until ctx ends or the broker is closed, and then closes the
// channel. All watchers of a broker share one connection. Events that were sent while that
// connection was lost are reported as one EventMissed, since their number is not known. §25.
func (b *Broker) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	req.Queues, req.Kinds = distinct(req.Queues), slices.Clone(req.Kinds)
	w := &watcher{broker: b, req: req, events: make(chan broker.Event, watchBuffer)}
	if err := w.announce(ctx); err != nil {
		return nil, broker.About(err, "watch", "", "")
	}
	if err := b.enter(ctx); err != nil {
		return nil, broker.About(err, "watch", "", "")
	}
	channels := w.channels()
	if err := b.listener.join(ctx, b, w, channels); err != nil {
		b.leave()
		return nil, broker.About(err, "watch", "", "")
	}
	go func() {
		defer b.leave()
		defer close(w.events)
		defer b.listener.leave(w, channels)
		repeat := time.NewTicker(watchRepeat)
		defer repeat.Stop()
		w.attend(ctx, repeat.C)
	}()
	return w.events, nil
}

// watcher is a call of Watch under way.
type watcher struct {
	broker *Broker
	req    broker.WatchRequest
	events chan broker.Event
}

// announce makes settles publish events for a while. Only watchers of settles need that. Publishing
// costs time, and workers wait only for cancellations.
func (w *watcher) announce(ctx context.Context) error {
	if !w.req.Wants(broker.EventSettled) {
		return nil
	}
	steps := make([]*step, len(w.req.Queues))
	for i, name := range w.req.Queues {
		steps[i] = &step{script: watchScript, queues: []string{name}, create: true, now: "0", args: []any{watchSpan.Microseconds()}}
	}
	if err := w.broker.run(ctx, nil, steps...); err != nil {
		return err
	}
	for _, s := range steps {
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

// channels returns the channels that carry the events that the watcher wants.
func (w *watcher) channels() (names []string) {
	for _, name := range w.req.Queues {
		channel := w.broker.channel(name)
		if w.req.Wants(broker.EventSettled) {
			names = append(names, channel)
		}
		if w.req.Wants(broker.EventCancel) || len(names) == 0 {
			names = append(names, channel+cancels)
		}
	}
	return names
}

// attend announces the watcher again at each tick, until ctx or the broker ends.
func (w *watcher) attend(ctx context.Context, repeat <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.broker.ending.Done():
			return
		case <-repeat:
			if err := w.announce(ctx); err != nil && ctx.Err() == nil {
				w.broker.log.Warn("watching is not announced; events may be missing", "error", err)
			}
		}
	}
}

// missed reports that events were sent while the connection was lost.
func (w *watcher) missed() { w.send(broker.Event{Kind: broker.EventMissed, Missed: 1}) }

// read reads a message: see lib/event.lua.
func (w *watcher) read(m *redis.Message) {
	queue, cancel := queueOfChannel(w.broker.config.Prefix, m.Channel)
	if cancel {
		w.send(broker.Event{Kind: broker.EventCancel, Queue: queue, ID: m.Payload, State: broker.StateActive})
		return
	}
	for line := range strings.SplitSeq(m.Payload, "\n") {
		if len(line) > 1 {
			w.send(broker.Event{Kind: broker.EventSettled, Queue: queue, ID: line[1:], State: broker.State(line[0] - '0')})
		}
	}
}

func (w *watcher) send(e broker.Event) { broker.SendEvent(w.events, e) }
