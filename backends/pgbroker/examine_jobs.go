package pgbroker

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// jobFacts is what examine_jobs.sql returns about a job.
type jobFacts struct {
	id string
	owner
	state     int16
	runAt     *int64
	held      *string
	worker    *int64
	lane      int16
	epoch     int64
	ended     int // how many of its leases have ended
	createdAt int64

	workerKnown   bool
	workerDrained bool
	workerID      string

	deadEpoch, historyEpoch *int64

	uniqueKey *string
	holder    *string
	holdEnds  *int64
	body      []byte // the beginning of the body, if the job does not hold its unique key
	keyCalled bool   // for a pending job with a key: claims know the key, or will look at it
	first     bool   // it is the first row of a queue that does not exist
}

func (f *jobFacts) columns() []any {
	return []any{&f.id, &f.number, &f.name, &f.layout, &f.state, &f.runAt, &f.held, &f.worker, &f.lane, &f.epoch, &f.ended,
		&f.createdAt, &f.workerKnown, &f.workerDrained, &f.workerID, &f.deadEpoch, &f.historyEpoch,
		&f.uniqueKey, &f.holder, &f.holdEnds, &f.body, &f.keyCalled, &f.first}
}

// jobs examines a page of the jobs that are not final.
func (e *examiner) jobs(ctx context.Context, after string, queue int64) (string, error) {
	page, err := e.look(ctx, e.b, after, queue, nil)
	if err != nil {
		return "", err
	}
	e.Records = len(page)
	for i := range page {
		f := &page[i]
		p := f.problem(e.Now)
		n := noted{Finding: told(p.code, f.String(), f.id, "%s", p.what)}
		switch n.Left = p.left; {
		case f.newer() || p.code == "":
			continue
		case p.code == "queue-record-missing":
			n = e.recover(f.owner, f.id)
		case p.left == "":
			n.repair = e.repairJob(f.id, f.number, p.code)
		}
		if err := e.note(ctx, n); err != nil {
			return "", err
		}
	}
	if len(page) < e.req.Limit {
		return "", nil
	}
	last := page[len(page)-1]
	return writePlace(last.id, last.number), nil
}

// look reads the facts of a page, or of the jobs with these IDs. It reads the clock after the
// facts, so that whatever had lapsed when it read a fact has lapsed by the clock, too.
func (e *examiner) look(ctx context.Context, on session, after string, queue int64, ids []string) (page []jobFacts, err error) {
	var now int64
	err = on.run(ctx, e.b.byIndex(true), e.b.step("examine_jobs", list(&page, (*jobFacts).columns), after, queue, e.req.Limit, ids),
		e.b.step("clock", one(&now), e.now.micros))
	if err == nil {
		e.Now = broker.FromMicros(now)
	}
	return page, err
}

// problem is something that is wrong with a job, or nothing.
type problem struct {
	code, what string
	left       string // why it cannot be repaired
}

// problem returns the first thing that is wrong with a job.
func (f *jobFacts) problem(now time.Time) problem {
	state := broker.State(f.state)
	differs := func(what string) problem {
		return problem{code: "state-differs", what: "it is " + state.String() + ", and " + what}
	}
	switch {
	case f.name == nil && f.first:
		return problem{code: "queue-record-missing"}
	case f.name == nil:
		return problem{}
	case f.deadEpoch != nil || f.historyEpoch != nil:
		return problem{code: "job-listed-twice", what: "it has a row in job, and one in the table of jobs that ended"}
	case !slices.Contains(stored, state):
		return problem{code: "state-unknown", what: "its row has a state that no version wrote"}
	case state == broker.StateActive && f.worker == nil:
		return differs("no worker has it")
	case state == broker.StateActive && !f.workerKnown:
		return problem{code: "lease-of-unknown-worker", what: "its worker is not known in its queue"}
	case state == broker.StateActive && f.workerDrained:
		return problem{code: "lease-of-unknown-worker", what: "its worker counts as having no lease left"}
	case state != broker.StateActive && f.worker != nil:
		return differs("a worker has it")
	case waits(state) && f.runAt == nil:
		return differs("has no due time")
	case state == broker.StateWaiting && !f.isHeld():
		return differs("its row does not say for what")
	case state != broker.StateWaiting && f.held != nil:
		return differs("its row says that it is held")
	case !waits(state) && state != broker.StateWaiting && f.runAt != nil:
		return differs("has a due time")
	case f.lane < 2 || f.lane > 9:
		return problem{code: "lane-unknown", what: "its lane is one that claims do not read"}
	case !f.keyCalled:
		return problem{code: "key-without-turn", what: "it is pending, and claims do not know of its key"}
	case !f.owesKey(now):
		return problem{}
	case f.holder != nil && (f.holdEnds == nil || *f.holdEnds > broker.Micros(now)):
		return problem{"unique-key-not-held", "job " + *f.holder + " holds its unique key", "the other job has it"}
	}
	return problem{code: "unique-key-not-held", what: "no job holds its unique key"}
}

// stored are the states that rows of table job can have.
var stored = []broker.State{broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry, broker.StateWaiting}

// isHeld reports whether column held names a holder and a former state that fits the due time:
// only a job that was pending has none.
func (f *jobFacts) isHeld() bool {
	if f.held == nil || f.runAt == nil {
		return false
	}
	from, by := heldOf(*f.held)
	return by != "" && (from == broker.StatePending && *f.runAt == 0 || waits(from) && *f.runAt > 0)
}

func waits(s broker.State) bool { return s == broker.StateScheduled || s == broker.StateRetry }

// owesKey reports whether the job must hold its unique key and does not.
func (f *jobFacts) owesKey(now time.Time) bool {
	if f.uniqueKey == nil || f.holder != nil && *f.holder == f.id {
		return false
	}
	if f.held != nil && f.holder != nil {
		if _, by := heldOf(*f.held); by == broker.Behind(*f.holder) {
			return false
		}
	}
	index := f.index()
	if index.Key != *f.uniqueKey || index.TTL > 0 && f.createdAt+broker.DurationMicros(index.TTL) <= broker.Micros(now) {
		return false
	}
	return index.Mode == broker.UniqueUntilDone ||
		index.Mode == broker.UniqueUntilStarted && broker.State(f.state) != broker.StateActive && f.ended == 0
}

// index returns what the body says about the unique key, nothing if it cannot be read.
func (f *jobFacts) index() broker.Unique {
	body, _ := broker.ParseBody(f.body) // the rest of the body was not read, so ignore the error
	return body.Unique
}
