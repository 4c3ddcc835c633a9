package membroker

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

var examinePlan = broker.ExaminePlan{
	Store: []string{"marks"},
	Queue: []string{"jobs", "entries", "keys", "unique keys", "remembered", "workers"},
}

// examiner is one step of an examination.
type examiner struct {
	broker.Examined
	req broker.ExamineRequest
	q   *queue // the queue that is examined
}

// Examine examines the next records of one part. To find them, each step goes over all names
// of the part, which is quick.
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
		case "entries":
			if pos = e.entries(at.Pos); pos == "" {
				e.counts()
			}
		case "keys":
			pos = e.each(q.names(), at.Pos, func(key string) { e.lane(q.lane(key)) })
		case "unique keys":
			pos = e.each(maps.Keys(q.unique), at.Pos, func(key string) { e.hold(key, q.unique[key]) })
		case "remembered":
			pos = e.each(maps.Keys(q.remembered), at.Pos, func(id string) {
				e.lapses(q.lapses, lapse{broker.Micros(q.remembered[id].until), lapsedID, id}, "remembered-id-never-lapses")
			})
		case "workers":
			pos = e.each(maps.Keys(q.workers), at.Pos, func(id string) { e.worker(q.workers[id]) })
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

// job examines whether every structure that should lead to a job does.
func (e *examiner) job(j *job) {
	q := e.q
	if !q.states[j.State].Has(j.entry()) {
		e.found("job-without-entry", j.ID, func() {
			q.states[j.State].ReplaceOrInsert(j.entry())
			q.place(j.lane)
		}, "it is %v, and not among these", j.State)
	}
	if j.Key != "" && !q.keyed.Has(j.keyEntry()) {
		e.found("key-entry-missing", j.ID, func() { q.keyed.ReplaceOrInsert(j.keyEntry()) }, "it is not among the jobs of its key %q",
			j.Key)
	}
	if j.CancelRequested && j.State != broker.StateActive {
		e.found("cancel-without-lease", j.ID, func() {
			j.CancelRequested = false
			q.note(journal.Jobs, j.ID)
		}, "it is %v and is asked to cancel", j.State)
	}
	if w := q.workers[j.Worker]; j.State == broker.StateActive && (w == nil || w.ended && !slices.Contains(q.orphans, w)) {
		e.found("lease-of-unknown-worker", j.ID, func() { e.orphan(j) }, "it is active, and its worker %q is not known", j.Worker)
	}
	if j.State == broker.StateCompleted || j.State == broker.StateCancelled {
		e.lapses(q.lapses, j.lapse, "record-never-lapses")
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

// orphan gives a job to an ended worker, so that a reclaim finds it.
func (e *examiner) orphan(j *job) {
	q := e.q
	w := q.workers[j.Worker]
	if w == nil {
		w = &worker{WorkerInfo: broker.WorkerInfo{ID: cmp.Or(j.Worker, "unknown")}}
		q.endWorker(w, e.req.Now)
	}
	j.Worker = w.ID
	q.note(journal.Jobs, j.ID)
	if w.Held = len(q.heldBy(w)); !slices.Contains(q.orphans, w) {
		q.orphans = append(q.orphans, w)
	}
}

// entries examines whether the jobs in the list of a state are in that state. pos begins with
// the number of the state.
func (e *examiner) entries(pos string) (next string) {
	state, from := 0, start
	if number, cursor, ok := strings.Cut(pos, " "); ok {
		state, _ = strconv.Atoi(number)
		from, _ = parseCursor(cursor)
	}
	for ; next == "" && 0 <= state && state < len(e.q.states); state, from = state+1, start {
		l := e.q.states[state]
		var wrong []entry
		for x := range l.from(from) {
			if e.Records == e.req.Limit {
				next = fmt.Sprintf("%d %s", state, x.cursor())
				break
			}
			if e.Records++; e.q.jobs[x.job.ID] != x.job || x != x.job.entry() || int(x.job.State) != state {
				wrong = append(wrong, x)
			}
		}
		for _, x := range wrong {
			code := "entry-without-job"
			if e.q.jobs[x.job.ID] == x.job {
				code = "job-listed-twice"
			}
			e.found(code, x.job.ID, func() { l.Delete(x) }, "it is listed among those that are %v, and is %v", broker.State(state),
				x.job.State)
		}
	}
	return next
}

// counts examines the counts of suppressed jobs, of the bytes of jobs that have not started,
// and of the jobs without a key.
func (e *examiner) counts() {
	differs := func(what string, n int64, counted *int64) {
		if n != *counted {
			e.found("count-differs", what, func() { *counted = n }, "it is %d, and %d is counted", n, *counted)
		}
	}
	suppressed, bytes, keyless := int64(0), int64(0), new(lane)
	for _, j := range e.q.jobs {
		if j.lane == e.q.keyless {
			keyless.has(j)
		}
		if j.State == broker.StateDead && j.Suppressed {
			suppressed++
		}
		if weighs(j.State) {
			bytes += int64(j.size())
		}
	}
	differs("suppressed", suppressed, &e.q.suppressed)
	differs("bytes", bytes, &e.q.bytes)
	e.compare(e.q.keyless, keyless)
}
func (e *examiner) hold(key string, h hold) {
	free := func() { e.q.dropKey(key) }
	switch j := e.q.jobs[h.id]; {
	case h.mode == broker.UniqueWindow:
		e.lapses(e.q.lapses, lapse{broker.Micros(h.until), lapsedWindow, key}, "unique-window-never-lapses")
	case j == nil:
		e.found("unique-key-of-missing-job", h.id, free, "it holds the unique key %q and is not stored", key)
	case j.Unique.Key != key || j.State.Final() || h.mode == broker.UniqueUntilStarted && j.State == broker.StateActive:
		e.found("unique-key-of-ended-job", h.id, free, "it is %v and still holds the unique key %q", j.State, key)
	}
}

func (e *examiner) worker(w *worker) {
	if n := len(e.q.heldBy(w)); n != w.Held {
		e.found("lease-count-differs", w.ID, func() { w.Held = n }, "it counts %d leases and has %d", w.Held, n)
	}
	if w.ended {
		e.lapses(e.q.lapses, w.forget, "worker-leftover")
	}
}

func (e *examiner) mark(s *Store, name string, m *mark) {
	e.lapses(s.lapses, m.lapse, "mark-never-lapses")
	if m.Fence > s.fence {
		e.found("mark-fence-behind", name, func() {
			s.fence = m.Fence
			s.note(journal.Fence, "", highest)
		}, "its fence is %d, but the highest fence given to any mark is %d", m.Fence, s.fence)
	}
}

// lapses examines whether something will be removed at its time.
func (e *examiner) lapses(l lapses, x lapse, code string) {
	if !l.Has(x) {
		e.found(code, x.name, func() { l.ReplaceOrInsert(x) }, "nothing removes it after %v", broker.FromMicros(x.at))
	}
}
