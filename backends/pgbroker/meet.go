package pgbroker

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/seed81422ce9/jobs/broker"
)

// meeting decides about a new job that is not simply refused if another job holds its unique key
// (§39 to §41). In one transaction it locks the job that may be replaced, and decides.
type meeting struct {
	*flush // the flush of only this job
	job    entry

	met      bool // the job was decided; otherwise the key is free
	again    bool // nothing was done, since something changed meanwhile: try again
	unserved bool // nothing was done, since the queue does not serve the job yet
	wrote    bool // the job was stored, or replaced another one

	// What the look found.
	admit  error // why the queue does not admit such a job
	known  bool
	past   string // the job that an earlier enqueue of this one replaced
	holder string
	mode   int16
	behind string // the job that waits behind the holder
	locked lockedJob
}

// lockedJob is a row of meet_lock.sql.
type lockedJob struct {
	id, held       string
	state          int16
	runAt, created int64
	body           []byte
}

// behindWhom is the prefix of the column held of a job that waits behind another job. The ID of
// the other job follows.
var behindWhom = broker.Behind("")

// meet decides about the first of the jobs. It reports false if the unique key is free: then the
// job can be stored like any other.
func (b *Broker) meet(ctx context.Context, to port, rest *flush) (met bool, err error) {
	for range maxContested {
		m := &meeting{flush: rest.part(rest.jobs[:1]), job: rest.jobs[0]}
		err := to.meet(ctx, m)
		if errors.Is(err, errUndone) {
			err = nil
		}
		switch {
		case sqlState(err) == lockTimeout:
			m.job.fail(errContested)
			return true, nil
		case err != nil || !m.again:
			return m.met, err
		case m.unserved:
			if err := b.serve(ctx, to, m.flush); err != nil {
				return false, err
			}
		}
	}
	rest.jobs[0].fail(errContested)
	return true, nil
}

// errUndone makes the transaction or savepoint of a meeting roll back. The decision stands.
var errUndone = errors.New("nothing is to be stored")

func (p *ownPort) meet(ctx context.Context, m *meeting) error {
	err := p.b.transact(ctx, func(s session) error { return m.run(ctx, s, p.b.waker.message(1)) })
	if m.wrote && m.job.receipt.Replaced && m.job.Body.Unique.Conflict == broker.ConflictDebounce {
		p.b.waker.wake(m.queue, false)
	}
	return err
}

func (p *txPort) meet(ctx context.Context, m *meeting) error {
	return p.behindSavepoint(ctx, func(begin ...step) ([]step, error) {
		return nil, m.run(ctx, p.session, messageInTx(1), begin...)
	})
}

// run decides. Where nothing is stored it returns errUndone: the locks must not outlive the meeting, since the holder's
// worker waits for them when it settles.
func (m *meeting) run(ctx context.Context, s session, wake *wakeUp, begin ...step) error {
	err := m.decide(ctx, s, wake, begin...)
	if err == nil && !m.wrote {
		return errUndone
	}
	return err
}

func (m *meeting) decide(ctx context.Context, s session, wake *wakeUp, begin ...step) error {
	key, l := m.job.Body.Unique.Key, &m.locked
	steps := append(begin, m.b.step("settings", nil, nil, m.lockTimeout()),
		m.b.step("meet_lock", one(&l.id, &l.state, &l.runAt, &l.created, &l.held, &l.body), m.queue, key, behindWhom),
		m.b.step("meet_look", m.readLook, m.now.micros, m.queue, key, m.job.ID, behindWhom))
	if err := s.run(ctx, steps...); err != nil {
		return err
	}
	r := m.job.receipt
	switch {
	case m.admit != nil:
		m.met = true
		m.job.fail(m.admit)
		return nil
	case m.past != "":
		m.met, r.Replaced, r.ID, r.Holder = true, true, m.past, m.past
		return nil
	case m.known:
		m.refuse(m.job.ID)
		return nil
	case m.holder == "":
		return nil
	case m.mode == int16(broker.UniqueWindow) && l.id == "":
		m.refuse(m.holder) // the holder has ended, but its window has not
		return nil
	case l.id != cmp.Or(m.behind, m.holder):
		m.again = true
		return nil
	}
	switch state := broker.State(l.state); {
	case m.behind == "" && state == broker.StateActive && m.follows():
		return m.park(ctx, s)
	case m.behind == "" && !state.Editable():
		m.refuse(m.holder)
		return nil
	}
	return m.replace(ctx, s, wake)
}

