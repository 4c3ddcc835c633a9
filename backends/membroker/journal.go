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

// records names all records of a queue, in the order in which they are loaded.
func (q *queue) records() (all []noted) {
	add := func(kind journal.Kind, name string) { all = append(all, noted{kind, q.name, name}) }
	add(journal.Queues, "")
	for key := range q.names() {
		add(journal.Keys, key)
	}
	for id := range q.workers {
		add(journal.Workers, id)
	}
	for id := range q.jobs {
		add(journal.Bodies, id)
	}
	for id := range q.jobs {
		add(journal.Jobs, id)
	}
	for key := range q.unique {
		add(journal.Unique, key)
	}
	for id := range q.remembered {
		add(journal.Remembered, id)
	}
	return all
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
	if what, ok := s.named(n); ok {
		f := &form{b: make([]byte, 0, 64)}
		what.form(f)
		r.Value = f.b
	}
	return r
}

// stored is what has a record.
type stored interface{ form(*form) }

// named returns what a record is about, and reports whether it exists.
func (s *Store) named(n noted) (what stored, ok bool) {
	switch n.kind {
	case journal.Fence:
		return &s.fence, true
	case journal.Marks:
		m := s.marks[n.name]
		return m, m != nil
	}
	q := s.queues[n.queue]
	if q == nil {
		return nil, false
	}
	switch n.kind {
	case journal.Queues:
		return q, true
	case journal.Keys:
		l := q.lane(n.name)
		return l, l != nil
	case journal.Workers:
		w := q.workers[n.name]
		return w, w != nil
	case journal.Bodies:
		j := q.jobs[n.name]
		return (*body)(j), j != nil
	case journal.Jobs:
		j := q.jobs[n.name]
		return j, j != nil
	case journal.Unique:
		h, ok := q.unique[n.name]
		return &h, ok
	}
	p, ok := q.remembered[n.name]
	return &p, ok
}
