package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// slots are where handlers run. A slot is a goroutine, made when there is a
// job for it and kept; jobs wait in ready until a slot takes them. All of it
// is guarded by Server.mu.
type slots struct {
	ready   jobQueue
	careful jobQueue // wait for their turn, see suspects.go
	guarded int      // of these, that run
	running []*Run   // by slot
	headers []string // of the slots' goroutines in a trace
	waiting sync.Cond
	idle    int          // goroutines that wait
	waking  bool         // one of them was woken, or a new one made, and has not looked yet
	active  int          // handlers that have not returned
	holding int          // ready and active
	held    []int        // the same, by queue
	limit   []int        // of held, by queue; zero means none
	types   []typeLimit  // see types.go
	aside   []int        // jobs that wait for room of their type, by queue
	stuck   int          // handlers reported as stuck
	unstuck []StuckEvent // of those, who returned since the last look

	emptied bool
	empty   chan struct{} // closed when, after the drain began, no handler is left
	alive   int           // goroutines
	gone    chan struct{} // closed when, after the stop, no goroutine is left
}

func (p *slots) init(s *Server) {
	p.waiting.L = &s.mu
	p.held, p.limit = make([]int, len(s.names)), make([]int, len(s.names))
	for i, name := range s.names {
		p.limit[i] = s.opts.QueueConcurrency[name]
	}
	p.aside = make([]int, len(s.names))
	for _, l := range s.opts.TypeLimits {
		p.types = append(p.types, typeLimit{TypeLimit: l})
	}
	p.empty, p.gone = make(chan struct{}), make(chan struct{})
}

// A job that runs for long keeps what lies with it in memory. A small answer is
// left as it is, since copies cost time; of a larger one, jobs are copied with a few
// others.
const (
	wholeAnswer = 512 << 10
	keptBytes   = 32 << 10 // of others
	recordBytes = 600      // of a job without its payload, about
)

// acceptLocked takes over the jobs that a claim of w gave, which have so many bytes.
func (s *Server) acceptLocked(w *worker, jobs []broker.Job, size int, now time.Time) {
	together := len(jobs)
	if size += together * recordBytes; size > wholeAnswer {
		together = max(1, keptBytes*len(jobs)/size)
	}
	var records []broker.Job
	var runs []Run
	for i := range jobs {
		at := i % together
		if at == 0 {
			records = jobs[i:min(i+together, len(jobs))]
			if together < len(jobs) {
				records = slices.Clone(records)
			}
			runs = make([]Run, len(records))
		}
		j, r := &records[at], &runs[at]
		queue, limit := s.leaseLocked(w, j), s.limitOf(j.Type)
		if s.isDrain || w.lost || s.crowdedLocked(queue, limit) {
			s.settleLocked(w, j, broker.Release())
			continue
		}
		r.Job, r.server, r.parent = j, s, s.values
		r.worker, r.queue, r.limited, r.claimed = w, queue, limit, now
		if limit.putsAside() {
			s.putAsideLocked(r)
		} else {
			s.enterLocked(r, now)
		}
	}
	s.enterAsideLocked(now)
	s.occupyLocked()
}

// crowdedLocked reports whether a job of a queue is one too many, which can come
// when two claims crossed.
func (s *Server) crowdedLocked(queue int, limit *typeLimit) bool {
	p := &s.slots
	if limit.putsAside() {
		return s.asideRoomLocked(queue) == 0
	}
	return p.limit[queue] > 0 && p.held[queue] >= p.limit[queue] || p.holding >= s.opts.Concurrency+s.opts.Prefetch
}

// queueOf is the index of a queue by its name.
func (s *Server) queueOf(name string) int {
	if len(s.names) == 1 {
		return 0
	}
	return s.index[name]
}

// occupyLocked has a slot look at ready, if one is free. It wakes one at a time,
// which wakes the next before it runs its job: jobs that block all start, and
// those that do not block run in few goroutines.
func (s *Server) occupyLocked() {
	p := &s.slots
	switch {
	case p.waking || s.startableLocked() == nil:
	case p.idle > 0:
		p.waking = true
		p.waiting.Signal()
	case len(p.running) < s.opts.Concurrency:
		p.waking = true
		p.running, p.headers = append(p.running, nil), append(p.headers, "")
		p.alive++
		go s.slot(len(p.running) - 1)
	}
}

// slot runs jobs until the server stops.
func (s *Server) slot(i int) {
	var r *Run
	inHandler := false
	defer func() {
		if inHandler { // it called runtime.Goexit: another goroutine takes this slot
			outcome := s.policy.Exited(r)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.leaveLocked(i, r, outcome)
			go s.slot(i)
		}
	}()
	header := goroutineHeader()
	s.mu.Lock()
	s.slots.headers[i] = header
	s.slots.waking = false
	for r = s.nextLocked(i); r != nil; r = s.nextLocked(i) {
		s.mu.Unlock()
		inHandler = true
		outcome := s.perform(r)
		inHandler = false
		s.mu.Lock()
		s.leaveLocked(i, r, outcome)
		r = nil // the slot may be idle for long
	}
	s.mu.Unlock()
}

