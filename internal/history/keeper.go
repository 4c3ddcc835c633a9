package history

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Keeper writes the history of all queues of a store, if no other one does.
type Keeper struct {
	store store
	id    string
	fence int64                // of the keeper's mark, while this is the keeper
	last  map[string]Point     // of each queue, what was written last
	hour  map[string]time.Time // and the last hour that was
	fresh map[string]Latency   // and what servers posted that is not in it

	running []string // programs, as they are stored
}

type store interface {
	marker
	Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error)
}

// NewKeeper makes a keeper of a store. The ID is that of nobody else.
func NewKeeper(s store, id string) *Keeper {
	return &Keeper{store: s, id: id, last: make(map[string]Point), hour: make(map[string]time.Time),
		fresh: make(map[string]Latency)}
}

const (
	keeperMark = "history/keeper"
	keeperTTL  = 150 * time.Second // two turns may fail before another server takes over
)

// Turn writes a point of each queue in which something happened, and of the others
// once an hour, if this is the keeper. It is called once a minute. Calling it more often, and two keepers at
// once, do no harm.
func (k *Keeper) Turn(ctx context.Context) error {
	got, err := k.store.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: keeperMark, Owner: k.id, TTL: keeperTTL})
	if k.fence = got.Fence; err != nil || !got.Held {
		k.fence = 0
		clear(k.last) // another one may write meanwhile
		clear(k.hour)
		k.running = nil
		return err
	}
	if err := k.collect(ctx); err != nil {
		return err
	}
	reply, err := k.store.Queues(ctx, broker.QueuesRequest{Workers: true})
	errs := []error{err}
	there := map[string]bool{All: true}
	for i := range reply.Queues {
		q := &reply.Queues[i]
		there[q.Name] = true
		if ctx.Err() == nil {
			errs = append(errs, k.write(ctx, q.Name, PointOf(q)))
		}
	}
	if err == nil && ctx.Err() == nil {
		errs = append(errs, k.write(ctx, All, PointOfAll(reply.Queues, reply.Now)), k.note(ctx, &reply))
	}
	if err == nil {
		gone := func(name string) bool { return !there[name] }
		maps.DeleteFunc(k.last, func(name string, _ Point) bool { return gone(name) })
		maps.DeleteFunc(k.hour, func(name string, _ time.Time) bool { return gone(name) })
		maps.DeleteFunc(k.fresh, func(name string, _ Latency) bool { return gone(name) })
	}
	return errors.Join(errs...)
}

func (k *Keeper) write(ctx context.Context, queue string, p Point) (err error) {
	last, known := k.last[queue]
	if !known {
		if last.Latency, err = latest(ctx, k.store, queue, p.At); err != nil {
			return err
		}
	}
	p.Latency = last.Latency.Plus(k.fresh[queue])
	// Each part has a point, so that who looks knows that nothing happened. Once the
	// clock was set back nothing is written until it has gone on as far.
	still := p.Still(last) && p.At.Truncate(minutes.part).Equal(last.At.Truncate(minutes.part))
	if known && (still || !p.At.After(last.At)) {
		return nil
	}
	before := last // what it still was a minute ago
	if before.At = p.At.Add(-minutes.step); !known || !before.At.After(last.At.Add(minutes.step/2)) {
		before = Point{}
	}
	if err := minutes.add(ctx, k.store, queue, before, p); err != nil {
		return err
	}
	k.last[queue] = p
	delete(k.fresh, queue)
	if hour, ok := k.hour[queue]; ok && !p.At.Truncate(hours.step).After(hour) {
		return nil
	}
	// The point of an hour is what was at its beginning.
	if err := hours.add(ctx, k.store, queue, Point{}, p); err != nil {
		return err
	}
	k.hour[queue] = p.At.Truncate(hours.step)
	return nil
}

// Drop lets another server be the keeper at once.
func (k *Keeper) Drop(ctx context.Context) {
	if k.fence != 0 {
		_, _ = k.store.Mark(ctx, broker.MarkRequest{Action: broker.MarkDrop, Name: keeperMark, Owner: k.id, Fence: k.fence})
	}
}
