package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Shard is one of the stores.
type Shard struct {
	Name   string // routes jobs: it stays the same for as long as the shard has jobs
	Broker broker.Broker

	// From and Until say when the shard takes new jobs: from From on if it is set,
	// and before Until if it is set. It is asked for jobs all the time. See New.
	From, Until time.Time
}

// Broker is a broker over shards; it implements [broker.Broker].
type Broker struct {
	shards []*shard
	routes routes
	limits broker.Limits
	parts  int           // of a limit of a whole queue
	turn   atomic.Uint64 // where the next claim begins

	mu      sync.Mutex
	members map[string]*member // by worker
}

// shard is one of the stores, and what is known of it.
type shard struct {
	Shard
	seed  uint64      // of its name, see routes
	more  atomic.Bool // the last claim left something
	fault fault
}

// New makes a broker over shards, which it closes when it is closed. Their names
// differ, and they have limits in common: what one declines, all decline.
//
// To go from some shards to others while jobs run, every process is started anew
// with both, and with one time for all: From of those that come, Until of those
// that go. It should be later than the last process starts. From then on new jobs go
// to the new shards, but those of a key that has jobs in its old shard follow them.
// A shard that is left is removed once [Broker.Left] says that it has no jobs.
func New(shards ...Shard) (*Broker, error) {
	if len(shards) == 0 {
		return nil, broker.Invalid("shards", "is empty; name at least one")
	}
	b := &Broker{parts: len(shards), members: make(map[string]*member)}
	names := make(map[string]bool, len(shards))
	for _, s := range shards {
		if err := broker.CheckName("shard name", s.Name); err != nil {
			return nil, err
		}
		if s.Broker == nil || names[s.Name] {
			return nil, broker.Invalid("shard", "%q has no broker, or is there twice", s.Name)
		}
		names[s.Name] = true
		b.shards = append(b.shards, &shard{Shard: s, seed: hash(s.Name)})
	}
	var err error
	if b.routes, err = newRoutes(b.shards); err != nil {
		return nil, err
	}
	if b.limits = limitsOf(b.shards); len(shards) > 1 {
		b.limits.Shards = len(shards)
	}
	return b, nil
}

var _ broker.Broker = (*Broker)(nil)

// limitsOf is what the shards can do together.
func limitsOf(shards []*shard) broker.Limits {
	all := shards[0].Broker.Limits()
	for _, s := range shards[1:] {
		l := s.Broker.Limits()
		all.NoPriority, all.NoUnique, all.NoWait = all.NoPriority || l.NoPriority, all.NoUnique || l.NoUnique, all.NoWait || l.NoWait
		all.NoWatch, all.NoMark, all.NoExamine = all.NoWatch || l.NoWatch, all.NoMark || l.NoMark, all.NoExamine || l.NoExamine
		all.NoMove, all.NoFlow = all.NoMove || l.NoMove, all.NoFlow || l.NoFlow
		all.MaxPayload, all.TimeStep = min(all.PayloadLimit(), l.PayloadLimit()), max(all.TimeStep, l.TimeStep)
		all.InProcess = all.InProcess && l.InProcess
	}
	return all
}

// Limits is what the shards have in common, and how many there are.
func (b *Broker) Limits() broker.Limits { return b.limits }

// Shards are those that New was given, for what the stores can do beyond
// broker.Broker.
func (b *Broker) Shards() []Shard {
	all := make([]Shard, len(b.shards))
	for i, s := range b.shards {
		all[i] = s.Shard
	}
	return all
}

// Ping answers the latest time of the shards, beside an error if some are away.
func (b *Broker) Ping(ctx context.Context) (now time.Time, err error) {
	answers := ask(ctx, b.shards, func(s *shard) (time.Time, error) { return s.Broker.Ping(ctx) })
	for _, a := range answers {
		if a.got.After(now) {
			now = a.got
		}
	}
	return now, failed(answers)
}

// Reconnect has all shards use new connections.
func (b *Broker) Reconnect() {
	for _, s := range b.shards {
		s.Broker.Reconnect()
	}
}

// Close closes the shards, at the same time.
func (b *Broker) Close() error {
	return failed(ask(context.Background(), b.shards, func(s *shard) (struct{}, error) { return struct{}{}, s.Broker.Close() }))
}

// answer is what one shard said.
type answer[T any] struct {
	of  *shard
	got T
	err error
}

// ask calls shards at the same time. The answers stand in their order.
func ask[T any](ctx context.Context, shards []*shard, call func(*shard) (T, error)) []answer[T] {
	answers := make([]answer[T], len(shards))
	one := func(i int, s *shard) {
		got, err := call(s)
		answers[i] = answer[T]{s, got, s.note(ctx, err)}
	}
	if len(shards) == 0 {
		return nil
	}
	var others sync.WaitGroup
	for i, s := range shards[1:] {
		others.Go(func() { one(i+1, s) })
	}
	one(0, shards[0])
	others.Wait()
	return answers
}

// failed joins the errors of answers. A refusal, which all shards make alike, stands
// alone.
func failed[T any](answers []answer[T]) error {
	var errs []error
	for _, a := range answers {
		if a.err != nil && !broker.StoreFailed(a.err) {
			return a.err
		}
		errs = append(errs, a.err)
	}
	return errors.Join(errs...)
}

// fault says since when a shard fails and how long claims leave it alone.
type fault struct {
	mu    sync.Mutex
	times int
	until time.Time
}

const (
	shortPause = 500 * time.Millisecond // after a first failure
	longPause  = 8 * time.Second        // after many: what a shard that is back waits at most
)

// note takes an answer of the shard in, and names the shard in an error of its store.
func (s *shard) note(ctx context.Context, err error) error {
	away := broker.StoreFailed(err) && err != nil && !errors.Is(ctx.Err(), context.Canceled)
	s.fault.mu.Lock()
	defer s.fault.mu.Unlock()
	switch {
	case away:
		s.fault.until = time.Now().Add(min(shortPause<<min(s.fault.times, 10), longPause))
		s.fault.times++
	case err == nil && s.fault.times > 0:
		s.fault.times, s.fault.until = 0, time.Time{}
	}
	if away {
		return fmt.Errorf("shard %q: %w", s.Name, err)
	}
	return err
}

// away is how long claims leave the shard alone.
func (s *shard) away() time.Duration {
	s.fault.mu.Lock()
	defer s.fault.mu.Unlock()
	if s.fault.times == 0 {
		return 0
	}
	return time.Until(s.fault.until)
}