// nextLocked waits for a job and begins its run; it returns nil when the server has
// stopped. No run begins after the drain.
func (s *Server) nextLocked(i int) *Run {
	p := &s.slots
	q := s.startableLocked()
	for ; q == nil; q = s.startableLocked() {
		if s.stopped {
			if p.alive--; p.alive == 0 {
				close(p.gone)
			}
			return nil
		}
		p.idle++
		p.waiting.Wait()
		p.idle--
		p.waking = false
	}
	r := q.pop()
	p.running[i] = r
	p.active++
	if s.careful(r.Job) {
		p.guarded++
	}
	r.started = time.Now()
	r.limit(s.opts.Timeout, s.clock.at(r.started))
	if !r.end.IsZero() {
		s.lookout.by(r.end.Add(s.opts.StuckGrace))
	}
	s.occupyLocked()
	return r
}

// leaveLocked ends a run: its slot is free, its outcome is to be settled.
func (s *Server) leaveLocked(i int, r *Run, outcome broker.Outcome) {
	p := &s.slots
	p.running[i] = nil
	p.active--
	if s.careful(r.Job) {
		p.guarded--
	}
	s.exitLocked(r)
	now := time.Now()
	if r.stuck != nil {
		p.stuck--
		r.stuck.Overdue = now.Sub(r.stuck.since)
		p.unstuck = append(p.unstuck, *r.stuck)
		s.lookout.by(now)
	}
	s.fetcher.measure(now.Sub(r.started))
	s.enterAsideLocked(now)
	s.giveUpSurplusLocked()
	s.fetcher.freed(r.queue, now)
	if r.InTx {
		s.inTx.add(r.Job)
	}
	waited, ran := s.waitedLocked(r), measured(now.Sub(r.started))
	s.measureLocked(r.queue, waited, ran)
	s.settleAtLocked(r.worker, broker.Settlement{Job: r.Job, Outcome: r.leave(outcome), Waited: waited, Ran: ran}, now)
	s.checkEmptyLocked()
}

// checkEmptyLocked tells the drain when no handler is left.
func (s *Server) checkEmptyLocked() {
	if s.isDrain && s.slots.active == 0 && !s.slots.emptied {
		s.slots.emptied = true
		close(s.slots.empty)
	}
}

// unreadyLocked takes jobs that no handler has begun out of a queue, as long as they
// are of w (of any worker when it is nil) and were claimed before the time
// given, and releases them.
func (s *Server) unreadyLocked(q *jobQueue, w *worker, before time.Time) []broker.Ref {
	var released []broker.Ref
	for n := q.len(); n > 0; n-- {
		r := q.pop()
		if w != nil && r.worker != w || !r.claimed.Before(before) {
			q.push(r)
			continue
		}
		s.giveBackLocked(r)
		released = append(released, r.Job.Ref())
	}
	return released
}

// giveBackLocked releases a job that no handler has begun.
func (s *Server) giveBackLocked(r *Run) {
	s.exitLocked(r)
	s.settleLocked(r.worker, r.Job, broker.Release())
}

// unreadyAllLocked does so with all that has not begun.
func (s *Server) unreadyAllLocked(w *worker, now time.Time) (released []broker.Ref) {
	s.slots.eachQueue(func(q *jobQueue) { released = append(released, s.unreadyLocked(q, w, now.Add(1))...) })
	return released
}

// eachQueue calls f for each queue of runs that have not begun.
func (p *slots) eachQueue(f func(*jobQueue)) {
	f(&p.ready)
	f(&p.careful)
	for t := range p.types {
		f(&p.types[t].aside)
	}
}

// eachWaiting calls f for each run that has not begun.
func (p *slots) eachWaiting(f func(*Run)) {
	p.eachQueue(func(q *jobQueue) { q.each(f) })
}

// eachActiveLocked calls f for each run whose handler has not returned.
func (s *Server) eachActiveLocked(f func(*Run)) {
	for _, r := range s.slots.running {
		if r != nil {
			f(r)
		}
	}
}

// jobQueue is a first-in, first-out queue in a ring.
type jobQueue struct {
	ring  []*Run
	head  int
	count int
}

func (q *jobQueue) len() int   { return q.count }
func (q *jobQueue) peek() *Run { return q.ring[q.head] }

func (q *jobQueue) push(r *Run) {
	if q.count == len(q.ring) {
		ring := make([]*Run, max(64, 2*len(q.ring)))
		n := copy(ring, q.ring[q.head:])
		copy(ring[n:], q.ring[:q.head])
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.count)&(len(q.ring)-1)] = r
	q.count++
}

func (q *jobQueue) pop() *Run {
	r := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.count--
	return r
}

// at is the i-th run from the first.
func (q *jobQueue) at(i int) *Run { return *q.place(i) }

func (q *jobQueue) place(i int) **Run { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// take removes the i-th run. Those before it move up.
func (q *jobQueue) take(i int) *Run {
	r := q.at(i)
	for ; i > 0; i-- {
		*q.place(i) = q.at(i - 1)
	}
	q.pop()
	return r
}

func (q *jobQueue) each(f func(*Run)) {
	for i := range q.count {
		f(q.at(i))
	}
}
