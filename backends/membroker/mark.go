package membroker

import (
	"bytes"
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// mark is a name that somebody holds; a free one is not stored (§24).
type mark struct {
	name  string
	owner string
	fence int64
	value []byte
	until int64
}

// Mark reads, takes, keeps, sets or drops a mark. §24.
func (b *Broker) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	now, err := b.begin(ctx, "mark", req.Now, req.Check())
	if err != nil {
		return broker.Marked{}, err
	}
	defer b.end()
	s := b.store
	m := s.marks[req.Name]
	if m != nil && now.reached(m.until) {
		s.free(m)
		m = nil
	}
	held := m != nil && m.owner == req.Owner && m.fence == req.Fence
	switch req.Action {
	case broker.MarkRead:
		held = m != nil
	case broker.MarkTake:
		if m == nil {
			m = &mark{name: req.Name, owner: req.Owner, value: bytes.Clone(req.Value)}
		}
		if held = m.owner == req.Owner; held {
			s.free(m)
			s.fence++ // one counter for all names, so that it outlives every mark
			m.fence = s.fence
			s.extend(m, now.plus(req.TTL))
		}
	case broker.MarkKeep, broker.MarkSet:
		if held && req.Action == broker.MarkSet {
			m.value = bytes.Clone(req.Value)
		}
		if held {
			s.extend(m, now.plus(req.TTL))
		}
	case broker.MarkDrop:
		if held {
			s.free(m)
			m = nil
		}
	}
	if m == nil {
		return broker.Marked{Held: held}, nil
	}
	return broker.Marked{Held: held, Owner: m.owner, Fence: m.fence, Value: bytes.Clone(m.value), Until: broker.FromMicros(m.until)}, nil
}

// extend stores a mark until a time. No other mark has its fence, which
// therefore tells it from others that lapse at the same time.
func (s *Store) extend(m *mark, until int64) {
	s.lapses.remove(m.until, m.fence)
	m.until = until
	s.lapses.add(m.until, m.fence, m)
	s.marks[m.name] = m
}

func (s *Store) free(m *mark) {
	s.lapses.remove(m.until, m.fence)
	delete(s.marks, m.name)
}

func (s *Store) pruneMarks(budget int, got *broker.Pruned, now instant) {
	for ; ; budget-- {
		e, ok := s.lapses.first()
		if !ok || !now.reached(e.at) {
			return
		}
		if budget == 0 {
			got.More = true
			return
		}
		s.free(e.what)
		got.Other++
	}
}
