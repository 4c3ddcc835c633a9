package membroker

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// Store holds jobs in memory. It is used through the brokers that Open
// returns, any number of them at once. Make it with NewStore.
type Store struct {
	mu       sync.Mutex
	at       time.Time // the time of the step that is under way; zero if it has none
	queues   map[string]*queue
	touched  []*queue // queues where a job may have become claimable in this step
	marks    map[string]*mark
	fence    fence
	lapses   lapses
	watchers map[string][]*watcher // by queue
	ahead    time.Duration         // of the store's clock; see Advance

	journal journal.Journal // or nil; see OpenJournal
	noted   []noted         // the records that this step may have changed
}

// NewStore makes an empty store.
func NewStore() *Store {
	return &Store{queues: make(map[string]*queue), marks: make(map[string]*mark), lapses: newLapses(),
		watchers: make(map[string][]*watcher)}
}

// Open returns a new handle on the store. Closing the handle ends its own waiting calls; the
// store and its other handles go on.
func (s *Store) Open() *Broker {
	return &Broker{store: s, waiting: make(map[*waiter]struct{}), watching: make(map[*watcher]struct{})}
}

// New returns a handle on a store of its own.
func New() *Broker { return NewStore().Open() }

// now returns the store's time.
func (s *Store) now() time.Time { return time.Now().Add(s.ahead).UTC() }

// Advance moves the store's clock forward by d, for tests: jobs become due, and leases,
// windows and retentions run out. Waiting claims look again. Handlers and the timers of servers
// still use time.Now. In a testing/synctest bubble use time.Sleep instead. If d is zero or
// less, Advance does nothing.
func (s *Store) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += max(d, 0)
	for _, q := range s.queues {
		for len(q.waiters) > 0 {
			q.waiters[0].wake()
		}
	}
}

// Broker is a handle on a Store; it implements [broker.Broker]. All methods
// may be called concurrently.
type Broker struct {
	store *Store

	// Under the store's mutex.
	closed   bool
	waiting  map[*waiter]struct{}
	watching map[*watcher]struct{}
}

var _ broker.Broker = (*Broker)(nil)

// begin starts an atomic step: it locks the store and reads its clock. If it returns an
// error, the store is not locked, and nothing was done: the handle is closed, the context
// has ended, or the request was refused.
func (b *Broker) begin(ctx context.Context, op string, now time.Time, refused error) (time.Time, error) {
	b.store.mu.Lock()
	if err := cmp.Or(b.usable(ctx, op), refused); err != nil {
		b.store.mu.Unlock()
		return time.Time{}, err
	}
	if now.IsZero() {
		now = b.store.now()
	}
	b.store.at = now.UTC()
	return b.store.at, nil
}

// usable returns an error if the handle is closed or the context has ended.
func (b *Broker) usable(ctx context.Context, op string) error {
	if b.closed {
		return &broker.Error{Op: op, Err: broker.ErrClosed}
	}
	if err := ctx.Err(); err != nil {
		return &broker.Error{Op: op, Err: fmt.Errorf("%w: %w", broker.ErrUnavailable, err)}
	}
	return nil
}

// end ends an atomic step, and wakes waiting claims that may now get a job.
func (b *Broker) end() {
	b.store.wake()
	b.store.record()
	b.store.mu.Unlock()
}

// queue returns a queue, and creates it if it does not exist (§1).
func (s *Store) queue(name string) *queue {
	q := s.queues[name]
	if q == nil {
		q = newQueue(s, name)
		s.queues[name] = q
		q.note(journal.Queues, "")
	}
	return q
}

// Limits says that the store ends with this process. It has no other limit.
func (b *Broker) Limits() broker.Limits { return broker.Limits{InProcess: true} }

// Ping returns the store's time, or ErrClosed once the handle is closed.
func (b *Broker) Ping(ctx context.Context) (time.Time, error) {
	now, err := b.begin(ctx, "ping", time.Time{}, nil)
	if err != nil {
		return time.Time{}, err
	}
	b.end()
	return now, nil
}

// Reconnect does nothing: there are no connections.
func (b *Broker) Reconnect() {}

// Close ends this handle's waiting calls and closes the channels of its
// watches; later calls return ErrClosed. It does not change the store, and
// always returns nil.
func (b *Broker) Close() error {
	b.store.mu.Lock()
	defer b.end()
	b.closed = true
	for w := range b.waiting {
		w.wake()
	}
	for w := range b.watching {
		w.leave()
	}
	return nil
}
