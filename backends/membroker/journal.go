package membroker

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// OpenJournal returns a store with the records of a journal. From then on the journal gets each
// change. It is for package filebroker. ErrMalformed means that records contradict each
// other, ErrNewerForm that a newer version wrote some of them.
//
// A step that changes a record calls note for it, at any time within the step. At the end of
// the step the journal gets the noted records as they are then. So a step may note a record
// before it changes it, and may note one that it does not change. Counts, lists and turns are
// not stored: load.go makes them from the records.
func OpenJournal(j journal.Journal) (*Store, error) {
	s := NewStore()
	if err := j.Load(s.load); err != nil {
		return nil, err
	}
	for _, q := range s.queues {
		if err := q.loaded(); err != nil {
			return nil, err
		}
	}
	s.journal = j
	return s, nil
}

// highest is the name of the record of Store.fence.
const highest = "highest"

// noted names a record that may have changed.
type noted struct {
	kind        journal.Kind
	queue, name string
}

func (s *Store) note(kind journal.Kind, queue, name string) {
	if s.journal != nil {
		s.noted = append(s.noted, noted{kind, queue, name})
	}
}

func (q *queue) note(kind journal.Kind, name string) { q.store.note(kind, q.name, name) }

// tally returns the queue's totals, for a step that changes them.
func (q *queue) tally() *broker.Totals {
	q.note(journal.Queues, "")
	return &q.totals
}

// noteLane is note for a key. The lane of the jobs without a key has no record.
func (q *queue) noteLane(l *lane) {
	if l != q.keyless {
		q.note(journal.Keys, l.name)
	}
}

// noteAll notes all records that a queue can have while it has no jobs.
func (q *queue) noteAll() {
	q.note(journal.Queues, "")
	for name := range q.names() {
		q.note(journal.Keys, name)
	}
	for id := range q.workers {
		q.note(journal.Workers, id)
	}
	for key := range q.unique {
		q.note(journal.Unique, key)
	}
	for id := range q.remembered {
		q.note(journal.Remembered, id)
	}
}

// record gives the journal the records that were noted in this step.
func (s *Store) record() {
	if len(s.noted) == 0 {
		return
	}
	slices.SortFunc(s.noted, func(a, b noted) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.queue, b.queue), cmp.Compare(a.name, b.name))
	})
	s.noted = slices.Compact(s.noted)
	changed := make([]journal.Record, len(s.noted))
	for i, n := range s.noted {
		changed[i] = s.recordOf(n)
	}
	s.journal.Append(changed)
	clear(s.noted)
	s.noted = s.noted[:0]
}

// recordOf returns a record as it is now.
func (s *Store) recordOf(n noted) journal.Record {
	r := journal.Record{Kind: n.kind, Key: []byte(n.name)}
	if n.kind >= journal.Queues {
		r.Key = binary.AppendUvarint(nil, uint64(len(n.queue)))
		r.Key = append(append(r.Key, n.queue...), n.name...)
	}
	f := &form{b: make([]byte, 0, 64)}
	if s.form(f, n) {
		r.Value = f.b
	}
	return r
}

// form writes a record, and reports whether the record exists.
func (s *Store) form(f *form, n noted) bool {
	switch n.kind {
	case journal.Fence:
		f.int(&s.fence)
		return true
	case journal.Marks:
		m := s.marks[n.name]
		if m != nil {
			m.form(f)
		}
		return m != nil
	}
	q := s.queues[n.queue]
	if q == nil {
		return false
	}
	switch n.kind {
	case journal.Queues:
		q.form(f)
		return true
	case journal.Keys:
		l := q.lane(n.name)
		if l != nil {
			l.form(f, "")
		}
		return l != nil
	case journal.Workers:
		w := q.workers[n.name]
		if w != nil {
			w.form(f)
		}
		return w != nil
	case journal.Bodies:
		j := q.jobs[n.name]
		if j != nil {
			j.bodyForm(f)
		}
		return j != nil
	case journal.Jobs:
		j := q.jobs[n.name]
		if j != nil {
			j.form(f)
		}
		return j != nil
	case journal.Unique:
		h, ok := q.unique[n.name]
		h.form(f)
		return ok
	}
	p, ok := q.remembered[n.name]
	p.form(f)
	return ok
}
