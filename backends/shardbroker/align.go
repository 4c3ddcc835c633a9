package shardbroker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// align gives new shards the policies of queues, before a worker serves the queues there.
// Each shard then has its part of the limits. A mark lets only one process at a time do it.
// It lowers the parts of the old shards before it gives the new shards theirs, so that the
// limit is never exceeded. If a process dies in between, the next one continues from the
// plan that it stored, with what Policy changed since.
func (b *Broker) align(ctx context.Context, queues []string) error {
	if b.routes.former == nil {
		return nil
	}
	for _, queue := range queues {
		if err := b.alignQueue(ctx, queue); err != nil {
			return broker.About(err, "renew", queue, "")
		}
	}
	return nil
}

func (b *Broker) alignQueue(ctx context.Context, queue string) error {
	plan, lock, err := b.openPlan(ctx, queue)
	if lock == nil || err != nil {
		return err
	}
	defer lock.drop(ctx)
	if err := b.alignKeys(ctx, queue, lock); err != nil {
		return err
	}
	var parts []broker.Policy
	for _, a := range ask(ctx, b.shards, func(s *shard) (broker.Policy, error) {
		return s.Broker.Policy(ctx, broker.PolicyRequest{Queue: queue})
	}) {
		if a.err != nil {
			return a.err
		}
		parts = append(parts, a.got)
	}
	all := whole(parts)
	if err := b.asSet(ctx, queue, &all); err != nil {
		return err
	}
	if all, err = b.plan(ctx, &plan, all); err != nil {
		return err
	}
	wanted := broker.PolicyFrom(queue, "", broker.Policy{}, all)
	if err := wanted.Check(b.limits); err != nil {
		return err
	}
	requests, more, err := b.lowered(ctx, wanted)
	if err != nil {
		return err
	}
	for _, s := range b.shards { // the old ones first, see New
		if all == (broker.Policy{}) {
			break
		}
		if _, err := s.Broker.Policy(ctx, *requests[s]); err != nil {
			return s.note(ctx, err)
		}
	}
	if more {
		if _, err := b.raised(ctx, wanted); err != nil {
			return err
		}
	}
	return b.setPlan(ctx, plan, []byte(planDone))
}

const (
	planDone = "done"
	planTime = 30 * 24 * time.Hour // a change of shards is over by then
)

// openPlan returns the plan of a queue and, unless it is done, a lock under which one call at a
// time aligns the queue or changes its policies. Value has what another process planned, if anything.
func (b *Broker) openPlan(ctx context.Context, queue string) (plan broker.MarkRequest, lock *lock, err error) {
	plan = broker.MarkRequest{Name: fmt.Sprintf("shard plan %016x %d", hash(queue), b.routes.at.UnixMicro()), Owner: "plan", TTL: planTime}
	got, err := b.Mark(ctx, plan)
	if err != nil || string(got.Value) == planDone {
		return plan, nil, err
	}
	if lock, err = b.lock(ctx, b.Mark, fmt.Sprintf("shard align %016x", hash(queue)), time.Time{}); err != nil {
		return plan, nil, err
	}
	if got, err = b.Mark(ctx, plan); err != nil || string(got.Value) == planDone {
		lock.drop(ctx)
		return plan, nil, err
	}
	plan.Value = got.Value
	return plan, lock, nil
}

// plan stores the policy of the whole queue before its parts change. If an earlier process
// stored it, plan returns that policy, since the parts may no longer add up to it. All
// processes take the mark as the same owner, so the first value stays.
func (b *Broker) plan(ctx context.Context, plan *broker.MarkRequest, all broker.Policy) (broker.Policy, error) {
	plan.Value, _ = json.Marshal(all) // cannot fail: it has only numbers and flags
	plan.Action = broker.MarkTake
	got, err := b.Mark(ctx, *plan)
	if err != nil {
		return all, err
	}
	plan.Fence = got.Fence
	all = broker.Policy{}
	return all, json.Unmarshal(got.Value, &all)
}

func (b *Broker) setPlan(ctx context.Context, plan broker.MarkRequest, value []byte) error {
	plan.Action, plan.Value = broker.MarkSet, value
	got, err := b.Mark(ctx, plan)
	if err == nil && !got.Held {
		err = fmt.Errorf("%w: another process changes the policy, try again", broker.ErrUnavailable)
	}
	return err
}

// amend puts a change of a policy into the plan that a process left, so that the next one does
// not undo the change. Until the lock is dropped no process aligns the queue. If the wait for
// the lock takes too long, the change is made all the same, since a queue must be paused at once.
func (b *Broker) amend(ctx context.Context, req *broker.PolicyRequest) (*lock, error) {
	if end, ok := ctx.Deadline(); ok { // half of the time is for the change itself
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	if b.routes.former == nil || b.limits.NoMark || len(req.Changes()) == 0 {
		return nil, nil
	}
	plan, lock, err := b.openPlan(ctx, req.Queue)
	if lock == nil || err != nil || len(plan.Value) == 0 || req.Key != "" {
		return lock, err
	}
	all, err := b.plan(ctx, &plan, broker.Policy{})
	if err != nil {
		return lock, err
	}
	req.Apply(&all)
	value, _ := json.Marshal(all)
	return lock, b.setPlan(ctx, plan, value)
}

// alignKeys gives new shards the policies of keys.
func (b *Broker) alignKeys(ctx context.Context, queue string, lock *lock) error {
	req := broker.KeysRequest{Queue: queue, Limit: 1000}
	for !b.limits.NoFlow {
		page, err := b.Keys(ctx, req)
		if err != nil {
			return err
		}
		for _, k := range page.Keys {
			if k.Policy == (broker.Policy{}) {
				continue
			}
			if _, err := b.setPolicy(ctx, broker.PolicyFrom(queue, k.Key, broker.Policy{}, k.Policy)); err != nil {
				return err
			}
			if err := lock.keep(ctx); err != nil { // there may be many keys
				return err
			}
		}
		if err := lock.keep(ctx); err != nil { // perhaps none of these keys had a policy
			return err
		}
		if req.Cursor = page.Cursor; req.Cursor == "" {
			break
		}
	}
	return nil
}

type marker func(context.Context, broker.MarkRequest) (broker.Marked, error)

// lock is a mark that a call holds.
type lock struct {
	mark marker
	req  broker.MarkRequest
}

// lock waits for a mark and takes it, for at most quietTime. Each call uses its own owner,
// so that calls of one process exclude each other too.
func (b *Broker) lock(ctx context.Context, mark marker, name string, now time.Time) (*lock, error) {
	req := broker.MarkRequest{Now: now, Name: name, Action: broker.MarkTake, Owner: rand.Text(), TTL: quietTime}
	for {
		got, err := mark(ctx, req)
		if err != nil {
			return nil, err
		}
		if got.Held {
			req.Fence = got.Fence
			return &lock{mark, req}, nil
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// keep holds the mark for quietTime from now on. It fails if the time was over before.
func (l *lock) keep(ctx context.Context) error {
	req := l.req
	req.Action = broker.MarkKeep
	got, err := l.mark(ctx, req)
	if err == nil && !got.Held {
		err = fmt.Errorf("%w: the call took too long, and another one may have begun; try again", broker.ErrUnavailable)
	}
	return err
}

// drop frees the mark. A nil lock has none.
func (l *lock) drop(ctx context.Context) {
	if l != nil {
		req := l.req
		req.Action = broker.MarkDrop
		ctx, cancel := tidying(ctx)
		defer cancel()
		_, _ = l.mark(ctx, req)
	}
}
