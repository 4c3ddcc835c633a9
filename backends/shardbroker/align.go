package shardbroker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// align gives new shards the policies of queues, before a worker serves the queues there.
// Each shard then has its part of the limits. A mark lets only one process at a time do it.
// It lowers the parts of the old shards before it gives the new shards theirs, so that the
// limit is never exceeded. If a process dies in between, the next one continues from the
// plan that it stored.
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
	plan := broker.MarkRequest{Name: fmt.Sprintf("shard plan %016x %d", hash(queue), b.routes.at.UnixMicro())}
	got, err := b.Mark(ctx, plan)
	if err != nil || string(got.Value) == planDone {
		return err
	}
	unlock, err := b.lock(ctx, b.Mark, fmt.Sprintf("shard align %016x", hash(queue)), time.Time{})
	if err != nil {
		return err
	}
	defer unlock()
	if got, err = b.Mark(ctx, plan); err != nil || string(got.Value) == planDone {
		return err
	}
	if err := b.alignKeys(ctx, queue); err != nil {
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
	plan, all, err = b.plan(ctx, plan, all)
	if err != nil {
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
	for _, late := range []bool{false, true} {
		for _, s := range b.shards {
			if s.From.IsZero() == late || all == (broker.Policy{}) {
				continue
			}
			if _, err := s.Broker.Policy(ctx, *requests[s]); err != nil {
				return s.note(ctx, err)
			}
		}
	}
	if more {
		if _, err := b.raised(ctx, wanted); err != nil {
			return err
		}
	}
	plan.Action, plan.Value = broker.MarkSet, []byte(planDone)
	_, err = b.Mark(ctx, plan)
	return err
}

const (
	planDone = "done"
	planTime = 30 * 24 * time.Hour // a change of shards is over by then
)

// plan stores the policy of the whole queue before its parts change. If an earlier process
// stored it, plan returns that policy, since the parts may no longer add up to it. All
// processes take the mark as the same owner, so the first value stays.
func (b *Broker) plan(ctx context.Context, req broker.MarkRequest, all broker.Policy) (broker.MarkRequest, broker.Policy, error) {
	value, _ := json.Marshal(all) // cannot fail: it has only numbers and flags
	req.Action, req.Owner, req.TTL, req.Value = broker.MarkTake, "plan", planTime, value
	got, err := b.Mark(ctx, req)
	if err != nil {
		return req, all, err
	}
	req.Fence = got.Fence
	all = broker.Policy{}
	return req, all, json.Unmarshal(got.Value, &all)
}

// alignKeys gives new shards the policies of keys.
func (b *Broker) alignKeys(ctx context.Context, queue string) error {
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
			if _, err := b.Policy(ctx, broker.PolicyFrom(queue, k.Key, broker.Policy{}, k.Policy)); err != nil {
				return err
			}
		}
		if req.Cursor = page.Cursor; req.Cursor == "" {
			break
		}
	}
	return nil
}
