package schedule

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

func (s *Schedules) check(ctx context.Context) error {
	switch {
	case s == nil || s.broker == nil:
		return broker.Invalid("schedules", "has no broker; make it with New and give it one")
	case ctx == nil:
		return broker.Invalid("context", "is nil; use context.Background()")
	}
	return nil
}

// decideOn carries out an operation on one job.
func (s *Schedules) decideOn(ctx context.Context, op broker.Operation, job *broker.Job) error {
	op.Refs = []broker.Ref{{Queue: job.Queue, ID: job.ID, Epoch: job.Epoch}}
	results, err := s.broker.Operate(ctx, op)
	if err == nil {
		err = results[0].Err
	}
	return err
}

// job returns a schedule's own job.
func (s *Schedules) job(ctx context.Context, id string) (*broker.Job, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	if err := checkID(id); err != nil {
		return nil, err
	}
	return reserved.Find(ctx, s.broker, Queue, id)
}

// storedSchedule is a schedule as the store has it.
type storedSchedule struct {
	job    *broker.Job
	record *record
}

// stored reads a schedule. If the record is malformed, the job comes with the
// error.
func (s *Schedules) stored(ctx context.Context, id string) (*storedSchedule, error) {
	job, err := s.job(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := decode(job.Payload)
	return &storedSchedule{job, r}, err
}
