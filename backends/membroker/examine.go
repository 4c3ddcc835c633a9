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
	"github.com/seed81422ce9/jobs/internal/journal"
)

var examinePlan = broker.ExaminePlan{
	Store: []string{"marks"},
	Queue: []string{"jobs", "keys", "unique keys"},
}

// examiner is one step of an examination.
type examiner struct {
	broker.Examined
	req broker.ExamineRequest
	q   *queue // the queue that is examined
}

// Examine examines the next records of one part: whether they contradict each other. To find
// them, each step goes over all names of the part, which is quick. Lists, counts and turns are
// not examined: nothing but this package changes them, and a store with a journal makes them
// anew from the records when it is opened. Tests compare the two.
func (b *Broker) Examine(ctx context.Context, req broker.ExamineRequest) (broker.Examined, error) {
	refused := req.Check()
	at, err := examinePlan.Read(&req)
	req.Now, err = b.begin(ctx, "examine", req.Now, cmp.Or(refused, err))
	if err != nil {
		return broker.Examined{}, err
	}
	defer b.end()
	s := b.store
	e := &examiner{Examined: broker.Examined{Now: req.Now, Queue: at.Queue, Part: at.Part}, req: req, q: s.queues[at.Queue]}
	pos := ""
	if at.Queue == "" {
		pos = e.each(maps.Keys(s.marks), at.Pos, func(name string) { e.mark(s, name, s.marks[name]) })
	} else if q := e.q; q != nil {
		switch at.Part {
		case "jobs":
			pos = e.each(maps.Keys(q.jobs), at.Pos, func(id string) { e.job(q.jobs[id]) })
		case "keys":
			pos = e.each(q.names(), at.Pos, func(key string) { e.lane(q.lane(key)) })
		case "unique keys":
			pos = e.each(maps.Keys(q.unique), at.Pos, func(key string) { e.hold(key, q.unique[key]) })
		}
		q.touch() // a repair may have made something claimable
	}
	e.Cursor, _ = examinePlan.Next(&req, at, pos, func(queue string) (string, error) {
		return strings.Join(following(maps.Keys(s.queues), queue, 1), ""), nil
	})
	return e.Examined, nil
}

// kinds are the kinds of findings that any store can have.
var kinds = broker.KnownFindings()

// found records a finding, and repairs it if the request asks for that.
func (e *examiner) found(code, id string, repair func(), what string, args ...any) {
	f := broker.Finding{FindingKind: kinds.Of(code), Queue: e.Queue, ID: id, What: fmt.Sprintf(what, args...)}
	switch {
	case e.req.Fix && repair != nil:
		repair()
		f.Fixed = true
	case e.req.Fix:
		f.Left = "the other job has it"
	}
	e.Findings = append(e.Findings, f)
}

// each examines the next names and returns where to go on.
func (e *examiner) each(names iter.Seq[string], after string, examine func(name string)) string {
	next := following(names, after, e.req.Limit)
	for _, name := range next {
		e.Records++
		examine(name)
	}
	if len(next) < e.req.Limit {
		return ""
	}
	return next[len(next)-1]
}

// following returns the first n names after the given one, sorted.
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

// job examines the request to cancel a job, and whether the job holds its unique key.
func (e *examiner) job(j *job) {
	q := e.q
	if j.CancelRequested && j.State != broker.StateActive {
		e.found("cancel-without-lease", j.ID, func() {
			j.CancelRequested = false
			q.note(journal.Jobs, j.ID)
		}, "it is %v and is asked to cancel", j.State)
	}
	if u := j.Unique; e.owesKey(j) && q.unique[u.Key].id != j.ID {
		take := func() { q.takeKey(j, e.req.Now) }
		if _, held := q.holderOf(u.Key, e.req.Now); held {
			take = nil
		}
		e.found("unique-key-not-held", j.ID, take, "job %q has its unique key %q", q.unique[u.Key].id, u.Key)
	}
}

// owesKey reports whether a job must hold its unique key now.
func (e *examiner) owesKey(j *job) bool {
	u := j.Unique
	if u.Key == "" || j.State.Final() || j.Holder == broker.Behind(e.q.unique[u.Key].id) ||
		u.TTL > 0 && reached(e.req.Now, later(j.CreatedAt, u.TTL)) {
		return false
	}
	return u.Mode == broker.UniqueUntilDone || u.Mode == broker.UniqueUntilStarted && j.State != broker.StateActive && j.Deliveries == 0
}

// lane examines whether the jobs of a key wait for a head that they have to wait for.
func (e *examiner) lane(l *lane) {
	q := e.q
	if h := l.head; h != nil && (q.jobs[h.ID] != h || h.lane != l || q.policy.Ordered == broker.OrderNone || q.passes(h)) {
		e.found("key-head-wrong", l.name, func() {
			l.head = nil
			q.noteLane(l)
			q.place(l)
		}, "its jobs wait for the head %q, which is gone or is not a head", h.ID)
	}
}

// hold examines whether a job with a right to a unique key holds it. A window outlives its job.
func (e *examiner) hold(key string, h hold) {
	free := func() { e.q.dropKey(key) }
	switch j := e.q.jobs[h.id]; {
	case h.mode == broker.UniqueWindow:
	case j == nil:
		e.found("unique-key-of-missing-job", h.id, free, "it holds the unique key %q and is not stored", key)
	case j.Unique.Key != key || j.State.Final() || h.mode == broker.UniqueUntilStarted && j.State == broker.StateActive:
		e.found("unique-key-of-ended-job", h.id, free, "it is %v and still holds the unique key %q", j.State, key)
	}
}

func (e *examiner) mark(s *Store, name string, m *mark) {
	if m.Fence > int64(s.fence) {
		e.found("mark-fence-behind", name, func() {
			s.fence = fence(m.Fence)
			s.note(journal.Fence, "", highest)
		}, "its fence is %d, but the highest fence given to any mark is %d", m.Fence, s.fence)
	}
}
