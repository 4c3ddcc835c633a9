package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// Queue is the reserved queue whose jobs are schedules.
const Queue = broker.ReservedPrefix + "schedules"

const (
	jobType = "schedule"
	jobKey  = "schedule" // the partition key of schedules: List finds them by it, in any state

	runTimeout = time.Minute // of one run of a schedule
)

// Schedules are the schedules of one store. They are safe for concurrent use. Calls
// take at most a few seconds. A call makes several to the store. After an error of the
// store, even ErrUnavailable, a part of it may have taken effect; each can be repeated,
// but RunNow may then run the schedule twice.
type Schedules struct {
	broker  broker.Broker
	owner   string
	missing atomic.Int64 // see Missing
	missed  tally        // see Missed
}

// New returns the schedules in the store of b. The owner names the program that
// puts them: an application or a part of it, the same in all its processes. It
// keeps two programs from using the same ID, and Sync from deleting other
// programs' schedules. Tools that put nothing can leave it empty.
func New(b broker.Broker, owner string) *Schedules {
	if b != nil {
		b = reserved.Bounded(b)
	}
	return &Schedules{broker: b, owner: owner}
}

// Change says what Put did.
type Change string

// What Put did.
const (
	Unchanged Change = "unchanged" // the store had the same definition: nothing was written
	Created   Change = "created"
	Updated   Change = "updated"
)

// Put creates a schedule, or updates the stored one. Call it when the program
// starts: if the stored definition is the same, it writes nothing. Ticks continue where they were. If
// the times change, ticks before the change do not count. An update keeps the pause and the counts.
//
// The error names the invalid field: a line that never fires, an unknown zone, an
// empty ID. It is ErrDuplicate if the schedule belongs to another owner. In these
// cases nothing was stored.
func (s *Schedules) Put(ctx context.Context, id string, spec Spec, task *jobs.Task, opts ...Option) (Change, error) {
	return s.put(ctx, Definition{ID: id, Spec: spec, Task: task, Options: opts})
}

func (s *Schedules) put(ctx context.Context, d Definition) (Change, error) {
	change, err := s.tryPut(ctx, d)
	return change, about(err, "put schedule", d.ID)
}

func (s *Schedules) tryPut(ctx context.Context, d Definition) (Change, error) {
	if err := s.check(ctx); err != nil {
		return "", err
	}
	wanted, err := newRecord(d, s.owner, s.broker.Limits())
	if err != nil {
		return "", err
	}
	var change Change
	err = reserved.Repeat(ctx, errAgain, func() error {
		now, err := s.broker.Ping(ctx)
		if err != nil {
			return err
		}
		wanted.Since, wanted.Born = reserved.When(now), reserved.When(now)
		stored, err := s.stored(ctx, d.ID)
		switch {
		case errors.Is(err, broker.ErrNotFound):
			change, err = Created, s.create(ctx, d.ID, wanted)
			return err
		case errors.Is(err, broker.ErrMalformed) && stored != nil: // edited by hand
			stored.record = &record{Owner: s.owner, Born: wanted.Born}
		case err != nil:
			return err
		}
		change, err = s.update(ctx, stored, wanted, now)
		return err
	})
	if err != nil {
		return "", err
	}
	return change, nil
}

// create stores a new schedule, due at once: its first run finds the first tick.
func (s *Schedules) create(ctx context.Context, id string, r *record) error {
	if s.broker.Limits().NoMark {
		return &broker.Error{Field: "schedule", Err: broker.ErrUnsupported, Hint: "the store has no marks, which schedules need"}
	}
	err := reserved.Put(ctx, s.broker, Queue, broker.NewJob{ID: id, Body: broker.Body{Type: jobType, TypeVersion: recordVersion,
		Payload: reserved.Encode(r), Key: jobKey, Source: r.Owner, Timeout: runTimeout}})
	if errors.Is(err, broker.ErrDuplicate) {
		return errAgain // another client was first
	}
	return err
}