func (m *meeting) readLook(r rows) error {
	var past, holder, behind zeronull.Text
	var rules []byte
	if err := one(&m.at, &rules, &m.known, &past, &holder, &m.mode, &behind)(r); err != nil {
		return err
	}
	m.past, m.holder, m.behind = string(past), string(holder), string(behind)
	policy, err := readPolicy(rules)
	m.admit = policy.Admit(m.job.NewJob)
	return err
}

// follows reports whether the job can run after an active holder.
func (m *meeting) follows() bool {
	u := m.job.Body.Unique
	return u.Conflict != broker.ConflictReplace && u.Mode == broker.UniqueUntilDone && m.mode == int16(broker.UniqueUntilDone)
}

func (m *meeting) refuse(holder string) {
	m.met = true
	m.job.refuse(holder)
}

// replace gives the locked job what the handler of the new job would read.
func (m *meeting) replace(ctx context.Context, s session, wake *wakeUp) error {
	l, u := &m.locked, m.job.Body.Unique
	body, err := broker.ReplaceContent(l.body, &m.job.Body)
	if err != nil {
		if m.refuse(l.id); !errors.Is(err, broker.ErrDuplicate) {
			m.job.fail(err)
		}
		return nil
	}
	state, runAt := broker.State(l.state), l.runAt
	steps := []step{m.b.step("operate_edit", nil, m.queue, l.id, body), m.b.step("meet_absorb", nil, m.now.micros, m.queue, m.job.ID, l.id)}
	if u.Conflict == broker.ConflictDebounce {
		due := min(m.due(m.job.NewJob), l.created+broker.DurationMicros(u.Latest))
		switch {
		case state == broker.StateWaiting:
			if runAt = 0; due > m.at {
				runAt = due
			}
			steps = append(steps, m.b.step("meet_postpone", nil, m.queue, l.id, broker.Behind(m.holder), runAt))
		case state == broker.StateRetry || due <= m.at && runAt <= m.at:
		default:
			var ids []string
			var states []int16
			steps = append(steps, m.b.step("operate_reschedule", one(&ids, &states, nil),
				m.now.micros, m.queue, []string{l.id}, &due, int64(0), wake.self, wake.payload(m.queue)))
			if state, runAt = broker.StatePending, 0; due > m.at {
				state, runAt = broker.StateScheduled, due
			}
		}
	}
	if err := s.run(ctx, steps...); err != nil {
		return err
	}
	r := m.job.receipt
	m.met, m.wrote, r.Replaced, r.ID, r.Holder = true, true, true, l.id, l.id
	r.State, r.RunAt = state, broker.FromMicros(runAt)
	return nil
}

// park stores the new job behind the locked one.
func (m *meeting) park(ctx context.Context, s session) error {
	q, err := m.b.room(ctx, s, m.queue)
	if err != nil {
		return err
	}
	if m.pastLimit = q.bounded; q.bounded {
		if err := m.b.lookKeys(m.flush, &q, func(look step) error { return s.run(ctx, look) }); err != nil {
			return err
		}
		if err := q.full(m.job.NewJob); err != nil {
			m.met = true
			m.job.fail(err)
			return nil
		}
	}
	m.token, m.keyless = nil, true // the other job keeps the key
	if err := s.run(ctx, m.store()); err != nil {
		return err
	}
	if !m.served {
		m.again, m.unserved = true, true
		return nil
	}
	if err := s.run(ctx, m.seal([]string{m.job.ID}, nil)); err != nil {
		return err
	}
	if m.stored != nil && len(m.stored) == 0 || m.flush.known[m.job.ID] {
		m.refuse(m.job.ID)
		return nil
	}
	var held int64
	if err := s.run(ctx, m.b.step("meet_behind", one(&held), m.queue, m.job.ID, m.job.Body.Unique.Key, m.holder,
		broker.Behind(m.holder))); err != nil {
		return err
	}
	if held == 0 { // the key's time ended, and another job has it
		m.again = true
		return nil
	}
	m.accept(m.job)
	m.met, m.wrote = true, true
	m.job.receipt.State, m.job.receipt.Holder = broker.StateWaiting, m.holder
	return nil
}
