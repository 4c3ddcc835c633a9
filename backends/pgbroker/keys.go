package pgbroker

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/seed81422ce9/jobs/broker"
)

// Keys describes keys. It counts at most broker.MaxKeyCount jobs of each key. §33.
func (b *Broker) Keys(ctx context.Context, req broker.KeysRequest) (reply broker.KeysReply, err error) {
	defer about(&err, "keys", req.Queue)
	if err := cmp.Or(b.usable(ctx), req.Check(b.Limits())); err != nil {
		return reply, err
	}
	if req.Cursor != "" && broker.CheckName("cursor", req.Cursor) != nil {
		return reply, broker.Invalid("cursor", "%.64q is none that Keys gave; begin without one", req.Cursor)
	}
	var names []string
	limit := req.Limit
	if len(req.Names) > 0 {
		names, limit = req.Names, len(req.Names)
	}
	var at int64
	err = b.run(ctx, b.byIndex(true), b.step("clock", one(&at), clockOf(req.Now).micros), b.notNewer(req.Queue),
		b.step("keys", each(func(r rows) error {
			k, err := scanKey(r, at)
			reply.Keys = append(reply.Keys, k)
			return err
		}), req.Queue, names, req.Cursor, limit, broker.MaxKeyCount))
	if err != nil {
		return broker.KeysReply{}, err
	}
	reply.Now = broker.FromMicros(at)
	if n := len(reply.Keys); names == nil && n == limit {
		reply.Cursor = reply.Keys[n-1].Key
	}
	return reply, err
}

// scanKey reads a row of keys.sql.
func scanKey(r rows, now int64) (k broker.KeyInfo, err error) {
	var rules, own []byte
	var bucket broker.Bucket
	var oldest zeronull.Int8
	var head *string
	var state *int16
	err = r.Scan(&k.Key, &rules, &own, &bucket.At, &bucket.Used, &k.Pending, &k.Active, &k.Depth, &oldest, &head, &state)
	if err != nil {
		return k, err
	}
	queue, err := readPolicy(rules)
	if err != nil {
		return k, err
	}
	if k.Policy, err = readPolicy(own); err != nil {
		return k, err
	}
	k.Oldest = broker.FromMicros(int64(oldest))
	of := queue.OfKey(k.Policy)
	free, next := int64(1), int64(0)
	if of.Rate.Jobs > 0 {
		free, next = bucket.Free(of.Rate, now)
	}
	stopped := false
	if head != nil {
		k.Head, stopped = *head, broker.State(*state) != broker.StatePending
	}
	switch {
	case of.Paused:
		k.Block = broker.BlockPaused
	case stopped:
		k.Block = broker.BlockOrder
	case of.MaxActive > 0 && k.Active >= of.MaxActive:
		k.Block = broker.BlockActive
	case free == 0:
		k.Block, k.Until = broker.BlockRate, broker.FromMicros(next)
	}
	return k, nil
}
