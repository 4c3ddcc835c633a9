package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// A job that kills its process takes down the jobs that run beside it. So a job whose
// server died during its run is guarded: it runs beside few others. After two crashes, or
// when the next crash would be its last, it is a suspect and runs alone. From the second
// crash on it is charged only if the store has a mark which says that its handler had
// begun. So no job becomes dead because of another one.

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

const (
	markGrace = 24 * time.Hour // a mark outlives its run, so that a late reclaim finds it
	markOwner = "handler"
)

// marks records in the store which guarded jobs have begun: a job that crashed again is
// charged only if its handler had begun.
type marks struct {
	broker  broker.Broker
	log     *slog.Logger
	reports *guard.Reports
	lease   time.Duration
	off     bool // the store has no marks
}

// name returns the name of the mark of a job's lease. Deliveries rises when a lease is
// settled, and not when the job is reclaimed.
func (m *marks) name(j *broker.Job) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", j.Queue, j.ID, j.Deliveries))
	return "begun:" + hex.EncodeToString(sum[:])
}

// begin stores that the handler of a job begins. It returns the mark's fence, and false
// if the mark could not be stored; the job must not run then.
func (m *marks) begin(r *Run) (fence int64, ok bool) {
	ttl := broker.MaxDelay
	if !r.end.IsZero() {
		ttl = min(max(r.end.Sub(r.started), 0)+markGrace+10*m.lease, ttl)
	}
	marked, err := m.call(broker.MarkRequest{Name: m.name(r.Job), Action: broker.MarkTake, Owner: markOwner, TTL: ttl})
	if err != nil {
		m.reports.Report(m.log, "mark", slog.LevelWarn, "jobs: a job that crashed before cannot be marked as begun, it is snoozed",
			"queue", r.Job.Queue, "id", r.Job.ID, "type", r.Job.Type, "error", err)
	}
	return marked.Fence, err == nil && marked.Held
}

// end removes the mark: a later crash is not caused by the handler.
func (m *marks) end(j *broker.Job, fence int64) {
	if _, err := m.call(broker.MarkRequest{Name: m.name(j), Action: broker.MarkDrop, Owner: markOwner, Fence: fence}); err != nil {
		m.reports.Report(m.log, "mark", slog.LevelWarn, "jobs: the mark of a job that crashed before cannot be removed",
			"queue", j.Queue, "id", j.ID, "type", j.Type, "error", err)
	}
}

// had reports whether the handler of a reclaimed job had begun, and removes the
// mark.
func (m *marks) had(j *broker.Job) (begun bool, err error) {
	marked, err := m.call(broker.MarkRequest{Name: m.name(j), Action: broker.MarkRead})
	if err != nil || !marked.Held {
		return false, err
	}
	m.end(j, marked.Fence)
	return true, nil
}

func (m *marks) call(req broker.MarkRequest) (broker.Marked, error) {
	ctx, cancel := context.WithTimeout(context.Background(), serverCallTimeout)
	defer cancel()
	return m.broker.Mark(ctx, req)
}

// innocent returns, for each guarded job among those reclaimed, whether it is not charged
// because the store has no mark of it or the marks cannot be read.
func (m *marks) innocent(jobs []broker.Job, isGuarded func(*broker.Job) bool) map[*broker.Job]bool {
	found := make(map[*broker.Job]bool)
	var failed error
	for i := range jobs {
		j := &jobs[i]
		if !isGuarded(j) || m.off {
			continue
		}
		begun := false
		if failed == nil {
			begun, failed = m.had(j)
		}
		found[j] = !begun
	}
	if failed != nil {
		m.reports.Report(m.log, "mark", slog.LevelWarn,
			"jobs: the marks of a server that died cannot be read, its jobs go back without a charge", "error", failed)
	}
	return found
}
