package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/reserved"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// runner runs schedules in a server.
type runner struct {
	*Schedules
	client *jobs.Client
	log    *slog.Logger
}

const (
	// maxNap is how long a schedule sleeps at most, so that it notices new rules of its time zone, and
	// an edit whose client died before it woke the schedule.
	maxNap = 6 * time.Hour
	// retryPause is the pause after a run that failed.
	retryPause = 5 * time.Second
	// brokenPause is the pause of a schedule that only a newer program or a
	// repair can run.
	brokenPause = time.Minute
	// How often a schedule with a buffered tick checks whether the previous job
	// has ended: after a tenth of the time since that tick, within these bounds.
	pollMin, pollMax = time.Second, 30 * time.Second
)

// ProcessJob runs a schedule: it enqueues the ticks that are due and snoozes
// until the next one.
func (x *runner) ProcessJob(ctx context.Context, job *jobs.Job) error {
	nap, err := x.run(ctx, job)
	switch {
	case err == nil:
		return jobs.Snooze(nap)
	case errors.Is(err, reserved.ErrOvertaken):
		return jobs.Snooze(sleep.Jitter(pollMin, 0.9))
	case errors.Is(err, broker.ErrNewerForm) || errors.Is(err, broker.ErrMalformed) || errors.Is(err, broker.ErrInvalid):
		x.log.Error("jobs: a schedule cannot run here", "schedule", job.ID(), "error", err)
		return jobs.Snooze(sleep.Jitter(brokenPause, 0.5))
	}
	x.log.Warn("jobs: a schedule failed and runs again soon", "schedule", job.ID(), "error", err)
	return jobs.Snooze(sleep.Jitter(retryPause, 0.5))
}