// update changes a stored schedule to the wanted record.
func (s *Schedules) update(ctx context.Context, stored *storedSchedule, wanted *record, now time.Time) (Change, error) {
	job, have := stored.job, stored.record
	if have.Owner != s.owner {
		return "", &broker.Error{Field: "owner", Err: broker.ErrDuplicate,
			Hint: fmt.Sprintf("the schedule belongs to %q, and this program is %q; choose another ID, or delete that schedule first",
				have.Owner, s.owner)}
	}
	if job.State == broker.StateCompleted || job.State == broker.StateCancelled { // a record that a policy keeps
		if err := s.decideOn(ctx, broker.Operation{Kind: broker.OpDelete}, job); err != nil && !errors.Is(err, broker.ErrNotFound) {
			return "", err
		}
		return "", errAgain
	}
	wanted.Born, wanted.Paused = have.Born, have.Paused
	if wanted.sameTimes(have) {
		wanted.Since = have.Since
	}
	change, payload := Unchanged, reserved.Encode(wanted)
	if string(payload) != string(job.Payload) {
		change = Updated
		if job.State == broker.StateActive {
			return "", errAgain
		}
		if err := s.decideOn(ctx, broker.Operation{Kind: broker.OpEdit, Payload: payload}, job); err != nil {
			return "", again(err)
		}
		if job.State == broker.StateDead {
			job.Epoch = broker.AnyEpoch // the edit raised it
		}
	}
	switch {
	case job.State == broker.StateDead:
		change = Updated
		return change, again(s.decideOn(ctx, broker.Operation{Kind: broker.OpRedrive}, job))
	case change == Updated || sleepsPast(job, wanted, now):
		return change, s.wake(ctx, job.ID)
	}
	return change, nil
}

// sleepsPast reports whether a schedule sleeps past its next tick: the client that changed its times
// could not wake it. A run that ended late explains less than Grace.
func sleepsPast(job *broker.Job, r *record, now time.Time) bool {
	p, err := r.plan(job.ID)
	if err != nil {
		return false
	}
	next := p.dueBetween(now, now).next
	return !next.IsZero() && job.RunAt.Sub(next) > Grace
}

// wake makes a schedule run at once. A run that is not settled may have read the state before it was
// changed, so wake waits for its end, but only for a few seconds: the schedule of a server that died
// runs again when the lease ends. It ignores a schedule that cannot run or is gone.
func (s *Schedules) wake(ctx context.Context, id string) error {
	job := &broker.Job{Queue: Queue, ID: id, Head: broker.Head{Epoch: broker.AnyEpoch}}
	err := reserved.Repeat(ctx, errAgain, func() error {
		err := s.decideOn(ctx, broker.Operation{Kind: broker.OpReschedule}, job)
		if !errors.Is(err, broker.ErrWrongState) {
			return err
		}
		now, err := s.job(ctx, id)
		if err == nil && !now.State.Final() && now.State != broker.StateWaiting {
			err = errAgain
		}
		return err
	})
	if errors.Is(err, errAgain) || errors.Is(err, broker.ErrNotFound) {
		return nil
	}
	return err
}

// Synced says what Sync did, with the IDs of the schedules.
type Synced struct{ Created, Updated, Unchanged, Deleted []string }

// Sync puts these definitions and deletes the owner's other schedules, those that
// the code no longer defines. An invalid definition leaves everything as it was;
// the error is the one that Put would return, and names the ID. During a deploy, the process that starts
// last wins: do not let old processes start again after new ones.
func (s *Schedules) Sync(ctx context.Context, definitions ...Definition) (done Synced, err error) {
	if err := s.checkDefinitions(ctx, definitions); err != nil {
		return done, err
	}
	if err := broker.CheckName("owner", s.owner); err != nil { // it would be that of each schedule that cannot be read
		return done, about(err, "sync schedules", "")
	}
	named := make(map[string]bool)
	for _, d := range definitions {
		named[d.ID] = true
	}
	all, err := s.List(ctx)
	if err != nil {
		return done, err
	}
	for _, info := range all {
		if named[info.ID] && info.Owner != s.owner && info.Owner != "" {
			return done, about(&broker.Error{Field: "owner", Err: broker.ErrDuplicate,
				Hint: fmt.Sprintf("the schedule belongs to %q, and this program is %q", info.Owner, s.owner)}, "sync schedules", info.ID)
		}
	}
	for _, d := range definitions {
		change, err := s.put(ctx, d)
		if err != nil {
			return done, err
		}
		switch change {
		case Created:
			done.Created = append(done.Created, d.ID)
		case Updated:
			done.Updated = append(done.Updated, d.ID)
		default:
			done.Unchanged = append(done.Unchanged, d.ID)
		}
	}
	for _, info := range all {
		if info.Owner != s.owner || named[info.ID] {
			continue
		}
		if err := s.Delete(ctx, info.ID); err != nil && !errors.Is(err, broker.ErrNotFound) {
			return done, err
		}
		done.Deleted = append(done.Deleted, info.ID)
	}
	return done, nil
}

