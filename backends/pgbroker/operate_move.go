package pgbroker

import (
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

func (o *operating) reschedule(ctx context.Context, s session, chosen []*broker.OperationResult, ids []string) error {
	var runAt *int64
	delay := int64(0)
	if o.op.Delay > 0 {
		delay = o.now.after(o.op.Delay)
	} else if !o.op.RunAt.IsZero() {
		us := broker.Micros(o.op.RunAt)
		runAt = &us
	}
	var moved []string
	var states []int16
	wake := o.b.waker.message(false, len(ids))
	err := s.run(ctx, o.b.step("operate_reschedule", one(&moved, &states, nil),
		o.now.micros, o.queue, ids, runAt, delay, wake.self, wake.payload(o.queue)))
	went(chosen, moved, states)
	return err
}

// went fills in the new states of jobs.
func went(chosen []*broker.OperationResult, moved []string, states []int16) {
	to := make(map[string]broker.State, len(moved))
	for i, id := range moved {
		to[id] = broker.State(states[i])
	}
	for _, r := range chosen {
		r.State = to[r.Ref.ID]
	}
}

// move holds jobs, or gives them back the state that they had before they were held.
func (o *operating) move(ctx context.Context, s session, chosen []*broker.OperationResult, ids []string) error {
	if o.op.Kind == broker.OpHold {
		for _, r := range chosen {
			r.State = broker.StateWaiting
		}
		return s.run(ctx, o.b.step("operate_hold", nil, o.queue, ids, o.op.Holder))
	}
	var back []string
	var states []int16
	wake := o.b.waker.message(false, len(ids))
	err := s.run(ctx, o.b.step("operate_unhold", one(&back, &states, nil), o.queue, ids, wake.self, wake.payload(o.queue)))
	went(chosen, back, states)
	return err
}

// edit replaces a payload within the stored body.
func (o *operating) edit(ctx context.Context, s session, r *broker.OperationResult) error {
	var body []byte
	if err := s.run(ctx, o.b.step("operate_body", one(&body), o.queue, r.Ref.ID)); err != nil {
		return err
	}
	body, err := broker.ReplacePayload(body, o.op.Payload)
	if errors.Is(err, broker.ErrNewerForm) || errors.Is(err, broker.ErrMalformed) {
		r.Err = err
		return nil
	}
	return s.run(ctx, o.b.step("operate_edit", nil, o.queue, r.Ref.ID, body))
}
