// Package mortal has a broker that dies as a process does, for tests.
package mortal

import (
	"context"
	"sync/atomic"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// Broker is a broker as a process sees it that can be killed: from then on none
// of its calls arrives, and those under way are gone.
type Broker struct {
	broker.Broker
	Kill  context.CancelFunc
	Calls atomic.Int64 // those that count
	After atomic.Int64 // so many of these it dies; zero means never
	Lost  bool         // the last call is carried out, and its answer lost

	ctx context.Context
}

// New makes a broker of b that dies after calls for which counts holds.
func New(b broker.Broker, counts func(*broker.Call) bool) *Broker {
	m := &Broker{}
	m.ctx, m.Kill = context.WithCancel(context.Background())
	m.Broker = broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		if m.Dead() {
			return broker.ErrUnavailable
		}
		last := counts(c) && m.Calls.Add(1) == m.After.Load()
		if last && !m.Lost {
			m.Kill()
			return broker.ErrUnavailable
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(m.ctx, cancel)()
		err := next(ctx)
		if last {
			m.Kill()
		}
		if m.Dead() && c.Method != "Watch" {
			c.Clear()
			return faulty.ErrReplyLost
		}
		return err
	})
	return m
}

// Dead reports whether the broker was killed.
func (m *Broker) Dead() bool { return m.ctx.Err() != nil }