// run handles the ticks that are due and returns how long the schedule may sleep.
// Each step can be repeated: the run after a crash finds the stored decision and
// carries it out.
func (x *runner) run(ctx context.Context, job *jobs.Job) (nap time.Duration, err error) {
	id := job.ID()
	r, err := decode(job.Payload())
	if err != nil {
		return 0, err
	}
	p, err := r.plan(id)
	if err != nil {
		return 0, err
	}
	now, err := x.broker.Ping(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	st, fence, err := x.take(ctx, id, firstState(r, job.Delivery(), now))
	if err != nil {
		return 0, err
	}
	counted := st.Counts
	keep := func() error {
		err := x.keep(ctx, id, fence, &st)
		if err == nil {
			x.missed.add(counted, st.Counts)
			counted = st.Counts
		}
		return err
	}
	next := time.Time{}
	for done := false; !done; {
		changed := false
		if done = len(st.Pending) == 0; done {
			if changed, next, err = x.decide(ctx, id, r, p, &st, now); err != nil {
				return 0, err
			}
			done = len(st.Pending) == 0
		}
		if changed {
			if err := keep(); err != nil {
				return 0, err
			}
		}
		if !done {
			failed := x.carryOut(ctx, id, r, &st)
			if err := keep(); err != nil {
				return 0, err
			}
			if failed != nil {
				return 0, failed
			}
		}
	}
	nap = maxNap
	now = now.Add(time.Since(began))
	if !next.IsZero() {
		nap = min(nap, next.Sub(now))
	}
	if !st.Buffered.IsZero() && st.Paused == nil {
		nap = min(nap, min(max(now.Sub(st.Buffered)/10, pollMin), pollMax))
	}
	return max(nap, 0), nil
}

// decide sets in st what becomes of the ticks that are due. It changes nothing
// else.
func (x *runner) decide(ctx context.Context, id string, r *record, p *plan, st *state, now time.Time) (
	changed bool, next time.Time, err error,
) {
	d := p.dueBetween(r.from(st.Through), now)
	for _, at := range st.Runs {
		st.Pending = append(st.Pending, tick{At: at, Manual: true})
	}
	changed = len(st.Runs) > 0 || !d.through.Equal(st.Through)
	st.Runs, st.Through = nil, d.through
	if st.Paused != nil {
		return changed, d.next, nil
	}
	if r.Expiry > 0 { // jobs of expired ticks could not run
		expired := func(at time.Time) bool { return !at.IsZero() && !at.Add(time.Duration(r.Expiry)).After(now) }
		if expired(st.Buffered) {
			st.Buffered, d.late, changed = time.Time{}, d.late+1, true
		}
		for len(d.ticks) > 0 && expired(d.ticks[0]) {
			d.ticks, d.late = d.ticks[1:], d.late+1
		}
	}
	st.Counts.TooLate += d.late
	st.Counts.TooMany += d.many
	if len(d.ticks) == 0 && st.Buffered.IsZero() {
		return changed, d.next, nil
	}
	busy := false
	if r.Overlap != OverlapAllow && st.Last != nil {
		if busy, err = x.unfinished(ctx, st.Last); err != nil {
			return false, next, err
		}
	}
	var chosen []time.Time
	if !st.Buffered.IsZero() && !busy {
		chosen, busy, st.Buffered = append(chosen, st.Buffered), true, time.Time{}
	}
	for _, at := range d.ticks {
		switch {
		case !busy || r.Overlap == OverlapAllow:
			chosen = append(chosen, at)
		case r.Overlap == OverlapBuffer && st.Buffered.IsZero():
			st.Buffered = at
		case r.Overlap == OverlapCancel:
			if len(chosen) > 0 {
				st.Counts.Overlapped += int64(len(chosen))
			} else {
				st.Cancel = st.Last
			}
			chosen = []time.Time{at}
		default:
			st.Counts.Overlapped++
		}
		busy = true
	}
	for _, at := range chosen {
		k := tick{At: at}
		st.Pending = append(st.Pending, k)
		st.Last = &lastJob{Queue: r.Job.Queue, ID: k.jobID(id), At: at}
	}
	return changed || len(d.ticks) > 0 || len(chosen) > 0, d.next, nil
}

// unfinished reports whether the job of a tick has not ended yet.
func (x *runner) unfinished(ctx context.Context, j *lastJob) (bool, error) {
	state, err := reserved.State(ctx, x.broker, j.Queue, j.ID)
	return state != broker.StateNone && !state.Final(), err
}

// carryOut enqueues the pending ticks and records the outcome in st.
func (x *runner) carryOut(ctx context.Context, id string, r *record, st *state) error {
	if st.Cancel != nil {
		ref := broker.Ref{Queue: st.Cancel.Queue, ID: st.Cancel.ID, Epoch: broker.AnyEpoch}
		results, err := x.broker.Operate(ctx, broker.Operation{Kind: broker.OpCancel, Refs: []broker.Ref{ref}})
		if err == nil && broker.StoreFailed(results[0].Err) {
			err = results[0].Err
		}
		if err != nil {
			return err
		}
		st.Cancel = nil
	}
	tasks := make([]*jobs.Task, len(st.Pending))
	for i, k := range st.Pending {
		tasks[i] = r.task(id, k)
	}
	var receipts []jobs.Receipt
	var err error
	if failed := guard.Call(func() { receipts, err = x.client.EnqueueMany(ctx, tasks) }); failed != nil { // middleware panicked
		err = failed
	}
	if len(receipts) < len(tasks) {
		st.Error = err.Error()
		return err
	}
	var left []tick
	var failed error
	st.Error = ""
	for i, k := range st.Pending {
		// Middleware can move the job, and a unique key can make it replace another one.
		j := &lastJob{Queue: receipts[i].Queue, ID: receipts[i].ID, At: k.At}
		err := receipts[i].Err
		stored := err == nil
		if errors.Is(err, broker.ErrDuplicate) {
			var unknown error
			if stored, unknown = x.isOf(ctx, id, r, k, j); unknown != nil {
				err = unknown
			}
		}
		switch {
		case stored:
			st.Counts.Enqueued++
			if st.Last != nil && !k.Manual && k.At.Equal(st.Last.At) {
				st.Last = j
			}
		case errors.Is(err, broker.ErrDuplicate): // its unique key is held
			st.Counts.Duplicate++
		case refusedForGood(err):
			st.Counts.Refused++
			st.Error = fmt.Sprintf("the tick of %s was refused: %v", k.At.Format(time.RFC3339Nano), err)
			x.log.Error("jobs: the job of a schedule's tick was refused", "schedule", id, "tick", k.At, "error", err)
		default:
			left, failed = append(left, k), err
			st.Error = err.Error()
		}
	}
	st.Pending = left
	return failed
}

// isOf reports whether the job that made a tick's job a duplicate is of that tick: then a run that was
// cut off has stored it.
func (x *runner) isOf(ctx context.Context, id string, r *record, k tick, j *lastJob) (bool, error) {
	if j.ID == k.jobID(id) || j.ID == "" {
		return j.ID != "", nil
	}
	page, err := x.broker.Find(ctx, broker.Query{Queue: j.Queue, IDs: []string{j.ID}, Suppressed: true, NoPayload: true})
	switch {
	case err != nil:
		return false, err
	case len(page.Jobs) == 0: // the holder of a unique key, or the tick's job under another ID, which has ended
		return r.Job.Unique.Key == "", nil
	}
	h := page.Jobs[0].Headers
	return h[HeaderSchedule] == id && h[HeaderTick] == k.header(), nil
}

// refusedForGood reports whether the same job would be refused again.
func refusedForGood(err error) bool {
	return errors.Is(err, broker.ErrInvalid) || errors.Is(err, broker.ErrTooLarge) || errors.Is(err, broker.ErrUnsupported) ||
		errors.Is(err, broker.ErrNewerForm)
}
