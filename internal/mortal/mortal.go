// Package mortal has a broker for tests that dies as a process does.
package mortal

import (
	"context"
	"sync/atomic"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// Broker is the broker of one process that can be killed. After that none of its calls reaches the
// store, and calls under way get no answer.
type Broker struct {
	broker.Broker
	Kill  context.CancelFunc
	Calls atomic.Int64 // calls that counted
	After atomic.Int64 // the number of counted calls after which it dies; zero means never
	Lost  bool         // the last call takes effect, and its answer is lost

	ctx context.Context
}

// New returns a broker that dies after calls for which counts returns true.
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
