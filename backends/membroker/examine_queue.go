package membroker

import (
	"cmp"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// job examines a job and whether all that should lead to it does.
func (e *examiner) job(q *queue, j *job) {
	switch {
	case timed(j.state) && !q.times[j.state].tree.Has(entry[*job]{at: j.at, seq: j.seq}):
		e.found("job-without-place", j.id, func() { q.times[j.state].add(j.at, j.seq, j) }, "it is %v, and stands in no order of these", j.state)
	case !timed(j.state) && !q.bags[j.state].has(j):
		e.found("job-without-place", j.id, func() { q.bags[j.state].add(j) }, "it is %v, and not among these", j.state)
	}
	if j.state == broker.StatePending {
		e.turn(q, j)
	}
	if j.state == broker.StateActive {
		e.lease(q, j)
	} else if j.cancelRequested {
		e.found("cancel-without-lease", j.id, func() { j.cancelRequested = false }, "it is %v and is asked to cancel", j.state)
	}
	if j.Key != "" && (q.keys[j.Key] == nil || !q.keys[j.Key].has(j)) {
		e.found("key-entry-missing", j.id, func() { q.addKey(j) }, "it is not among the jobs of its key %q", j.Key)
	}
	if (j.state == broker.StateCompleted || j.state == broker.StateCancelled) &&
		(j.lapse == 0 || !q.lapses.tree.Has(entry[any]{at: j.lapse, seq: j.seq})) {
		e.found("record-never-lapses", j.id, func() {
			j.lapse = e.now.plus(q.retention(j))
			q.lapses.add(j.lapse, j.seq, j)
		}, "it is %v, and nothing ends its retention", j.state)
	}
	if e.owesKey(j) && q.unique[j.Unique.Key].id != j.id {
		e.keyNotHeld(q, j)
	}
}

// owesKey reports whether a job must hold its unique key now.
func (e *examiner) owesKey(j *job) bool {
	u := j.Unique
	if u.Key == "" || j.state.Final() || u.TTL > 0 && e.now.reached(j.created+broker.DurationMicros(u.TTL)) {
		return false
	}
	return u.Mode == broker.UniqueUntilDone ||
		u.Mode == broker.UniqueUntilStarted && j.state != broker.StateActive && j.read().Deliveries == 0
}

func (e *examiner) keyNotHeld(q *queue, j *job) {
	if holder, held := q.heldBy(j.Unique.Key, e.now); held {
		e.Findings = append(e.Findings, broker.Finding{Code: "unique-key-not-held", Queue: q.name, ID: j.id,
			What: "job " + holder + " holds its unique key", Left: left(e.fix, "the other job has it")})
		return
	}
	e.found("unique-key-not-held", j.id, func() { q.takeKey(j, e.now) }, "nobody holds its unique key %q", j.Unique.Key)
}

func left(fix bool, why string) string {
	if fix {
		return why
	}
	return ""
}

// turn examines a pending job's place in line and its neighbours.
func (e *examiner) turn(q *queue, j *job) {
	r := &q.ready[j.Priority-1]
	if (j.prev == nil && r.first != j) || (j.next == nil && r.last != j) || (j.prev != nil && j.prev.next != j) || (j.next != nil && j.next.prev != j) {
		e.found("job-without-place", j.id, func() { r.relink(q, int(j.Priority)) }, "it is pending and has no turn")
		return
	}
	if n := j.next; n != nil && (n.state != broker.StatePending || q.jobs.get(n.id) != n) {
		e.found("job-in-two-places", n.id, func() { r.remove(n) }, "it is %v and has a turn as well", n.state)
	}
	if r.first == j && j.prev != nil {
		e.found("job-without-place", j.prev.id, func() { r.relink(q, int(j.Priority)) }, "it stands before the first turn")
	}
}

// relink makes the line anew: those that had a turn first, in their order.
func (r *ready) relink(q *queue, priority int) {
	var order []*job
	seen := make(map[*job]bool)
	add := func(j *job) {
		if j.state == broker.StatePending && int(j.Priority) == priority && q.jobs.get(j.id) == j && !seen[j] {
			seen[j] = true
			order = append(order, j)
		}
	}
	for j, n := r.first, 0; j != nil && n <= q.jobs.len(); j, n = j.next, n+1 {
		add(j)
	}
	rest := q.bags[broker.StatePending].all()
	slices.SortFunc(rest, func(a, b *job) int { return cmp.Compare(a.seq, b.seq) })
	for _, j := range rest {
		add(j)
	}
	*r = ready{}
	for _, j := range order {
		r.pushBack(j)
	}
}

// lease examines who holds an active job.
func (e *examiner) lease(q *queue, j *job) {
	w := j.holder
	switch {
	case w == nil:
		e.found("lease-of-unknown-worker", j.id, func() { q.orphan(&worker{id: "unknown"}, j, e.now) }, "it is active, and nobody holds it")
	case q.holderOf(w.id) != w:
		e.found("lease-of-unknown-worker", j.id, func() { q.orphan(w, j, e.now) }, "its worker %s is not known", w.id)
	case w.ended && !slices.Contains(q.orphans, w):
		e.found("lease-of-unknown-worker", j.id, func() { q.orphans = append(q.orphans, w) }, "its worker %s ended, and nobody is told to take the job over", w.id)
	case !w.held.has(j):
		e.found("lease-count-differs", w.id, func() { w.held.add(j) }, "job %s is not among those of its worker", j.id)
	}
}

// orphan gives a job to an ended worker of that ID, for a reclaim to find.
func (q *queue) orphan(w *worker, j *job, now instant) {
	gone := q.holderOf(w.id)
	if gone == nil {
		gone = &worker{id: w.id, ended: true, until: now.plus(remembersEnded), held: bag{kind: byHolder}}
		q.ended[w.id] = gone
		q.lapseAt(gone.until, gone)
	}
	j.holder = gone
	gone.held.add(j)
	if j.cancelRequested {
		gone.cancels++
	}
	if gone.ended && !slices.Contains(q.orphans, gone) {
		q.orphans = append(q.orphans, gone)
	}
}

// places compares the sizes of all structures with the number of jobs. Only
// where they differ it looks at every entry.
func (e *examiner) places(q *queue) {
	for p := range q.ready {
		e.Records++
		if j := q.ready[p].first; j != nil && (j.state != broker.StatePending || q.jobs.get(j.id) != j) {
			e.found("entry-without-job", j.id, func() { q.ready[p].relink(q, p+1) }, "it has the first turn of priority %d and is not pending", p+1)
		}
	}
	e.suppressed(q)
	total := 0
	for _, s := range broker.States() {
		e.Records++
		total += q.count(s)
	}
	if total == q.jobs.len() {
		return
	}
	for _, s := range broker.States() {
		misplaced := func(j *job) bool { return q.jobs.get(j.id) != j || j.state != s }
		note := func(j *job, remove func()) {
			if q.jobs.get(j.id) == j {
				e.found("job-in-two-places", j.id, remove, "it is %v, and stands among those that are %v", j.state, s)
			} else {
				e.found("entry-without-job", j.id, remove, "it stands among those that are %v and is not stored", s)
			}
		}
		if timed(s) {
			for _, x := range q.times[s].all() {
				if misplaced(x.what) {
					note(x.what, func() { q.times[s].remove(x.at, x.seq) })
				}
			}
			continue
		}
		for _, j := range q.bags[s].all() {
			if misplaced(j) {
				note(j, func() { q.bags[s].without(j) })
			}
		}
	}
}

// suppressed counts the dead jobs that are out of default lists.
func (e *examiner) suppressed(q *queue) {
	e.Records++
	n := int64(0)
	for _, x := range q.times[broker.StateDead].all() {
		if x.what.suppressed() {
			n++
		}
	}
	if n != q.suppressed {
		e.found("count-differs", "suppressed", func() { q.suppressed = n }, "%d dead jobs are suppressed, %d are counted", n, q.suppressed)
	}
}

func (t timeline[T]) all() (entries []entry[T]) {
	t.tree.Ascend(func(x entry[T]) bool {
		entries = append(entries, x)
		return true
	})
	return entries
}

// has reports whether a bag holds a job where the job says.
func (b *bag) has(j *job) bool {
	at := j.slots[b.kind]
	return int(at-b.first) < b.span() && *b.at(at) == j
}

// without takes a job out that may not know its position.
func (b *bag) without(j *job) {
	for p := b.first; p != b.end; p++ {
		if at := b.at(p); *at == j {
			*at = nil
			b.gaps++
			b.trim()
			return
		}
	}
}

func (e *examiner) key(q *queue, key string, b *bag) {
	for _, j := range b.all() {
		if q.jobs.get(j.id) != j || j.Key != key {
			e.found("key-entry-without-job", j.id, func() {
				if b.without(j); b.len() == 0 {
					delete(q.keys, key)
				}
			}, "the index of key %q leads to it, and it is gone or has another key", key)
		}
	}
}

func (e *examiner) hold(q *queue, key string, h hold) {
	if h.mode == broker.UniqueWindow {
		if !e.lapsing(q, window(key), h.until) {
			e.found("unique-window-never-lapses", key, func() { q.lapseAt(h.until, window(key)) }, "the window of the key is on no list of what lapses")
		}
		return
	}
	free := func() { delete(q.unique, key) }
	switch j := q.jobs.get(h.id); {
	case j == nil:
		e.found("unique-key-of-missing-job", h.id, free, "it holds the unique key %q and is not stored", key)
	case j.Unique.Key != key || j.state.Final() || h.mode == broker.UniqueUntilStarted && j.state == broker.StateActive:
		e.found("unique-key-of-ended-job", h.id, free, "it is %v and still holds the unique key %q", j.state, key)
	}
}

// worker examines what is noted of a worker beside its jobs.
func (e *examiner) worker(q *queue, id string, w *worker) {
	for _, j := range w.held.all() {
		if q.jobs.get(j.id) != j || j.holder != w {
			e.found("lease-without-job", j.id, func() { w.held.without(j) }, "worker %s holds it, and it is gone or another's", id)
		}
	}
	cancels := 0
	for _, j := range w.held.all() {
		if j.cancelRequested {
			cancels++
		}
	}
	if cancels != w.cancels {
		e.found("lease-count-differs", id, func() { w.cancels = cancels }, "it counts %d jobs that are asked to cancel, and holds %d", w.cancels, cancels)
	}
	if q.workers[id] == w && q.ended[id] != nil {
		e.found("worker-alive-and-ended", id, func() { delete(q.workers, id); q.orphanAll(w, e.now) }, "it is alive, and its ID was ended")
	}
	if w.ended && q.ended[id] == w && !e.lapsing(q, w, w.until) {
		e.found("worker-leftover", id, func() { q.lapseAt(w.until, w) }, "it ended, and nothing ends the memory of that")
	}
}

func (q *queue) orphanAll(w *worker, now instant) {
	for _, j := range w.held.all() {
		q.orphan(w, j, now)
	}
}