// checkDefinitions refuses invalid definitions, and two with the same ID.
func (s *Schedules) checkDefinitions(ctx context.Context, definitions []Definition) error {
	if err := s.check(ctx); err != nil {
		return about(err, "put schedules", "")
	}
	named := make(map[string]bool)
	for _, d := range definitions {
		_, err := newRecord(d, s.owner, s.broker.Limits())
		if err == nil && named[d.ID] {
			err = broker.Invalid("id", "is used by two definitions; give each its own")
		}
		if err != nil {
			return about(err, "put schedule", d.ID)
		}
		named[d.ID] = true
	}
	return nil
}

// Delete removes a schedule and its counts. Jobs that it enqueued stay. The error
// is ErrNotFound if the schedule does not exist.
func (s *Schedules) Delete(ctx context.Context, id string) error {
	return about(reserved.Repeat(ctx, errAgain, func() error {
		job, err := s.job(ctx, id)
		if err != nil {
			return err
		}
		if job.State == broker.StateActive {
			return errAgain
		}
		if err := s.decideOn(ctx, broker.Operation{Kind: broker.OpDelete}, job); err != nil {
			return again(err)
		}
		var st state
		r, err := decode(job.Payload)
		return s.states().Remove(ctx, id, &st, func() bool { return err != nil || st.Born.Equal(r.Born) })
	}), "delete schedule", id)
}

// Pause stops the ticks of a schedule until Resume. Ticks during the pause do not
// count as missed. Pausing again changes nothing. by says who paused it, for operators to see:
// a name of up to 255 bytes, or nothing.
func (s *Schedules) Pause(ctx context.Context, id, by string) error {
	if by != "" {
		if err := broker.CheckName("by", by); err != nil {
			return about(err, "pause schedule", id)
		}
	}
	return about(s.change(ctx, id, func(st *state, now time.Time) error {
		if st.Paused == nil {
			st.Paused = &Pause{At: reserved.When(now), By: by}
		}
		return nil
	}), "pause schedule", id)
}

// Resume ends a pause: the next tick is the first one after now. A tick that waited for the end of the
// previous job before the pause waits again.
func (s *Schedules) Resume(ctx context.Context, id string) error {
	waits := false
	err := s.change(ctx, id, func(st *state, now time.Time) error {
		if st.Paused != nil {
			st.Paused, st.Through = nil, later(st.Through, reserved.When(now))
		}
		waits = !st.Buffered.IsZero()
		return nil
	})
	if err == nil && waits { // a paused schedule sleeps until its next tick
		err = s.wake(ctx, id)
	}
	return about(err, "resume schedule", id)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// RunNow asks for one more job of a schedule, at once. It ignores a pause and the overlap policy. A
// server that runs schedules enqueues the job; RunNow returns the ID that the job will have. While the
// schedule runs, RunNow waits for the end of that run, for ten seconds at most.
func (s *Schedules) RunNow(ctx context.Context, id string) (jobID string, err error) {
	err = s.change(ctx, id, func(st *state, now time.Time) error {
		at := reserved.When(now)
		if !at.After(st.LastRun) {
			at = st.LastRun.Add(time.Microsecond)
		}
		if len(st.Runs) >= maxRuns {
			return &broker.Error{Field: "runs", Err: broker.ErrQueueFull,
				Hint: fmt.Sprintf("%d requested runs are not enqueued yet; is a server up?", maxRuns)}
		}
		st.Runs, st.LastRun, jobID = append(st.Runs, at), at, tick{At: at, Manual: true}.jobID(id)
		return nil
	})
	if err == nil {
		if failed := s.wake(ctx, id); failed != nil { // its own error can say that nothing was applied
			err = fmt.Errorf("%w: the run is requested, and comes when the schedule runs next: %v", broker.ErrOutcomeUnknown, failed)
		}
	}
	return jobID, about(err, "run schedule", id)
}

// maxRuns bounds the RunNow requests that wait for a server, because the schedule's state contains them.
const maxRuns = 100

// errAgain says that the schedule was running, or that another client changed it.
var errAgain = errors.New("the schedule was changed meanwhile")

// again adds errAgain to an error after which a repetition can succeed.
func again(err error) error {
	if errors.Is(err, broker.ErrWrongState) {
		return errors.Join(errAgain, err)
	}
	return err
}

func about(err error, op, id string) error { return broker.About(err, op, "", id) }
