package schedule

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// state is what a schedule has done. It is the value of a mark, whose fence
// orders the writers: one that was overtaken writes nothing.
type state struct {
	Version int       `json:"v"`
	Born    time.Time `json:"born"`
	Through time.Time `json:"through"` // ticks up to here were decided

	Pending  []tick      `json:"pending,omitempty"` // decided, and not known to be enqueued
	Cancel   *lastJob    `json:"cancel,omitempty"`  // the job to cancel before these are enqueued
	Buffered time.Time   `json:"buffered,omitzero"` // a tick that waits until the last one's job has ended
	Runs     []time.Time `json:"runs,omitempty"`    // requested by RunNow
	LastRun  time.Time   `json:"last_run,omitzero"` // the newest request of RunNow; the next must be later, since its time is in the job's ID
	Last     *lastJob    `json:"last,omitempty"`
	Paused   *Pause      `json:"paused,omitempty"`
	Counts   Counts      `json:"counts"`
	Error    string      `json:"error,omitempty"` // why the last tick is not enqueued
}

// lastJob is the job of the newest tick that was chosen to run. Before the tick is enqueued, it is where
// the definition puts the job; afterwards it is where the store has it.
type lastJob struct {
	Queue string    `json:"queue"`
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
}

// Counts says what became of a schedule's ticks since it was created. Each tick
// counts once. Ticks during a pause, before the start or after the end do not
// count.
type Counts struct {
	Enqueued int64 `json:"enqueued"` // became jobs, those of RunNow too

	// The others were missed, for these reasons.
	TooLate    int64 `json:"too_late"`   // they were older than the misfire window, or expired, before they could run
	TooMany    int64 `json:"too_many"`   // more were due at once than the misfire policy runs; the newest ran
	Overlapped int64 `json:"overlapped"` // the previous job had not ended, and the overlap policy dropped them
	Duplicate  int64 `json:"duplicate"`  // another job held their unique key
	Refused    int64 `json:"refused"`    // the store or the client's middleware refused the job for good
}

// Missed returns how many ticks did not become jobs, for any reason.
func (c Counts) Missed() int64 { return c.TooLate + c.TooMany + c.Overlapped + c.Duplicate + c.Refused }

// Pause says who paused a schedule, and when.
type Pause struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
}

const (
	stateVersion = 1
	// lostState is how far back a schedule runs ticks after the store lost its
	// state: as long as IDs are remembered, so that no tick runs twice.
	lostState = broker.DefaultDuplicateSpan
)

// states are the marks with the states of the schedules.
func (s *Schedules) states() reserved.States {
	return reserved.States{Broker: s.broker, Of: "schedule", Version: stateVersion}
}

// paused returns the pause of a schedule that was created paused, otherwise nil.
func (r *record) paused() *Pause {
	if r.Paused == "" {
		return nil
	}
	return &Pause{At: r.Born, By: r.Paused}
}

// firstState returns the state of a schedule that has none stored. If it has run
// before, the store has lost its state.
func firstState(r *record, runs int, now time.Time) state {
	s := state{Version: stateVersion, Born: r.Born, Through: r.Since, Paused: r.paused()}
	if back := now.Add(-lostState); runs > 0 && s.Through.Before(back) {
		s.Through = reserved.When(back)
	}
	return s
}

// take reads a schedule's state. Earlier readers of it can no longer write.
func (s *Schedules) take(ctx context.Context, id string, first state) (st state, fence int64, err error) {
	m, err := s.states().Take(ctx, id, first, &st)
	if err == nil && !st.Born.Equal(first.Born) {
		st = first // the state belongs to an earlier schedule with this ID
	}
	return st, m.Fence, err
}

// keep writes a schedule's state, unless another reader has taken it since.
func (s *Schedules) keep(ctx context.Context, id string, fence int64, st *state) error {
	return s.states().Keep(ctx, id, fence, broker.MaxDelay, st)
}

// change applies f to the state of a stored schedule. It tries again if another
// client or a run changes the state at the same time.
func (s *Schedules) change(ctx context.Context, id string, f func(st *state, now time.Time) error) error {
	return reserved.Repeat(ctx, reserved.ErrOvertaken, func() error {
		stored, err := s.stored(ctx, id)
		if err != nil {
			return err
		}
		now, err := s.broker.Ping(ctx)
		if err != nil {
			return err
		}
		st, fence, err := s.take(ctx, id, firstState(stored.record, stored.job.Deliveries, now))
		if err == nil {
			err = f(&st, now)
		}
		if err == nil {
			err = s.keep(ctx, id, fence, &st)
		}
		return err
	})
}
