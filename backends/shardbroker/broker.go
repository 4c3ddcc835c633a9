package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// Shard is one of the stores.
type Shard struct {
	Name   string // decides which jobs the shard gets, so it must not change while the shard has jobs
	Broker broker.Broker

	// From and Until bound the time in which the shard takes new jobs; zero means no
	// bound. Claims ask the shard at all times. See New.
	From, Until time.Time

	// NoMarks says that the shard joined by an earlier change, which is over. Marks stay in the other shards,
	// where they were before that change.
	NoMarks bool
}

// Broker is a broker over shards; it implements [broker.Broker].
type Broker struct {
	shards []*shard
	routes routes
	limits broker.Limits
	parts  int           // the number of parts into which a limit of a whole queue is divided
	turn   atomic.Uint64 // a counter, from which each claim takes the shard to begin with
	lender *lender
	clock  clock
	closed chan struct{} // closed with the broker, by end
	end    func()

	mu      sync.Mutex
	members map[string]*member               // by worker
	strays  map[string]map[broker.Ref]*shard // by worker: the jobs that it has from another shard than that of their label
}

// shard is one of the stores, with what this process knows of it.
type shard struct {
	Shard
	seed  uint64                    // the hash of its name, see routes
	idle  atomic.Pointer[time.Time] // until then claims ask it last; nil if the last one left something
	fault fault
}

// New makes a broker over shards, whose names and stores must differ. Closing the broker closes the
// shards. A feature that one shard does not have, the whole broker does not have.
//
// To change the shards while jobs run, restart every process with the old and the new
// shards. Set the same time as From of all new shards and as Until of all shards to remove.
// Choose a time by which all processes have restarted. From then on new jobs go to the new
// shards, except jobs of a key that still has jobs in its old shard. Remove a shard once
// [Broker.Left] says that it has no jobs. When the jobs that were there at that time have
// ended, set NoMarks of the new shards instead of From.
func New(shards ...Shard) (*Broker, error) {
	if len(shards) == 0 {
		return nil, broker.Invalid("shards", "is empty; name at least one")
	}
	b := &Broker{parts: len(shards), members: make(map[string]*member), strays: make(map[string]map[broker.Ref]*shard)}
	names := make(map[string]bool, len(shards))
	for _, s := range shards {
		if err := broker.CheckName("shard name", s.Name); err != nil {
			return nil, err
		}
		if guard.IsNil(s.Broker) {
			return nil, broker.Invalid("shard", "%q has no broker; open its store and set Broker", s.Name)
		}
		if names[s.Name] {
			return nil, broker.Invalid("shard", "%q is there twice; give each store a name of its own", s.Name)
		}
		if slices.ContainsFunc(b.shards, func(o *shard) bool { return reflect.ValueOf(o.Broker).Comparable() && o.Broker == s.Broker }) {
			return nil, broker.Invalid("shard", "%q has the broker of another shard; give each a store of its own", s.Name)
		}
		names[s.Name] = true
		b.shards = append(b.shards, &shard{Shard: s, seed: hash(s.Name)})
	}
	slices.SortStableFunc(b.shards, func(x, y *shard) int { return x.From.Compare(y.From) }) // old shards first: see whole and alignQueue
	var err error
	if b.routes, err = newRoutes(b.shards); err != nil {
		return nil, err
	}
	if b.limits = limitsOf(b.shards); len(shards) > 1 {
		b.limits.Shards = len(shards)
	}
	b.lender = newLender(b)
	b.closed = make(chan struct{})
	b.end = sync.OnceFunc(func() { close(b.closed) })
	return b, nil
}

var _ broker.Broker = (*Broker)(nil)

// limitsOf returns the limits of all shards together.
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

// Limits returns the limits of all shards together, and their number.
func (b *Broker) Limits() broker.Limits { return b.limits }

// Shards returns the shards that New was given. Use it for features of a backend that
// broker.Broker does not have.
func (b *Broker) Shards() []Shard {
	all := make([]Shard, len(b.shards))
	for i, s := range b.shards {
		all[i] = s.Shard
	}
	return all
}

