package shardbroker

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Mark asks the shard of the mark's name. That shard stays the same while new shards are
// added, since they get no marks. §24.
func (b *Broker) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	s := highest(b.routes.fixed, hash("mark "+req.Name))
	return askOne(ctx, s, func(s *shard) (broker.Marked, error) { return s.Broker.Mark(ctx, req) })
}

// missingWatch is how long a watcher waits before it asks a shard again that was away.
const missingWatch = 5 * time.Second

// Watch delivers the events of all shards. It succeeds if one of them can be watched,
// and keeps trying the others. §25.
func (b *Broker) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	req.Queues, req.Kinds = slices.Clone(req.Queues), slices.Clone(req.Kinds)
	answers := ask(ctx, b.shards, func(s *shard) (<-chan broker.Event, error) { return s.Broker.Watch(ctx, req) })
	if err := failed(answers); err != nil && (!some(answers) || !broker.StoreFailed(err)) {
		return nil, err
	}
	w := &watcher{events: make(chan broker.Event, 256)}
	var open sync.WaitGroup
	for _, a := range answers {
		open.Go(func() {
			if a.err == nil {
				w.forward(a.got)
				return
			}
			w.join(ctx, b.closed, a.of, req)
		})
	}
	go func() {
		open.Wait()
		close(w.events)
	}()
	return w.events, nil
}

// watcher is a channel to which several shards send.
type watcher struct {
	mu     sync.Mutex
	events chan broker.Event
}

func (w *watcher) forward(from <-chan broker.Event) {
	for e := range from {
		w.mu.Lock()
		broker.SendEvent(w.events, e)
		w.mu.Unlock()
	}
}

// join watches a shard that was away, as soon as the shard answers.
func (w *watcher) join(ctx context.Context, closed <-chan struct{}, s *shard, req broker.WatchRequest) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-closed:
			return
		case <-time.After(missingWatch):
		}
		events, err := s.Broker.Watch(ctx, req)
		if err == nil {
			w.forward(events)
			return
		}
		if !broker.StoreFailed(err) {
			return
		}
	}
}

// Examine examines one shard after the other. Findings name their shard.
func (b *Broker) Examine(ctx context.Context, req broker.ExamineRequest) (broker.Examined, error) {
	if err := req.Check(); err != nil {
		return broker.Examined{}, err
	}
	if b.limits.NoExamine {
		return broker.Examined{}, broker.About(broker.ErrUnsupported, "examine", req.Queue, "")
	}
	i := 0
	if req.Cursor != "" {
		n, rest, _ := strings.Cut(req.Cursor, "\n")
		var err error
		if i, err = strconv.Atoi(n); err != nil || i < 0 || i >= len(b.shards) {
			err = broker.Invalid("cursor", "%.64q belongs to no step of this examination; start with an empty one", req.Cursor)
			return broker.Examined{}, broker.About(err, "examine", req.Queue, "")
		}
		req.Cursor = rest
	}
	s := b.shards[i]
	got, err := askOne(ctx, s, func(s *shard) (broker.Examined, error) { return s.Broker.Examine(ctx, req) })
	if len(b.shards) > 1 {
		for n := range got.Findings {
			got.Findings[n].What = "in shard " + s.Name + ": " + got.Findings[n].What
		}
		got.Part = s.Name + " " + got.Part
	}
	if got.Cursor != "" {
		got.Cursor = strconv.Itoa(i) + "\n" + got.Cursor
	} else if err == nil && i+1 < len(b.shards) {
		got.Cursor = strconv.Itoa(i+1) + "\n"
	}
	return got, err
}
