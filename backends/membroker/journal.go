package membroker

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
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
// not stored: loaded makes them from the records.
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
	add := func(kind journal.Kind, names iter.Seq[string]) {
		for name := range names {
			all = append(all, noted{kind, q.name, name})
		}
	}
	add(journal.Queues, slices.Values([]string{""}))
	add(journal.Keys, q.names())
	add(journal.Workers, maps.Keys(q.workers))
	add(journal.Bodies, maps.Keys(q.jobs))
	add(journal.Jobs, maps.Keys(q.jobs))
	add(journal.Unique, maps.Keys(q.unique))
	add(journal.Remembered, maps.Keys(q.remembered))
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

// load adds one record of a journal to the store. The records are sorted by kind.
func (s *Store) load(r journal.Record) error {
	f := &form{b: r.Value, reads: true}
	switch r.Kind {
	case journal.Fence:
		s.fence.form(f)
	case journal.Marks:
		m, name := new(mark), string(r.Key)
		m.form(f)
		s.lapses.set(lapsedMark, name, 0, broker.Micros(m.Until))
		s.marks[name] = m
	default:
		n, size := binary.Uvarint(r.Key)
		if size <= 0 || n > uint64(len(r.Key)-size) {
			return unreadable(r, broker.ErrMalformed)
		}
		queue, name := string(r.Key[size:size+int(n)]), string(r.Key[size+int(n):])
		if r.Kind == journal.Queues {
			s.queues[queue] = newQueue(s, queue)
		}
		q := s.queues[queue]
		if q == nil {
			return unreadable(r, fmt.Errorf("%w: its queue does not exist", broker.ErrMalformed))
		}
		q.load(r.Kind, name, f)
	}
	if f.err == nil && len(f.b) > 0 {
		f.err = fmt.Errorf("%w: it has more fields than this version knows", broker.ErrNewerForm)
	}
	return unreadable(r, f.err)
}

func unreadable(r journal.Record, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: record %.64q of the kind %v", err, r.Key, r.Kind)
}

func (q *queue) load(kind journal.Kind, name string, f *form) {
	switch kind {
	case journal.Queues:
		q.form(f)
	case journal.Keys:
		l := &lane{name: name, until: never}
		l.form(f)
		q.lapses.set(lapsedKey, name, 0, l.lapse)
		q.lanes.ReplaceOrInsert(named{name, l})
	case journal.Workers:
		w := &worker{WorkerInfo: broker.WorkerInfo{ID: name}}
		w.form(f)
		q.lapses.set(lapsedWorker, name, 0, w.forget)
		q.workers[name] = w
	case journal.Bodies:
		j := &job{Job: broker.Job{Queue: q.name, ID: name}}
		(*body)(j).form(f)
		q.jobs[name] = j
	case journal.Jobs:
		j := q.jobs[name]
		if j == nil {
			f.err = fmt.Errorf("%w: the job has no body", broker.ErrMalformed)
			return
		}
		j.form(f)
	case journal.Unique:
		var h hold
		h.form(f)
		q.lapses.set(lapsedWindow, name, 0, h.lapse())
		q.unique[name] = h
	case journal.Remembered:
		var p past
		p.form(f)
		q.remembered[name] = p
		q.lapses.set(lapsedID, name, 0, broker.Micros(p.until))
	}
}

// loaded makes the lists and counts of a queue from the loaded records. Turns start anew.
func (q *queue) loaded() error {
	q.most = len(q.jobs)
	for l := range q.all() {
		l.rules = q.policy.OfKey(l.own)
		if q.seq = max(q.seq, l.no); l.head != nil {
			l.head = q.jobs[l.head.ID]
		}
	}
	for _, j := range q.jobs {
		if err := q.put(j); err != nil {
			return fmt.Errorf("%w: job %.64q of queue %.64q", err, j.ID, q.name)
		}
	}
	for l := range q.all() {
		q.place(l)
	}
	q.place(q.keyless)
	return nil
}

// clone adds a queue of another store, which is locked, as it would be after a restart.
func (s *Store) clone(q *queue) error {
	for _, n := range q.records() {
		if err := s.load(q.store.recordOf(n)); err != nil {
			return err
		}
	}
	return s.queues[q.name].loaded()
}

// all iterates over the lanes of the queue's keys.
func (q *queue) all() iter.Seq[*lane] {
	return func(yield func(*lane) bool) { q.lanes.Ascend(func(n named) bool { return yield(n.lane) }) }
}

// names iterates over the keys of the queue's lanes.
func (q *queue) names() iter.Seq[string] {
	return func(yield func(string) bool) { q.lanes.Ascend(func(n named) bool { return yield(n.key) }) }
}

// put adds a job to the lists and counts to which it belongs by its record.
func (q *queue) put(j *job) error {
	known := slices.Contains(broker.States(), j.State)
	if j.lane = q.lane(j.Key); !known || j.lane == nil {
		return fmt.Errorf("%w: it has no state or no key", broker.ErrMalformed)
	}
	j.at = j.rank()
	q.seq, q.front = max(q.seq, j.seq, j.born), min(q.front, j.seq)
	q.states[j.State].ReplaceOrInsert(j.entry())
	if q.count(j, 1); j.Key != "" {
		q.keyed.ReplaceOrInsert(j.keyEntry())
	}
	switch j.State {
	case broker.StateActive:
		w := q.workers[j.Worker]
		if w == nil {
			return fmt.Errorf("%w: its worker does not exist", broker.ErrMalformed)
		}
		w.Held++
	case broker.StateCompleted, broker.StateCancelled:
		q.lapses.set(lapsedRecord, j.ID, 0, j.lapse)
	}
	return nil
}
