package shardbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// align gives shards that came later the policies of queues, before a worker serves
// them there: each has its part of the limits then, and the others less. A mark has
// one process do it at a time. Limits are lowered before others are raised: who dies
// in between leaves less than the limit, which is to be set again.
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
	parts := make([]broker.Policy, len(b.shards))
	read := func() (missing bool, err error) {
		some := false
		req := broker.PolicyRequest{Queue: queue}
		for i, a := range ask(ctx, b.shards, func(s *shard) (broker.Policy, error) { return s.Broker.Policy(ctx, req) }) {
			if a.err != nil {
				return false, a.err
			}
			parts[i] = a.got
			missing, some = missing || !a.of.From.IsZero() && a.got == (broker.Policy{}), some || a.got != (broker.Policy{})
		}
		return missing && some, nil
	}
	if missing, err := read(); err != nil || !missing {
		return err
	}
	name := fmt.Sprintf("shard align %016x", hash(queue))
	mark := broker.MarkRequest{Action: broker.MarkTake, Name: name, Owner: fmt.Sprintf("%p %d", b, time.Now().UnixNano()), TTL: quietTime}
	for {
		got, err := b.Mark(ctx, mark)
		if err != nil {
			return err
		}
		if got.Held {
			mark.Fence = got.Fence
			break
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	defer func() {
		mark.Action = broker.MarkDrop
		_, _ = b.Mark(context.WithoutCancel(ctx), mark)
	}()
	missing, err := read()
	if err != nil || !missing {
		return err
	}
	sum := broker.Policy{}
	for i := range parts {
		if parts[i] != (broker.Policy{}) {
			sum = parts[i]
		}
	}
	for _, rule := range broker.Rules() {
		if divided[rule.Name] {
			n := int64(0)
			for i := range parts {
				n += rule.Of(&parts[i])
			}
			rule.Set(&sum, n)
		}
	}
	wanted := broker.PolicyFrom(queue, "", broker.Policy{}, sum)
	if err := wanted.Check(b.limits); err != nil {
		return err
	}
	for _, late := range []bool{false, true} {
		for i, s := range b.shards {
			if parts[i] == (broker.Policy{}) != late {
				continue
			}
			if _, err := s.Broker.Policy(ctx, partOf(wanted, i, b.parts)); err != nil {
				return s.note(ctx, err)
			}
		}
	}
	return b.alignKeys(ctx, queue)
}

// alignKeys gives shards that came later the policies of keys.
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
