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
	result meetResult

	// What the look found.
	admit  error // why the queue does not admit such a job
	known  bool
	past   string // the job that an earlier enqueue of this one replaced
	holder string
	mode   int16
	behind string // the job that waits behind the holder
	locked lockedJob
}

type meetResult int

const (
	keyFree     meetResult = iota // nothing was done: the job can be stored like any other
	meetAgain                     // nothing was done: something changed meanwhile
	meetServe                     // nothing was done: the queue does not serve the job yet
	meetDecided                   // the receipt is filled in, and nothing is to be stored
	meetStored                    // the job was stored, or replaced another one
)

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

// meet decides about the first of the jobs. It reports false if the unique key is free.
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
		case err != nil:
			return false, err
		case m.result == meetServe:
			if err := b.serve(ctx, to, m.flush); err != nil {
				return false, err
			}
		case m.result != meetAgain:
			return m.result != keyFree, nil
		}
	}
	rest.jobs[0].fail(errContested)
	return true, nil
}

// errUndone makes the transaction or savepoint of a meeting roll back. The decision stands.
var errUndone = errors.New("nothing is to be stored")

func (p *ownPort) meet(ctx context.Context, m *meeting) error {
	err := p.b.transact(ctx, func(s session) error { return m.run(ctx, s, p.b.waker.message(1)) })
	if m.result == meetStored && m.job.receipt.Replaced && m.job.Body.Unique.Conflict == broker.ConflictDebounce {
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
func (m *meeting) run(ctx context.Context, s session, wake *wakeUp, begin ...step) (err error) {
	m.result, err = m.decide(ctx, s, wake, begin...)
	if err == nil && m.result != meetStored {
		return errUndone
	}
	return err
}

func (m *meeting) decide(ctx context.Context, s session, wake *wakeUp, begin ...step) (meetResult, error) {
	key, l := m.job.Body.Unique.Key, &m.locked
	steps := append(begin, m.b.step("settings", nil, nil, m.lockTimeout()),
		m.b.step("meet_lock", one(&l.id, &l.state, &l.runAt, &l.created, &l.held, &l.body), m.queue, key, behindWhom),
		m.b.step("meet_look", m.readLook, m.now.micros, m.queue, key, m.job.ID, behindWhom))
	if err := s.run(ctx, steps...); err != nil {
		return 0, err
	}
	r, state := m.job.receipt, broker.State(l.state)
	switch {
	case m.admit != nil:
		m.job.fail(m.admit)
		return meetDecided, nil
	case m.past != "":
		r.Replaced, r.ID, r.Holder = true, m.past, m.past
		return meetDecided, nil
	case m.known:
		m.job.refuse(m.job.ID)
		return meetDecided, nil
	case m.holder == "":
		return keyFree, nil
	case m.mode == int16(broker.UniqueWindow) && l.id == "":
		m.job.refuse(m.holder) // it has ended, but its window has not
		return meetDecided, nil
	case l.id != cmp.Or(m.behind, m.holder):
		return meetAgain, nil
	case m.behind == "" && state == broker.StateActive && m.follows():
		return m.park(ctx, s)
	case m.behind == "" && !state.Editable():
		m.job.refuse(m.holder)
		return meetDecided, nil
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

// replace gives the locked job what the handler of the new job would read.
func (m *meeting) replace(ctx context.Context, s session, wake *wakeUp) (meetResult, error) {
	l, u := &m.locked, m.job.Body.Unique
	body, err := broker.ReplaceContent(l.body, &m.job.Body)
	if err != nil {
		if m.job.refuse(l.id); !errors.Is(err, broker.ErrDuplicate) {
			m.job.fail(err)
		}
		return meetDecided, nil
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
			steps = append(steps, m.b.step("operate_reschedule", nil,
				m.now.micros, m.queue, []string{l.id}, &due, int64(0), wake.self, wake.payload(m.queue)))
			if state, runAt = broker.StatePending, 0; due > m.at {
				state, runAt = broker.StateScheduled, due
			}
		}
	}
	if err := s.run(ctx, steps...); err != nil {
		return 0, err
	}
	r := m.job.receipt
	r.Replaced, r.ID, r.Holder = true, l.id, l.id
	r.State, r.RunAt = state, broker.FromMicros(runAt)
	return meetStored, nil
}

// park stores the new job behind the locked one.
func (m *meeting) park(ctx context.Context, s session) (meetResult, error) {
	q, err := m.b.room(ctx, s, m.queue)
	if err != nil {
		return 0, err
	}
	if m.pastLimit = q.bounded; q.bounded {
		if err := m.b.lookKeys(m.flush, &q, func(look step) error { return s.run(ctx, look) }); err != nil {
			return 0, err
		}
		if err := q.full(m.job.NewJob); err != nil {
			m.job.fail(err)
			return meetDecided, nil
		}
	}
	m.token, m.keyless = nil, true // the other job keeps the key
	if err := s.run(ctx, m.store()); err != nil {
		return 0, err
	}
	if !m.served {
		return meetServe, nil
	}
	if err := s.run(ctx, m.seal([]string{m.job.ID}, nil)); err != nil {
		return 0, err
	}
	if m.stored != nil && len(m.stored) == 0 || m.flush.known[m.job.ID] {
		m.job.refuse(m.job.ID)
		return meetDecided, nil
	}
	var held int64
	if err := s.run(ctx, m.b.step("meet_behind", one(&held), m.queue, m.job.ID, m.job.Body.Unique.Key, m.holder,
		broker.Behind(m.holder))); err != nil {
		return 0, err
	}
	if held == 0 { // the key's time ended, and another job has it
		return meetAgain, nil
	}
	m.accept(m.job)
	m.job.receipt.State, m.job.receipt.Holder = broker.StateWaiting, m.holder
	return meetStored, nil
}
