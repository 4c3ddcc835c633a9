package pgbroker

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	// watchBuffer is how many events a watcher may lag behind before it misses some.
	watchBuffer = 256

	// Settles publish events only while a queue is marked as watched, since that costs each
	// settle another transaction. Servers watch only requests to cancel, which need no mark. A
	// mark lasts for several renewals, but ends soon after its watcher died.
	watchMark  = time.Minute
	watchRenew = 20 * time.Second

	// A watcher that cannot listen reads the events after the last one that it saw. It also
	// reads some earlier ones, since an event may be committed after events with higher numbers.
	watchLookBack = 1000
	watchPage     = 1000
)

// Watch delivers events until ctx ends or the broker is closed. It returns when the broker
// listens and the queues are marked as watched, so that it sees all later settles. §25.
func (b *Broker) Watch(ctx context.Context, req broker.WatchRequest) (_ <-chan broker.Event, err error) {
	defer about(&err, "watch", "")
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return nil, err
	}
	req.Queues, req.Kinds = distinct(req.Queues), slices.Clone(req.Kinds)
	w := &watcher{req: req, events: make(chan broker.Event, watchBuffer)}
	if !b.polls() {
		if err := b.listener.await(ctx); err != nil {
			return nil, err
		}
	}
	var last int64
	if err := b.run(ctx, append(b.watchMarks(w), b.step("watch_last", one(&last)))...); err != nil {
		return nil, err
	}
	b.watchers.add(w)
	b.tasks.start(func(closing context.Context) {
		defer b.watchers.remove(w)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(closing, cancel)()
		switch {
		case b.polls():
			b.pollEvents(ctx, w, last)
		case w.req.Wants(broker.EventSettled):
			b.keepWatching(ctx, w)
		default:
			<-ctx.Done()
		}
	})
	if err := b.usable(ctx); err != nil {
		b.watchers.remove(w) // the broker was closed in between, so the task did not start
		return nil, err
	}
	return w.events, nil
}

// watchMarks returns the steps that mark a watcher's queues, if they need a mark.
func (b *Broker) watchMarks(w *watcher) []step {
	if !w.req.Wants(broker.EventSettled) {
		return nil
	}
	return []step{b.step("watch_mark", nil, w.req.Queues, watchMark.Microseconds(), b.polls())}
}

// keepWatching renews the marks of the queues. If a renewal fails, the next one sets them again;
// events in between may be lost.
func (b *Broker) keepWatching(ctx context.Context, w *watcher) {
	tick := time.NewTicker(watchRenew)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.run(ctx, b.watchMarks(w)...)
		case <-ctx.Done():
			return
		}
	}
}

// pollEvents reads events where the broker cannot listen.
func (b *Broker) pollEvents(ctx context.Context, w *watcher, last int64) {
	seen := make(map[int64]bool)
	first := last
	renewed := time.Now()
	timer := time.NewTimer(pollFirst)
	defer timer.Stop()
	for pause := pollFirst; ; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		var steps []step
		if time.Since(renewed) > watchRenew {
			renewed = time.Now()
			steps = b.watchMarks(w)
		}
		found := 0
		err := b.run(ctx, append(steps, b.step("watch_events", each(func(r rows) error {
			var id int64
			var payload string
			err := r.Scan(&id, &payload)
			if err == nil && !seen[id] {
				found++
				seen[id], last = true, max(last, id)
				kind, rest, _ := strings.Cut(payload, "\n")
				queue, rest, _ := strings.Cut(rest, "\n")
				w.tell(kind, queue, rest)
			}
			return err
		}), max(first, last-watchLookBack), watchLookBack+watchPage))...)
		for id := range seen {
			if id <= last-watchLookBack {
				delete(seen, id)
			}
		}
		if pause = min(pause*3/2, pollSoon); found > 0 || err != nil && pause < pollSoon {
			pause = pollFirst
		}
		timer.Reset(jitter(pause))
	}
}

// watchers has the watchers of one broker.
type watchers struct{ all sync.Map }

func (s *watchers) add(w *watcher) { s.all.Store(w, nil) }

// remove ends a watcher; removing it again does nothing.
func (s *watchers) remove(w *watcher) {
	s.all.Delete(w)
	w.close()
}

func (s *watchers) tell(kind, queue, lines string) {
	for w := range s.all.Range {
		w.(*watcher).tell(kind, queue, lines)
	}
}

// missed tells all watchers that the connection was lost, and that events may have been missed.
func (s *watchers) missed() {
	for w := range s.all.Range {
		w.(*watcher).send(broker.Event{Kind: broker.EventMissed, Missed: 1})
	}
}

// watcher is one call of Watch.
type watcher struct {
	req broker.WatchRequest

	mu     sync.Mutex
	closed bool
	events chan broker.Event
}

// tell delivers the events of a notification.
func (w *watcher) tell(kind, queue, lines string) {
	e := broker.Event{Kind: broker.EventSettled, Queue: queue}
	if kind == cancelKind {
		e.Kind = broker.EventCancel
	}
	if !slices.Contains(w.req.Queues, queue) || !w.req.Wants(e.Kind) {
		return
	}
	for line := range strings.SplitSeq(lines, "\n") {
		state, id, _ := strings.Cut(line, " ")
		n, err := strconv.ParseUint(state, 10, 8)
		if err != nil {
			continue // an event of a newer release
		}
		e.State, e.ID = broker.State(n), id
		w.send(e)
	}
}

func (w *watcher) send(e broker.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		broker.SendEvent(w.events, e)
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.events)
	}
}

// eventBytes bounds a notification; the server takes 8000 bytes at most.
const eventBytes = 7000

// events are notifications about jobs of one queue, as dispatch reads them.
type events struct {
	head     string
	payloads []string
}

func newEvents(kind, queue string) *events { return &events{head: kind + "\n" + queue} }

func (e *events) add(state broker.State, id string) {
	line := "\n" + strconv.Itoa(int(state)) + " " + id
	if n := len(e.payloads); n > 0 && len(e.payloads[n-1])+len(line) <= eventBytes {
		e.payloads[n-1] += line
	} else {
		e.payloads = append(e.payloads, e.head+line)
	}
}

// tell publishes events to watchers, after the transaction that caused the events. Events are
// hints: if they cannot be sent, they are lost. With always, they are sent even if no watcher
// is known.
func (b *Broker) tell(ctx context.Context, queue string, e *events, always bool) {
	if len(e.payloads) > 0 {
		b.run(ctx, b.step("tell", nil, b.channel, queue, e.payloads, always))
	}
}
