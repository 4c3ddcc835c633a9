package pgbroker

import (
	"cmp"
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Enqueue stores the jobs of each queue in one round trip, or in several if one job depends
// on whether another one is stored. Each round trip is a transaction of its own. §18.
func (b *Broker) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	return b.enqueue(ctx, &ownPort{b, b}, req)
}

// port is where an enqueue happens: in transactions of its own, or in a transaction of the
// caller.
type port interface {
	// flush runs f and fills in its answer.
	flush(ctx context.Context, f *flush) error
	// byIndex runs a step whose plan must use an index.
	byIndex(ctx context.Context, s step) error
	// beside runs a step that prepares a queue for the jobs. Other transactions must see its
	// effect before they see the jobs.
	beside(ctx context.Context, s step) error
	// meet decides about a job that may replace another one.
	meet(ctx context.Context, m *meeting) error
	session
}

// ownPort stores every flush in a transaction of its own.
type ownPort struct {
	b *Broker
	session
}

func (p *ownPort) byIndex(ctx context.Context, s step) error {
	return p.run(ctx, p.b.byIndex(false), s)
}

func (p *ownPort) beside(ctx context.Context, s step) error { return p.run(ctx, s) }

func (p *ownPort) flush(ctx context.Context, f *flush) (err error) {
	pending := !f.any(func(j *broker.NewJob) bool { return later(j) || j.Body.Key != "" })
	lead := p.b.waker.announce(f.queue, pending, len(f.jobs))
	defer func() { p.b.waker.announced(f.queue, pending, len(f.jobs), lead, err) }()
	if f.restored() {
		return p.b.transact(ctx, func(s session) error { return f.restore(ctx, s, lead) })
	}
	if f.plain() {
		if err = p.run(ctx, f.storePlain(lead)); f.served || err != nil && sqlState(err) != uniqueViolation {
			return err
		}
	}
	err = p.run(ctx, append(f.prepare(nil), f.store(), f.seal(nil, lead))...)
	if err == nil && f.keeps {
		p.b.keeping.Store(f.queue, struct{}{})
	} else if err == nil && f.served {
		p.b.keeping.Delete(f.queue)
	}
	return err
}

func (b *Broker) enqueue(ctx context.Context, to port, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return nil, broker.About(err, "enqueue", "", "")
	}
	receipts := make([]broker.Receipt, len(req.Jobs))
	var order []string
	byQueue := make(map[string]*flush, 1)
	for i := range req.Jobs {
		job := &req.Jobs[i]
		receipts[i] = broker.Receipt{Queue: job.Queue, ID: job.ID}
		if receipts[i].Err = job.Check(b.Limits()); receipts[i].Err != nil {
			continue
		}
		f := byQueue[job.Queue]
		if f == nil {
			f = &flush{b: b, now: clockOf(req.Now), queue: job.Queue}
			byQueue[job.Queue] = f
			order = append(order, job.Queue)
		}
		f.jobs = append(f.jobs, entry{job, &receipts[i]})
	}
	for _, queue := range order {
		undecided, err := b.enqueueAll(ctx, to, byQueue[queue])
		if err != nil && len(undecided) == len(receipts) {
			return nil, broker.About(err, "enqueue", "", "")
		}
		fail(undecided, err)
	}
	return receipts, nil
}

// enqueueAll stores the jobs of one queue, run by run. It returns the jobs about which it could
// not decide, with the reason.
func (b *Broker) enqueueAll(ctx context.Context, to port, rest *flush) (left []entry, err error) {
	past := repeats{ids: make(map[string]bool), holders: make(map[string]string)}
	for contested := 0; len(rest.jobs) > 0; {
		if rest.jobs[0].Meets() {
			if met, err := b.meet(ctx, to, rest); err != nil {
				return rest.jobs, err
			} else if met {
				rest.jobs = rest.jobs[1:]
				continue
			}
		}
		room := len(rest.jobs)
		if _, limited := b.limited.Load(rest.queue); limited {
			var err error
			if room, err = b.bounded(ctx, to, rest); err != nil {
				return rest.jobs, err
			}
			if room == 0 {
				continue
			}
		}
		run := rest.cut(room)
		err := to.flush(ctx, run)
		switch {
		case sqlState(err) == lockTimeout:
			b.oneByOne(ctx, to, run)
			err = nil
		case err == nil && !run.served:
			err = b.serve(ctx, to, run)
			if err == nil {
				rest.again(run.jobs)
				continue
			}
		case err == nil:
			undecided := run.answer()
			if len(undecided) > 0 {
				contested++
			}
			if contested > maxContested {
				fail(undecided, errContested)
			} else {
				rest.again(undecided)
			}
			stored := past.note(run)
			if len(rest.jobs) > 0 && (len(run.jobs) == 0 || run.jobs[0].TakesRoom()) {
				err = past.refuse(ctx, to, rest, room-stored)
			}
			run = rest.part(nil) // decided
		}
		if err != nil {
			return append(run.jobs, rest.jobs...), err
		}
	}
	return nil, nil
}

// serve prepares a queue that did not take the jobs yet: it registers an unknown queue, or
// remembers that the queue has limits or keys.
func (b *Broker) serve(ctx context.Context, to port, f *flush) error {
	q, err := b.room(ctx, to, f.queue)
	switch {
	case err != nil:
		return err
	case q.layout == 0:
		return to.beside(ctx, b.step("register_queue", nil, []string{f.queue}))
	case q.layout > knownLayout:
		return checkLayout(q.layout)
	case q.bounded:
		b.limited.Store(f.queue, struct{}{})
	}
	if !q.keyed && f.any(func(j *broker.NewJob) bool { return j.Body.Key != "" }) {
		return to.beside(ctx, b.step("queue_keyed", nil, f.queue))
	}
	return nil
}

// oneByOne repeats a run that waited too long for a lock. Then only those jobs fail whose ID or
// unique key another transaction has taken and not committed.
func (b *Broker) oneByOne(ctx context.Context, to port, run *flush) {
	for i := 0; i < len(run.jobs); {
		n := 1
		for !careful(run.jobs[i].NewJob) && i+n < len(run.jobs) && !careful(run.jobs[i+n].NewJob) {
			n++
		}
		part := run.part(run.jobs[i : i+n])
		part.impatient = true
		switch err := to.flush(ctx, part); {
		case err == nil && part.served:
			fail(part.answer(), errContested)
		case err == nil, sqlState(err) == lockTimeout:
			fail(part.jobs, errContested)
		case ctx.Err() != nil:
			fail(run.jobs[i:], err)
			return
		default:
			fail(part.jobs, err)
		}
		i += n
	}
}

// maxContested is how often a job is tried again if its unique key was freed while the job was
// being refused because of it.
const maxContested = 5

// later reports whether a job may not become pending at once.
func later(j *broker.NewJob) bool {
	return j.Delay > 0 || !j.RunAt.IsZero() || j.Restore != nil
}

// careful reports whether the ID or unique key of a job can collide with jobs of other producers.
func careful(j *broker.NewJob) bool {
	return j.Body.GivenID || j.Body.Unique.Key != "" || j.Restore != nil
}
