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
	watchBuffer = 256 // events a watcher may lag behind
	// Settles tell watchers of a queue for watchSpan after the last word that
	// there are some, which a watcher repeats in good time.
	watchSpan   = time.Minute
	watchRepeat = 20 * time.Second
)

// Watch delivers events of later calls until ctx ends or the broker is closed,
// and closes the channel then. It holds one connection. Events that were sent
// while that connection was lost are told of as one EventMissed, since nobody
// knows their number. §25.
func (b *Broker) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	w := &watcher{broker: b, queues: distinct(req.Queues), kinds: slices.Clone(req.Kinds), events: make(chan broker.Event, watchBuffer)}
	if err := w.announce(ctx); err != nil {
		return nil, broker.About(err, "watch", "", "")
	}
	if err := b.enter(ctx); err != nil {
		return nil, broker.About(err, "watch", "", "")
	}
	listening, err := w.listen(ctx)
	if err != nil {
		b.leave()
		return nil, broker.About(err, "watch", "", "")
	}
	go func() {
		defer b.leave()
		w.deliver(ctx, listening)
	}()
	return w.events, nil
}

// watcher is a call of Watch that goes on.
type watcher struct {
	broker *Broker
	queues []string
	kinds  []broker.EventKind
	events chan broker.Event
}

// announce has settles tell of their jobs for a while. Nobody else has them pay
// for that: a worker, which waits for cancellations, least of all.
func (w *watcher) announce(ctx context.Context) error {
	if !w.wants(broker.EventSettled) {
		return nil
	}
	steps := make([]*step, len(w.queues))
	for i, name := range w.queues {
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

// listen subscribes, and returns once the server has confirmed it.
func (w *watcher) listen(ctx context.Context) (*redis.PubSub, error) {
	var channels []string
	for _, name := range w.queues {
		channel := w.broker.queue(name).channel
		if w.wants(broker.EventSettled) {
			channels = append(channels, channel)
		}
		if w.wants(broker.EventCancel) || len(channels) == 0 {
			channels = append(channels, channel+cancels)
		}
	}
	var sub *redis.PubSub
	if s := &w.broker.store; s.single != nil {
		sub = s.single.Subscribe(ctx, channels...)
	} else {
		sub = s.cluster.Subscribe(ctx, channels...)
	}
	err := await(ctx, func() error {
		for range channels {
			if _, err := sub.ReceiveTimeout(ctx, callTimeout); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		_ = sub.Close() // which also ends the waiting for it
		return nil, notSent(err)
	}
	return sub, nil
}

// deliver reads messages until ctx or the broker ends.
func (w *watcher) deliver(ctx context.Context, sub *redis.PubSub) {
	defer close(w.events)
	messages := make(chan any)
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			m, err := sub.Receive(context.WithoutCancel(ctx))
			if err != nil {
				m = err
			}
			select {
			case messages <- m:
			case <-stop:
				return
			}
		}
	}()
	defer func() {
		close(stop)
		_ = sub.Close() // nothing is left to be told
		<-stopped
	}()
	repeat := time.NewTicker(watchRepeat)
	defer repeat.Stop()
	lost := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.broker.ending.Done():
			return
		case <-repeat.C:
			if err := w.announce(ctx); err != nil && ctx.Err() == nil {
				w.broker.log.Warn("watching is not announced; events may be missing", "error", err)
			}
		case m := <-messages:
			switch m := m.(type) {
			case error:
				lost = true // and the next Receive connects again
				if !pause(ctx, w.broker.ending, time.Second) {
					return
				}
			case *redis.Subscription:
				if lost {
					lost = false
					w.send(broker.Event{Kind: broker.EventMissed, Missed: 1})
				}
			case *redis.Message:
				w.read(m)
			}
		}
	}
}

// pause waits, and reports false when something ended meanwhile.
func pause(ctx, ending context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-ending.Done():
	}
	return false
}

// read takes a message apart: see lib/event.lua.
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

// wants reports whether events of a kind are asked for.
func (w *watcher) wants(kind broker.EventKind) bool {
	return len(w.kinds) == 0 || slices.Contains(w.kinds, kind)
}

// send never waits. When the buffer is full it takes back what is in it, and
// says how much that was: what a watcher missed it learns at once, and the
// events after that are the newest.
func (w *watcher) send(e broker.Event) {
	select {
	case w.events <- e:
		return
	default:
	}
	missed := broker.Event{Kind: broker.EventMissed}
	for {
		select {
		case lost := <-w.events:
			missed.Missed += max(lost.Missed, 1)
			continue
		default:
		}
		break
	}
	if missed.Missed > 0 {
		w.events <- missed
	}
	w.events <- e
}
