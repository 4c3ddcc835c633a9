package shardbroker

import (
	"context"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Keys merges the keys of all shards into one list. Each shard has the policy of a key, but
// only one has its jobs. §33.
func (b *Broker) Keys(ctx context.Context, req broker.KeysRequest) (broker.KeysReply, error) {
	if err := req.Check(b.limits); err != nil {
		return broker.KeysReply{}, err
	}
	var reply broker.KeysReply
	if len(req.Names) > 0 {
		answers := ask(ctx, b.shards, func(s *shard) (broker.KeysReply, error) { return s.Broker.Keys(ctx, req) })
		for _, a := range answers {
			reply.Now = later(reply.Now, a.got.Now)
			for _, k := range a.got.Keys {
				reply.Keys = addKey(reply.Keys, k)
			}
		}
		return reply, failed(answers)
	}
	l := listing[broker.KeyInfo, string]{at: func(k *broker.KeyInfo) string { return k.Key }, ordered: true, same: true,
		fetch: func(s *shard, cursor string, limit int) (leaf[broker.KeyInfo], error) {
			own := req
			own.Cursor, own.Limit = cursor, limit
			got, err := s.Broker.Keys(ctx, own)
			return leaf[broker.KeyInfo]{got.Now, got.Keys, got.Cursor}, err
		}}
	page, err := l.page(ctx, b.shards, req.Cursor, req.Limit)
	reply.Now, reply.Cursor = page.now, page.cursor
	for _, k := range page.items {
		reply.Keys = addKey(reply.Keys, k)
	}
	return reply, broker.About(err, "keys", req.Queue, "")
}

// addKey adds what a shard reports about a key.
func addKey(all []broker.KeyInfo, k broker.KeyInfo) []broker.KeyInfo {
	i := slices.IndexFunc(all, func(o broker.KeyInfo) bool { return o.Key == k.Key })
	if i < 0 {
		return append(all, k)
	}
	to := &all[i]
	if k.Depth+k.Active > 0 || k.Head != "" {
		to.Block, to.Until, to.Head = k.Block, k.Until, k.Head
	}
	to.Pending, to.Active, to.Depth = to.Pending+k.Pending, to.Active+k.Active, to.Depth+k.Depth
	to.Oldest = earlier(to.Oldest, k.Oldest)
	return all
}
