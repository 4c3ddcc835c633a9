package membroker

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

var examinePlan = broker.ExaminePlan{
	Store: []string{"marks"},
	Queue: []string{"jobs", "places", "keys", "unique keys", "remembered", "workers", "ended workers"},
}

// Examine looks at the records of one part. Each step goes over the names of
// its part to find those that are next, which is quick, and examines these.
func (b *Broker) Examine(ctx context.Context, req broker.ExamineRequest) (broker.Examined, error) {
	refused := req.Check()
	at, err := examinePlan.Read(&req)
	now, err := b.begin(ctx, "examine", req.Now, cmp.Or(refused, err))
	if err != nil {
		return broker.Examined{}, err
	}
	defer b.end()
	e := &examiner{fix: req.Fix, limit: req.Limit, now: now,
		Examined: broker.Examined{Now: now.answer(), Queue: at.Queue, Part: at.Part}}
	pos := ""
	if q := b.store.queues[at.Queue]; q != nil {
		pos = e.queuePart(q, at)
		q.touch() // a repair may have made something claimable
	} else if at.Queue == "" {
		pos = e.marks(b.store, at.Pos)
	}
	e.Cursor, _ = examinePlan.Next(&req, at, pos, func(queue string) (string, error) {
		return strings.Join(following(maps.Keys(b.store.queues), queue, 1), ""), nil
	})
	return e.Examined, nil
}

// examiner is one step of an examination.
type examiner struct {
	broker.Examined
	fix   bool
	limit int
	now   instant
}

// found notes a finding, and repairs it where that was asked for.
func (e *examiner) found(code, id string, repair func(), what string, args ...any) {
	f := broker.Finding{Code: code, Queue: e.Queue, ID: id, What: fmt.Sprintf(what, args...)}
	if e.fix {
		repair()
		f.Fixed = true
	}
	e.Findings = append(e.Findings, f)
}

// following are the first n names after one.
func following(names iter.Seq[string], after string, n int) []string {
	first := make([]string, 0, n+1)
	for name := range names {
		if name <= after || len(first) == n && name > first[n-1] {
			continue
		}
		at, _ := slices.BinarySearch(first, name)
		if first = slices.Insert(first, at, name); len(first) > n {
			first = first[:n]
		}
	}
	return first
}

// each examines the next names of a map and returns where to go on.
func each[T any](e *examiner, m map[string]T, after string, examine func(name string, what T)) string {
	return e.names(maps.Keys(m), after, func(name string) { examine(name, m[name]) })
}

// names is each for names of whatever.
func (e *examiner) names(all iter.Seq[string], after string, examine func(name string)) string {
	names := following(all, after, e.limit)
	for _, name := range names {
		e.Records++
		examine(name)
	}
	if len(names) < e.limit {
		return ""
	}
	return names[len(names)-1]
}

func (e *examiner) queuePart(q *queue, at broker.ExamineCursor) string {
	switch at.Part {
	case "jobs":
		return e.names(q.jobs.ids(), at.Pos, func(id string) { e.job(q, q.jobs.get(id)) })
	case "places":
		e.places(q)
	case "keys":
		return each(e, q.keys, at.Pos, func(key string, b *bag) { e.key(q, key, b) })
	case "unique keys":
		return each(e, q.unique, at.Pos, func(key string, h hold) { e.hold(q, key, h) })
	case "remembered":
		return each(e, q.remembered, at.Pos, func(id string, p past) {
			if e.lapsing(q, givenID(id), p.until) {
				return
			}
			e.found("remembered-id-never-lapses", id, func() { q.lapseAt(p.until, givenID(id)) }, "the ID is remembered, and nothing ends that")
		})
	case "workers":
		return each(e, q.workers, at.Pos, func(id string, w *worker) { e.worker(q, id, w) })
	case "ended workers":
		return each(e, q.ended, at.Pos, func(id string, w *worker) { e.worker(q, id, w) })
	}
	return ""
}

// lapsing reports whether something lapses at a time, whatever its seq.
func (e *examiner) lapsing(q *queue, what any, at int64) (found bool) {
	q.lapses.tree.AscendGreaterOrEqual(entry[any]{at: at}, func(x entry[any]) bool {
		found = x.at == at && x.what == what
		return x.at == at && !found
	})
	return found
}

func (q *queue) lapseAt(at int64, what any) {
	q.seq++
	q.lapses.add(at, q.seq, what)
}

func (e *examiner) marks(s *Store, after string) string {
	return each(e, s.marks, after, func(name string, m *mark) {
		if x, ok := s.lapses.tree.Get(entry[*mark]{at: m.until, seq: m.fence}); !ok || x.what != m {
			e.found("mark-never-lapses", name, func() { s.lapses.add(m.until, m.fence, m) }, "the mark is held, and nothing removes it after its time")
		}
		if m.fence > s.fence {
			e.found("mark-fence-behind", name, func() { s.fence = m.fence }, "its fence is %d, the last one given out is %d", m.fence, s.fence)
		}
	})
}
