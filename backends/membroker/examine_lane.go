package membroker

import (
	"iter"
	"math"

	"github.com/seed81422ce9/jobs/broker"
)

// names iterates over the keys of the queue's lanes.
func (q *queue) names() iter.Seq[string] {
	return func(yield func(string) bool) { q.lanes.Ascend(func(n named) bool { return yield(n.key) }) }
}

// lane examines whether the list and the counts of a key are right, and whether its lane is in
// the right rings.
func (e *examiner) lane(l *lane) {
	q := e.q
	var wrong []entry
	has := new(lane)
	for x := range q.keyed.from(entry{at: l.no, seq: math.MinInt64}) {
		switch {
		case x.at != l.no:
		case q.jobs[x.job.ID] != x.job || x.job.lane != l || x != x.job.keyEntry():
			wrong = append(wrong, x)
			continue
		default:
			has.has(x.job)
			continue
		}
		break
	}
	for _, x := range wrong {
		e.found("key-entry-without-job", x.job.ID, func() { q.keyed.Delete(x) }, "it is listed by the key %q, and is gone or has another",
			l.name)
	}
	if h := l.head; h != nil && (q.jobs[h.ID] != h || h.lane != l || q.policy.Ordered == broker.OrderNone || q.passes(h)) {
		e.found("key-head-wrong", l.name, func() {
			l.head = nil
			q.noteLane(l)
			q.place(l)
		}, "its jobs wait for the head %q, which is gone or is not a head", h.ID)
	}
	e.compare(l, has)
}

// has adds a job to the counts of a lane.
func (l *lane) has(j *job) {
	l.jobs++
	if l.counts[j.State]++; j.State == broker.StatePending {
		l.spots[j.Priority-1].jobs++
	}
}

// compare examines whether the counts of a lane are right, and whether it is in the right
// rings. has is a lane with the right counts.
func (e *examiner) compare(l, has *lane) {
	same := has.jobs == l.jobs && has.counts == l.counts
	for i := range l.spots {
		same = same && has.spots[i].jobs == l.spots[i].jobs
	}
	if !same {
		e.found("key-count-differs", l.name, func() {
			l.jobs, l.counts = has.jobs, has.counts
			for i := range l.spots {
				l.spots[i].jobs = has.spots[i].jobs
			}
			e.q.place(l)
		}, "it has %d jobs, by state %v, and counts %d, by state %v", has.jobs, has.counts, l.jobs, l.counts)
	}
	if !e.q.placed(l) {
		e.found("key-without-turn", l.name, func() { e.q.placeAnew(l) }, "it has %d pending jobs and %d turns",
			l.counts[broker.StatePending],
			e.q.turnsOf(l))
	}
}

// placeAnew removes a lane from all rings and from late, and places it.
func (q *queue) placeAnew(l *lane) {
	q.late.Delete(turn{at: l.until, seq: l.no})
	l.until = never
	for i := range l.spots {
		if s := &l.spots[i]; s.in != nil {
			s.in.Delete(s.turn)
			s.in = nil
		}
	}
	q.place(l)
}

// turnsOf returns in how many rings a lane is.
func (q *queue) turnsOf(l *lane) (n int) {
	for i := range l.spots {
		if q.rings[i].Has(l.spots[i].turn) {
			n++
		}
	}
	return n
}

// placed reports whether a lane is in the right rings. A lane whose rate allows a start again
// may still be kept back: the next claim moves it.
func (q *queue) placed(l *lane) bool {
	late := q.late.Has(turn{at: l.until, seq: l.no})
	why, until := q.judge(l)
	waits := l.block == broker.BlockRate && why == broker.BlockNone
	if late != (l.until != never) || why != l.block && !waits || until == never && late && !waits {
		return false
	}
	for i := range l.spots {
		s, r := &l.spots[i], &q.rings[i]
		may := l.block == broker.BlockNone && (l.head == nil || int(l.head.Priority) == i+1)
		if (s.jobs > 0 && may) != r.Has(s.turn) || (s.jobs > 0 && !may) != r.kept.Has(s.turn) {
			return false
		}
	}
	return true
}
