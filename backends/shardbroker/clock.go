package shardbroker

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	clockKept = time.Minute // then the shards' clock is asked for again
	clockCall = time.Second
)

// clock knows the time of the shards. All processes must change the shards at the same time, and the clock of a process's
// host may be wrong.
type clock struct {
	mu            sync.Mutex
	shards, local time.Time // when a shard answered; local has the monotonic clock of the process
}

// now returns the time by which shards change: that of the first one, by its name, that answers and does not join. If
// nothing changes, it asks none.
func (b *Broker) now(ctx context.Context) time.Time {
	c := &b.clock
	if b.routes.former == nil {
		return time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.local.IsZero() || time.Since(c.local) > clockKept {
		for _, s := range slices.SortedFunc(slices.Values(b.routes.fixed), func(x, y *shard) int { return cmp.Compare(x.Name, y.Name) }) {
			if c.ask(ctx, s) {
				break
			}
		}
	}
	if c.local.IsZero() {
		return time.Now()
	}
	return c.shards.Add(time.Since(c.local))
}

// ask reports whether the shard told its time.
func (c *clock) ask(ctx context.Context, s *shard) bool {
	if wait, _ := s.away(); wait > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, clockCall)
	defer cancel()
	at, err := s.Broker.Ping(ctx)
	if s.note(ctx, err) != nil {
		return false
	}
	c.shards, c.local = at, time.Now()
	return true
}