// Ping returns the latest time of the shards, and an error if some shards are away.
func (b *Broker) Ping(ctx context.Context) (now time.Time, err error) {
	answers := ask(ctx, b.shards, func(s *shard) (time.Time, error) { return s.Broker.Ping(ctx) })
	for _, a := range answers {
		now = later(now, a.got)
	}
	return now, failed(answers)
}

// Reconnect makes all shards use new connections.
func (b *Broker) Reconnect() {
	for _, s := range b.shards {
		s.Broker.Reconnect()
	}
}

// Close closes the shards, at the same time.
func (b *Broker) Close() error {
	b.end()
	b.lender.end()
	return failed(ask(context.Background(), b.shards, func(s *shard) (struct{}, error) { return struct{}{}, s.Broker.Close() }))
}

// answer is the answer of one shard.
type answer[T any] struct {
	of  *shard
	got T
	err error
}

// ask calls shards at the same time. It returns the answers in the order of the shards.
func ask[T any](ctx context.Context, shards []*shard, call func(*shard) (T, error)) []answer[T] {
	answers := make([]answer[T], len(shards))
	one := func(i int, s *shard) {
		late := ctx.Err() != nil // then no shard is to blame
		got, err := call(s)
		if !late {
			err = s.note(ctx, err)
		}
		answers[i] = answer[T]{s, got, err}
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

// askOne calls one shard.
func askOne[T any](ctx context.Context, s *shard, call func(*shard) (T, error)) (T, error) {
	a := ask(ctx, []*shard{s}, call)[0]
	return a.got, a.err
}

// among returns those shards for which a call has something.
func among[T any](shards []*shard, has map[*shard]T) []*shard {
	return slices.DeleteFunc(slices.Clone(shards), func(s *shard) bool { _, ok := has[s]; return !ok })
}

// failed joins the errors of answers. If a shard refused the request, failed returns that
// error alone, since all shards refuse the same requests.
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

// some reports whether a shard answered without an error.
func some[T any](answers []answer[T]) bool {
	return slices.ContainsFunc(answers, func(a answer[T]) bool { return a.err == nil })
}

// errBegun is joined to the errors of shards, since such an error alone may say that nothing was applied.
var errBegun = errors.New("a part of the call has taken effect, or will; repeat it")

// begun returns the error of a call that a shard refused or did not answer, after others have done their part.
func begun(part bool, err error) error {
	if part && broker.StoreFailed(err) {
		return errors.Join(err, errBegun)
	}
	return err
}

// fault counts the failures of a shard, and knows until when claims must not ask it.
type fault struct {
	mu    sync.Mutex
	times int
	until time.Time
	hung  bool // the last failure was no answer in time
}

const (
	shortPause = 500 * time.Millisecond // after a first failure
	longPause  = 8 * time.Second        // after many: the longest time that claims ignore a shard that is back
)

// note records whether the shard answered, and names the shard in an error of its store.
func (s *shard) note(ctx context.Context, err error) error {
	away := broker.StoreFailed(err) && err != nil && !errors.Is(ctx.Err(), context.Canceled)
	s.fault.mu.Lock()
	defer s.fault.mu.Unlock()
	switch {
	case away:
		s.fault.until = time.Now().Add(min(shortPause<<min(s.fault.times, 10), longPause))
		s.fault.times++
		s.fault.hung = errors.Is(err, context.DeadlineExceeded)
	case err == nil && s.fault.times > 0:
		s.fault.times, s.fault.until = 0, time.Time{}
	}
	if away {
		return fmt.Errorf("shard %q: %w", s.Name, err)
	}
	return err
}

// away returns for how long claims do not ask the shard; zero or less if they do. hung says that the last calls
// got no answer in time: several of them, since the time of one may have been short.
func (s *shard) away() (pause time.Duration, hung bool) {
	s.fault.mu.Lock()
	defer s.fault.mu.Unlock()
	if s.fault.times == 0 {
		return 0, false
	}
	return time.Until(s.fault.until), s.fault.hung && s.fault.times > 1
}
