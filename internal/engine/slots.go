package engine

import (
	"sync"
	"time"
)

// slots hold the runs of a server from their lease until their handler has returned: which
// wait, which may begin, and how many are held of each queue. A slot is a goroutine, made
// when there is a run for it and kept. slots neither call handlers nor settle: the functions
// below connect them to their server. Guarded by Server.mu, as are all methods.
//
// types.go has the limits of types, suspects.go the rules for jobs that crashed.
type slots struct {
	concurrency int
	crashBudget int              // of a job that sets none
	limit       []int            // of held, by queue; zero means none
	typeOf      func(string) int // the index of a type's limit, or -1
	types       []typeLimit

	spawn  func(slot int)                 // starts the goroutine of a slot
	freed  func(queue int, now time.Time) // a run of the queue no longer waits
	resume func()                         // no guarded run waits any more
	expire func(patience time.Duration)   // calls takeExpired after that

	ready         runQueue      // runs that wait for a slot
	guarded       runQueue      // guarded runs, which wait until few others run
	running       []*Run        // by slot
	aside         []int         // runs that wait for their type, by queue
	held          []int         // runs that may begin or have begun, by queue
	holding       int           // the same, in all
	active        int           // handlers that have not returned
	guardedActive int           // of these, those of guarded runs
	watched       time.Duration // how long the claiming loop has watched ready, see takeStale
	looked        time.Time     // when the loop last looked at ready

	waiting sync.Cond
	idle    int  // goroutines that wait
	waking  bool // one of them was woken, or a new one made, and has not looked yet
	closed  bool // the drain has begun: no run begins
	stopped bool // the goroutines end
	alive   int  // goroutines

	emptied bool
	empty   chan struct{} // closed when, after close, no handler is left
	gone    chan struct{} // closed when, after stop, no goroutine is left
}

// init makes the slots of a server with these queues, whose lock is mu.
func (p *slots) init(mu sync.Locker, names []string, o *Options) {
	*p = slots{
		concurrency: o.Concurrency, crashBudget: o.CrashBudget, typeOf: o.TypeLimitOf,
		limit: make([]int, len(names)), held: make([]int, len(names)), aside: make([]int, len(names)),
		empty: make(chan struct{}), gone: make(chan struct{}),
	}
	p.waiting.L = mu
	for i, name := range names {
		p.limit[i] = o.QueueConcurrency[name]
	}
	for _, l := range o.TypeLimits {
		p.types = append(p.types, typeLimit{TypeLimit: l})
	}
}

// full reports whether a queue is at its limit.
func (p *slots) full(queue int) bool { return p.limit[queue] > 0 && p.held[queue] >= p.limit[queue] }

// enter makes a run wait for a slot.
func (p *slots) enter(r *Run, now time.Time) {
	p.held[r.queue]++
	p.holding++
	if r.limited != nil {
		r.limited.holding++
	}
	if p.isGuarded(r.Job) {
		p.await(r, now)
		return
	}
	r.since = p.watched
	p.ready.push(r)
}

// exit takes a run out of the counts. The caller has taken it out of its queue or slot.
func (p *slots) exit(r *Run) {
	if r.aside {
		r.aside = false
		p.aside[r.queue]--
		return
	}
	p.holding--
	p.held[r.queue]--
	if r.limited != nil {
		r.limited.holding--
	}
}

// occupy makes an idle slot look for a run, if one may begin. It wakes one goroutine at a
// time, which wakes the next before it calls its handler: so handlers that block all
// start, and those that do not block run in few goroutines.
func (p *slots) occupy() {
	switch {
	case p.waking || p.startable() == nil:
	case p.idle > 0:
		p.waking = true
		p.waiting.Signal()
	case len(p.running) < p.concurrency:
		p.waking = true
		p.running = append(p.running, nil)
		p.alive++
		p.spawn(len(p.running) - 1)
	}
}

// next waits for a run that may begin and puts it into a slot. It returns nil after stop.
// It unlocks Server.mu while it waits.
func (p *slots) next(slot int) *Run {
	q := p.startable()
	for ; q == nil; q = p.startable() {
		if p.stopped {
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
	p.running[slot] = r
	p.active++
	if p.isGuarded(r.Job) {
		p.guardedActive++
		p.resume() // no job was claimed while it waited
	}
	return r
}

// leave frees the slot of a run whose handler has returned.
func (p *slots) leave(slot int, r *Run) {
	p.running[slot] = nil
	p.active--
	if p.isGuarded(r.Job) {
		p.guardedActive--
	}
	p.exit(r)
}

// close lets no more runs begin. Those that wait stay.
func (p *slots) close() { p.closed = true }

// checkEmpty closes empty when, after close, no handler is left.
func (p *slots) checkEmpty() {
	if p.closed && p.active == 0 && !p.emptied {
		p.emptied = true
		close(p.empty)
	}
}

// stop ends the goroutines, and returns how many there are. gone is closed when the last
// one has ended.
func (p *slots) stop() (alive int) {
	p.stopped = true
	p.waiting.Broadcast()
	return p.alive
}

// eachQueue calls f for each queue of runs that have not begun.
func (p *slots) eachQueue(f func(*runQueue)) {
	f(&p.ready)
	f(&p.guarded)
	for t := range p.types {
		f(&p.types[t].aside)
	}
}

// eachWaiting calls f for each run that has not begun.
func (p *slots) eachWaiting(f func(*Run)) {
	p.eachQueue(func(q *runQueue) { q.each(f) })
}

// eachActive calls f for each run whose handler has not returned.
func (p *slots) eachActive(f func(*Run)) {
	for _, r := range p.running {
		if r != nil {
			f(r)
		}
	}
}

// find calls f for each run of a job, begun or not.
func (p *slots) find(queue, id string, f func(*Run)) {
	match := func(r *Run) {
		if r.Job.ID == id && r.Job.Queue == queue {
			f(r)
		}
	}
	p.eachActive(match)
	p.eachWaiting(match)
}
