package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// state is what a schedule has done. It is the value of a mark of the store,
// whose fence orders all who write it: one who was overtaken writes nothing.
type state struct {
	Version int       `json:"v"`
	Born    time.Time `json:"born"`
	Through time.Time `json:"through"` // ticks up to here were decided

	Pending  []tick      `json:"pending,omitempty"` // decided, and not known to be enqueued
	Cancel   *lastJob    `json:"cancel,omitempty"`  // to be cancelled before that
	Buffered time.Time   `json:"buffered,omitzero"` // a tick that waits for the end of the job before
	Runs     []time.Time `json:"runs,omitempty"`    // asked for by RunNow
	Last     *lastJob    `json:"last,omitempty"`
	Paused   *Pause      `json:"paused,omitempty"`
	Counts   Counts      `json:"counts"`
	Error    string      `json:"error,omitempty"` // why the last tick is not enqueued
}

// lastJob is the job of the last tick that was decided to run.
type lastJob struct {
	Queue string    `json:"queue"`
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
}

// Counts says what became of the ticks of a schedule since it was made. Each
// tick counts once. Those during a pause, and before the start or after the
// end, do not count.
type Counts struct {
	Enqueued int64 `json:"enqueued"` // became jobs, those of RunNow too

	// The others were missed, for these reasons.
	TooLate    int64 `json:"too_late"`   // when a server came to them they were older than the misfire window, or expired
	TooMany    int64 `json:"too_many"`   // several were due at once, and the misfire policy runs fewer; the newest were run
	Overlapped int64 `json:"overlapped"` // the job before had not ended, and the overlap policy dropped them
	Duplicate  int64 `json:"duplicate"`  // another job held their unique key
	Refused    int64 `json:"refused"`    // the store or the client's middleware refused the job for good
}

// Missed is how many ticks did not become jobs, for any reason.
func (c Counts) Missed() int64 { return c.TooLate + c.TooMany + c.Overlapped + c.Duplicate + c.Refused }

// Pause says who paused a schedule, and when.
type Pause struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
}

const (
	markPrefix   = "schedule:"
	markOwner    = "schedule"
	stateVersion = 1
	// lostState is how far a schedule goes back whose state the store has lost: as
	// long as IDs are remembered, so that no tick runs twice.
	lostState = broker.DefaultDuplicateSpan
)

var errOvertaken = errors.New("somebody else changed the schedule's state meanwhile")

// paused is the pause with which a schedule was made, if it was.
func (r *record) paused() *Pause {
	if r.Paused == "" {
		return nil
	}
	return &Pause{At: r.Born, By: r.Paused}
}

// firstState is that of a schedule which has none.
func firstState(r *record, runs int, now time.Time) state {
	s := state{Version: stateVersion, Born: r.Born, Through: r.Since, Paused: r.paused()}
	if back := now.Add(-lostState); runs > 0 && s.Through.Before(back) {
		s.Through = when(back)
	}
	return s
}

// take reads a schedule's state and makes who wrote it before unable to write
// it again.
func (s *Schedules) take(ctx context.Context, id string, first state) (st state, fence int64, err error) {
	value, err := json.Marshal(first)
	if err != nil {
		return st, 0, err
	}
	m, err := s.mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: markPrefix + id, Owner: markOwner,
		TTL: broker.MaxDelay, Value: value})
	if err != nil {
		return st, 0, err
	}
	if !m.Held {
		return st, 0, fmt.Errorf("the mark of the schedule is held by %q", m.Owner)
	}
	if err = json.Unmarshal(m.Value, &st); err != nil {
		return st, 0, fmt.Errorf("%w: the schedule's state: %w", broker.ErrMalformed, err)
	}
	if st.Version > stateVersion {
		return st, 0, &broker.Error{Field: "state", Err: broker.ErrNewerForm, Hint: "update this program"}
	}
	if !st.Born.Equal(first.Born) {
		st = first // of a schedule that had the ID before
	}
	return st, m.Fence, nil
}

// keep writes a schedule's state.
func (s *Schedules) keep(ctx context.Context, id string, fence int64, st *state) error {
	value, err := json.Marshal(st)
	if err != nil {
		return err
	}
	m, err := s.mark(ctx, broker.MarkRequest{Action: broker.MarkSet, Name: markPrefix + id, Owner: markOwner, Fence: fence,
		TTL: broker.MaxDelay, Value: value})
	if err == nil && !m.Held {
		err = errOvertaken
	}
	return err
}

// change changes the state of a stored schedule, against whoever does so at the
// same time.
func (s *Schedules) change(ctx context.Context, id string, f func(st *state, now time.Time) error) error {
	for attempt := 0; ; attempt++ {
		stored, err := s.stored(ctx, id)
		if err != nil {
			return err
		}
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		st, fence, err := s.take(ctx, id, firstState(stored.record, stored.job.Deliveries, now))
		if err != nil {
			return err
		}
		if err = f(&st, now); err != nil {
			return err
		}
		if err = s.keep(ctx, id, fence, &st); !errors.Is(err, errOvertaken) || attempt >= maxAttempts {
			return err
		}
	}
}

// maxAttempts bounds how often a change is tried again that somebody else
// crossed.
const maxAttempts = 50
