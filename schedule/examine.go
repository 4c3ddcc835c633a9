package schedule

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// Examine finds schedules that do not tick as they should. `jobsctl doctor` shows
// its findings beside those of the store. With fix, Examine repairs what it can;
// it reports every finding either way. Use fix only while the store's clock is right:
// the repair of a schedule that sleeps for too long while the clock is behind makes
// it run ticks again. An error comes with a zero finding and ends the examination.
func (s *Schedules) Examine(ctx context.Context, fix bool) iter.Seq2[broker.Finding, error] {
	return func(yield func(broker.Finding, error) bool) {
		all, err := s.List(ctx)
		if err != nil {
			yield(broker.Finding{}, err)
			return
		}
		for i := range all {
			f, wrong := finding(&all[i])
			if !wrong {
				continue
			}
			if fix && f.Repair != "" {
				f.Fixed, f.Left, err = s.repair(ctx, all[i].ID)
			}
			if !yield(f, nil) {
				return
			}
			if err != nil {
				yield(broker.Finding{}, err)
				return
			}
		}
	}
}

// finding returns what is wrong with a schedule.
func finding(info *Info) (f broker.Finding, wrong bool) {
	f = broker.Finding{Queue: Queue, ID: info.ID, What: info.Error}
	switch info.Status {
	case StatusStopped:
		f.FindingKind = kinds.Of("schedule-stopped")
	case StatusUnreadable:
		f.FindingKind = kinds.Of("schedule-unreadable")
	case StatusFailing:
		f.FindingKind = kinds.Of("schedule-failing")
	case StatusLate:
		f.FindingKind = kinds.Of("schedule-late")
		f.What = fmt.Sprintf("its tick of %s is not enqueued", info.Due.Format(time.RFC3339))
		if info.Due.After(info.Now) {
			f.What = fmt.Sprintf("it sleeps past its tick of %s: the store's clock was ahead or is behind, or somebody put it off",
				info.Due.Format(time.RFC3339))
		}
		if info.Error != "" {
			f.What += ": " + info.Error
		}
	}
	return f, f.Code != ""
}

// repair revives a schedule whose job is dead, and wakes one that sleeps past
// its tick. It takes the store's clock for right.
func (s *Schedules) repair(ctx context.Context, id string) (fixed bool, left string, err error) {
	job, err := s.job(ctx, id)
	if errors.Is(err, broker.ErrNotFound) {
		return false, "it was deleted meanwhile", nil
	}
	if job == nil {
		return false, "", err
	}
	now, err := s.broker.Ping(ctx)
	if err != nil {
		return false, "", err
	}
	switch {
	case job.State == broker.StateDead:
		err = s.decideOn(ctx, broker.Operation{Kind: broker.OpRedrive}, job)
	case stopped(job) != "":
		return false, stopped(job), nil
	default:
		var lowered bool
		lowered, err = s.lower(ctx, job, now)
		switch {
		case err != nil:
		case (job.State == broker.StateRetry || job.State == broker.StateScheduled) && job.RunAt.Sub(now) > Grace:
			err = s.decideOn(ctx, broker.Operation{Kind: broker.OpReschedule}, job)
		case !lowered:
			return false, "it is due or about to be, and a server has to run it", nil
		}
	}
	if err != nil && !broker.StoreFailed(err) {
		return false, err.Error(), nil // another caller was first
	}
	return err == nil, "", err
}

// lower makes a schedule decide its ticks from now on if it would decide none until a time far ahead: that
// time was stored while the store's clock was ahead. Ticks that it ran until then are duplicates while the
// queue remembers their IDs.
func (s *Schedules) lower(ctx context.Context, job *broker.Job, now time.Time) (lowered bool, err error) {
	r, err := decode(job.Payload)
	if err != nil {
		return false, err
	}
	// First the definition: a run of the old one would raise the state again.
	if isAhead(r.Since, now) {
		r.Since = reserved.When(now)
		if err := s.decideOn(ctx, broker.Operation{Kind: broker.OpEdit, Payload: reserved.Encode(r)}, job); err != nil {
			return false, err
		}
		lowered = true
	}
	err = s.change(ctx, job.ID, func(st *state, now time.Time) error {
		if isAhead(st.Through, now) {
			st.Through, lowered = reserved.When(now), true
		}
		return nil
	})
	return lowered, err
}
