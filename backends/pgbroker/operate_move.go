package pgbroker

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/seed81422ce9/jobs/broker"
)

func (o *operating) reschedule(ctx context.Context, s session, chosen []*broker.OperationResult, ids []string) error {
	var runAt *int64
	if o.op.Delay <= 0 && !o.op.RunAt.IsZero() {
		runAt = new(broker.Micros(o.op.RunAt))
	}
	wake := o.b.waker.message(len(ids))
	return s.run(ctx, o.b.step("operate_reschedule", moved(chosen),
		o.now.micros, o.queue, ids, runAt, o.now.after(o.op.Delay), wake.self, wake.payload(o.queue)))
}

// unhold gives held jobs back the state that they had before.
func (o *operating) unhold(ctx context.Context, s session, chosen []*broker.OperationResult, ids []string) error {
	wake := o.b.waker.message(len(ids))
	return s.run(ctx, o.b.step("operate_unhold", moved(chosen), o.queue, ids, wake.self, wake.payload(o.queue)))
}

// moved reads the new states of jobs.
func moved(chosen []*broker.OperationResult) func(rows) error {
	return func(r rows) error {
		var ids []string
		var states []int16
		err := one(&ids, &states, nil)(r)
		to := make(map[string]broker.State, len(ids))
		for i, id := range ids {
			to[id] = broker.State(states[i])
		}
		for _, c := range chosen {
			c.State = to[c.Ref.ID]
		}
		return err
	}
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

// redrive sends dead jobs back to their queue. A job that held a unique key is sent back only if
// it gets the key again. If several jobs held the same key, the first one gets it.
func (o *operating) redrive(ctx context.Context, s session, chosen []*broker.OperationResult) error {
	var ids, keys []string
	var tails [][]byte
	var wanted wantedKeys
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
		if seen[key] = true; key != "" {
			wanted.add(j.Unique, j.ID, o.now)
		}
		head := j.Head.Redriven()
		ids, keys, tails = append(ids, j.ID), append(keys, key), append(tails, broker.AppendTail([]byte{}, &head))
	}
	token := rand.Int64()
	wake := o.b.waker.message(len(ids))
	var steps []step
	if len(wanted.keys) > 0 {
		steps = append(steps, o.b.step("settings", nil, nil, keyWait(o.impatient)), wanted.take(o.b, o.now, o.queue, true, &token))
	}
	var sent []string
	holders := make(map[string]string)
	steps = append(steps,
		o.b.step("operate_redrive", one(&sent, nil), o.queue, ids, tails, keys, token, wake.self, wake.payload(o.queue)),
		o.b.step("unique_holders", each(func(r rows) error {
			var key, holder string
			err := r.Scan(&key, &holder)
			holders[key] = holder
			return err
		}), o.queue, wanted.keys))
	if err := s.run(ctx, steps...); err != nil {
		return err
	}
	back := set(sent)
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
