package membroker

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Keys describes keys as of now. §33.
func (b *Broker) Keys(ctx context.Context, req broker.KeysRequest) (broker.KeysReply, error) {
	now, err := b.begin(ctx, "keys", req.Now, req.Check(b.Limits()))
	if err != nil {
		return broker.KeysReply{}, err
	}
	defer b.end()
	reply := broker.KeysReply{Now: now}
	q := b.store.queues[req.Queue]
	if q == nil {
		return reply, nil
	}
	for _, name := range req.Names {
		l := q.lane(name)
		if l == nil {
			l = &lane{name: name, rules: q.policy.OfKey(broker.Policy{})}
		}
		reply.Keys = append(reply.Keys, q.describeLane(l))
	}
	if len(req.Names) > 0 {
		return reply, nil
	}
	q.lanes.AscendGreaterOrEqual(named{key: req.Cursor}, func(n named) bool {
		switch l := n.lane; {
		case l.name == req.Cursor || l.depth()+l.counts[broker.StateActive] == 0 && l.own == broker.Policy{}:
		case len(reply.Keys) == req.Limit:
			reply.Cursor = reply.Keys[req.Limit-1].Key
			return false
		default:
			reply.Keys = append(reply.Keys, q.describeLane(l))
		}
		return true
	})
	return reply, nil
}

func (q *queue) describeLane(l *lane) broker.KeyInfo {
	info := broker.KeyInfo{Key: l.name, Pending: l.counts[broker.StatePending], Active: l.counts[broker.StateActive], Depth: l.depth(),
		Policy: l.own}
	var until int64
	if info.Block, until = q.judge(l); info.Block == broker.BlockRate {
		info.Until = broker.FromMicros(until)
	}
	if l.head != nil {
		info.Head = l.head.ID
	}
	if info.Pending == 0 {
		return info
	}
	next := l.head
	for p := broker.Priority(1); next == nil || next.State != broker.StatePending; p++ {
		next = q.first(l, p)
	}
	info.Oldest = next.CreatedAt
	return info
}
