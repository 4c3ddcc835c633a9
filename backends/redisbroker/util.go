package redisbroker

import (
	"context"
	"time"
)

// distinct is names, each once, in their order.
func distinct(names []string) []string {
	out := make([]string, 0, len(names))
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

// sooner is the earlier of two times, of which a zero one is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// usable says whether a call may still do something, when it has nothing to
// send that would tell.
func (b *Broker) usable(ctx context.Context) error {
	err := b.enter(ctx)
	if err == nil {
		b.leave()
	}
	return err
}
