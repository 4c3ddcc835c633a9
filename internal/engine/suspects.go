package engine

import (
	"math"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// A job that kills its process takes down the jobs that run beside it. So a job whose
// server died during its run is guarded: it runs beside few others. After two crashes, or
// when the next crash would be its last, it is a suspect and runs alone. From the second
// crash on it is charged only if the store has a mark which says that its handler had
// begun (marks.go). So no job becomes dead because of another one.

const (
	suspectAfter = 2           // crashes
	patienceMin  = time.Second // how long a guarded run that waits keeps others from beginning, at first
	patienceMax  = time.Hour   // each wait in vain doubles it

	causeGuarded  = "guarded"  // of the snooze after a wait in vain
	causeUnmarked = "unmarked" // of the snooze when the mark of a guarded run cannot be stored
)

// budget returns how many crashes a job survives.
func (p *slots) budget(j *broker.Job) int {
	if j.CrashBudget > 0 {
		return j.CrashBudget
	}
	return p.crashBudget
}

// isGuarded reports whether a job crashed before, and has a crash budget.
func (p *slots) isGuarded(j *broker.Job) bool { return j.Crashes > 0 && p.budget(j) > 0 }

// company returns how many handlers may run while the job's does, itself included. With
// the square root, the innocent ones of n guarded jobs are done after the time of about
// 2√n runs; one at a time it would be n.
func (p *slots) company(j *broker.Job) int {
	switch {
	case !p.isGuarded(j):
		return p.concurrency
	case j.Crashes >= min(suspectAfter, p.budget(j)):
		return 1
	}
	return int(math.Ceil(math.Sqrt(float64(p.concurrency))))
}

// room returns how many handlers may run now: fewer than there are slots while a guarded
// run is among them.
func (p *slots) room() int {
	room := p.concurrency
	if p.guardedActive > 0 {
		p.eachActive(func(r *Run) { room = min(room, p.company(r.Job)) })
	}
	return room
}

// startable returns the queue whose first run may begin now, or nil. While a guarded run
// waits no other one begins, so that slots become free.
func (p *slots) startable() *runQueue {
	q := &p.ready
	if p.guarded.len() > 0 {
		q = &p.guarded
	}
	if p.closed || q.len() == 0 {
		return nil
	}
	if p.guarded.len() == 0 && p.guardedActive == 0 {
		return q
	}
	if p.active >= min(p.room(), p.company(q.peek().Job)) {
		return nil
	}
	return q
}

// await makes a guarded run wait, for a limited time, until few other handlers run.
func (p *slots) await(r *Run, now time.Time) {
	p.guarded.push(r)
	patience := sleep.Doubled(patienceMin, r.Job.PutOffFor(causeGuarded).Times, patienceMax)
	r.patient = now.Add(patience)
	p.expire(patience)
}

// takeExpired removes and returns the guarded runs that have waited for too long. Each
// time they wait longer, in the end longer than any handler runs.
func (p *slots) takeExpired(now time.Time) (expired []*Run) {
	for n := p.guarded.len(); n > 0; n-- {
		r := p.guarded.pop()
		if now.Before(r.patient) {
			p.guarded.push(r)
			continue
		}
		p.exit(r)
		expired = append(expired, r)
	}
	return expired
}
