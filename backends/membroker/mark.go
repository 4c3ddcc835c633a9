package membroker

import (
	"bytes"
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// mark is a mark that has an owner; a free one is not stored (§24).
type mark struct{ broker.Marked }

// Mark reads, takes, keeps, sets or drops a mark. §24.
func (b *Broker) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	now, err := b.begin(ctx, "mark", req.Now, req.Check())
	if err != nil {
		return broker.Marked{}, err
	}
	defer b.end()
	s := b.store
	m := s.marks[req.Name]
	if m != nil && reached(now, m.Until) {
		s.free(req.Name)
		m = nil
	}
	held := m != nil && m.Owner == req.Owner && m.Fence == req.Fence
	switch req.Action {
	case broker.MarkRead:
		held = m != nil
	case broker.MarkTake:
		if m == nil {
			m = &mark{Marked: broker.Marked{Owner: req.Owner, Value: bytes.Clone(req.Value)}}
			s.marks[req.Name] = m
		}
		if held = m.Owner == req.Owner; held {
			s.fence++ // one counter for all names, so that it outlives every mark
			m.Fence = int64(s.fence)
			s.note(journal.Fence, "", highest)
			s.extend(req.Name, m, later(now, req.TTL))
		}
	case broker.MarkKeep, broker.MarkSet:
		if held && req.Action == broker.MarkSet {
			m.Value = bytes.Clone(req.Value)
		}
		if held {
			s.extend(req.Name, m, later(now, req.TTL))
		}
	case broker.MarkDrop:
		if held {
			s.free(req.Name)
			m = nil
		}
	}
	got := broker.Marked{Held: held}
	if m != nil {
		got = m.Marked
		got.Held, got.Value = held, bytes.Clone(m.Value)
	}
	return got, nil
}

func (s *Store) extend(name string, m *mark, until time.Time) {
	s.note(journal.Marks, "", name)
	s.lapses.set(lapsedMark, name, broker.Micros(m.Until), broker.Micros(until))
	m.Until = until
}

func (s *Store) free(name string) {
	s.note(journal.Marks, "", name)
	s.lapses.set(lapsedMark, name, broker.Micros(s.marks[name].Until), 0)
	delete(s.marks, name)
}
