package pgbroker

import (
	"context"
	"errors"
	"math/rand/v2"

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

// redriving has the dead jobs that a redrive tries to send back, as arguments of its
// statements.
type redriving struct {
	ids, keys []string
	tails     [][]byte

	// The unique keys that the jobs must take again.
	taken, takers []string
	modes         []int16
	ttls          []int64
}

// redrive sends dead jobs back to their queue. A job that held a unique key is sent back only if
// it gets the key again. If several jobs held the same key, the first one gets it.
func (o *operating) redrive(ctx context.Context, s session, chosen []*broker.OperationResult) error {
	var d redriving
	keyOf := make(map[string]string)
	seen := make(map[string]bool)
	for _, r := range chosen {
		j := &o.seen[r.Ref.ID].dead
		key := ""
		if j.Unique.Mode == broker.UniqueUntilDone {
			key = j.Unique.Key
		}
		keyOf[r.Ref.ID] = key
		if key != "" && seen[key] {
			continue
		}
		seen[key] = true
		d.add(j, key, o.now)
	}
	token := rand.Int64()
	back := make(map[string]bool)
	holders := make(map[string]string)
	wake := o.b.waker.message(false, len(d.ids))
	var steps []step
	if len(d.taken) > 0 {
		wait := lockWait
		if o.impatient {
			wait = lockWaitAgain
		}
		steps = append(steps, o.b.step("settings", nil, nil, milliseconds(wait)),
			o.b.step("enqueue_keys", nil, o.now.micros, o.queue, true, d.taken, d.takers, d.modes, d.ttls, token))
	}
	var sent []string
	steps = append(steps,
		o.b.step("operate_redrive", one(&sent, nil), o.queue, d.ids, d.tails, d.keys, token, wake.self, wake.payload(o.queue)),
		o.b.step("unique_holders", each(func(r rows) error {
			var key, holder string
			err := r.Scan(&key, &holder)
			holders[key] = holder
			return err
		}), o.queue, d.taken))
	if err := s.run(ctx, steps...); err != nil {
		return err
	}
	for _, id := range sent {
		back[id] = true
	}
	for _, r := range chosen {
		if back[r.Ref.ID] {
			r.State = broker.StatePending
		} else {
			r.Holder = holders[keyOf[r.Ref.ID]]
			r.Err = broker.Duplicate(r.Ref.ID, r.Holder)
		}
	}
	return nil
}

func (d *redriving) add(j *broker.Job, key string, now clock) {
	head := j.Head.Redriven()
	d.ids, d.keys, d.tails = append(d.ids, j.ID), append(d.keys, key), append(d.tails, broker.AppendTail([]byte{}, &head))
	if key == "" {
		return
	}
	ttl := int64(0)
	if j.Unique.TTL > 0 {
		ttl = now.after(j.Unique.TTL)
	}
	d.taken, d.takers = append(d.taken, key), append(d.takers, j.ID)
	d.modes, d.ttls = append(d.modes, int16(j.Unique.Mode)), append(d.ttls, ttl)
}
