package history

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Keeper writes the history of all queues of a store. Only one of the keepers of a store writes at a
// time.
type Keeper struct {
	store store
	id    string
	fence int64                // of the mark that makes this keeper write; 0 while another one does
	last  map[string]Point     // by queue: the point that was written last
	hour  map[string]time.Time // by queue: the hour that was written last
	fresh map[string]Latency   // by queue: what servers posted since that point

	running []string // programs, as stored
}

type store interface {
	marker
	Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error)
}

// NewKeeper returns a keeper for a store. The ID must be unique.
func NewKeeper(s store, id string) *Keeper {
	return &Keeper{store: s, id: id, last: make(map[string]Point), hour: make(map[string]time.Time),
		fresh: make(map[string]Latency)}
}

const (
	keeperMark = "history/keeper"
	keeperTTL  = 150 * time.Second // two writes may fail before another server takes over
)

// Turn writes a point of each queue in which something happened, and an hourly one of the others, if
// this keeper is the one that writes. It is called once a minute. More frequent calls, and two keepers
// at once, do no harm.
func (k *Keeper) Turn(ctx context.Context) error {
	got, err := k.store.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: keeperMark, Owner: k.id, TTL: keeperTTL})
	if k.fence = got.Fence; err != nil || !got.Held {
		k.fence = 0
		clear(k.last) // another keeper may write from now on
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
		errs = append(errs, k.write(ctx, All, PointOfAll(reply.Queues, reply.Now)), k.record(ctx, &reply))
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
	// Each part has a point, so that a reader can tell that nothing happened. After the clock was set
	// back, nothing is written until it reaches the last point again.
	still := p.Still(last) && p.At.Truncate(minutes.part).Equal(last.At.Truncate(minutes.part))
	if known && (still || !p.At.After(last.At)) {
		return nil
	}
	before := last // the state did not change until a minute ago
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
	// The point of an hour shows the state at its beginning.
	if err := hours.add(ctx, k.store, queue, Point{}, p); err != nil {
		return err
	}
	k.hour[queue] = p.At.Truncate(hours.step)
	return nil
}

// Drop lets another server write at once.
func (k *Keeper) Drop(ctx context.Context) {
	if k.fence != 0 {
		_, _ = k.store.Mark(ctx, broker.MarkRequest{Action: broker.MarkDrop, Name: keeperMark, Owner: k.id, Fence: k.fence})
	}
}
