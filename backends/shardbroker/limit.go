package shardbroker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// limits are the limits of a queue whose parts are lent. The others stay in fixed parts.
var limits = []limit{
	&level{ruled("max_active"), func(r *broker.PolicyRequest) **int64 { return &r.MaxActive }, activeUse, blocked},
	&level{ruled("max_depth"), func(r *broker.PolicyRequest) **int64 { return &r.MaxDepth }, depthUse, nearFull},
	&level{ruled("max_bytes"), func(r *broker.PolicyRequest) **int64 { return &r.MaxBytes }, bytesUse, nearFull},
	&rate{ruled("rate"), func(p *broker.Policy) time.Duration { return p.Rate.Per }, startsWait},
	&rate{ruled("retry_rate"), func(p *broker.Policy) time.Duration { return p.RetryRate.Per }, retriesWait},
}

// limit is a rule of which each shard has a part.
type limit interface {
	Of(p *broker.Policy) int64
	Set(p *broker.Policy, n int64)
	mark() string

	// lent reports whether a shard with this policy has a part that can be lent.
	lent(p *broker.Policy) bool
	// next returns the parts of the shards after the next step. since is the time since parts last moved.
	next(total int64, infos []*broker.QueueInfo, since time.Duration) []int64
}

// rule is the rule of a limit.
type rule struct{ *broker.Rule }

func ruled(name string) rule {
	all := broker.Rules()
	return rule{all[slices.IndexFunc(all, func(r *broker.Rule) bool { return r.Name == name })]}
}

// mark names the marks that store the whole limit: while a part moves, the parts add up to less.
func (r rule) mark() string { return strings.ReplaceAll(r.Name, "_", "-") }

// parts returns the part of each shard.
func (r rule) parts(infos []*broker.QueueInfo) []int64 {
	parts := make([]int64, len(infos))
	for i, q := range infos {
		parts[i] = r.Of(&q.Policy)
	}
	return parts
}

// asked returns the limits that a request sets for a queue; 0 for none.
func (b *Broker) asked(req *broker.PolicyRequest) map[limit]int64 {
	asked := make(map[limit]int64)
	if req.Key != "" || !b.lends() {
		return asked
	}
	for _, c := range req.Changes() {
		for _, which := range limits {
			if which.mark() == (rule{c.Rule}).mark() {
				asked[which] = c.Value
			}
		}
	}
	return asked
}

const limitOwner = "limit" // the owner of the marks of limits; the same for all processes, so that each can set them

// limit returns a limit as it was set, or 0 if no mark has it. fence is a number that changes whenever
// the limit is set.
func (b *Broker) limit(ctx context.Context, of queueLimit) (total, fence int64, err error) {
	got, err := b.Mark(ctx, broker.MarkRequest{Action: broker.MarkRead, Name: markOf(of.mark(), of.queue)})
	if err != nil || !got.Held {
		return 0, 0, err
	}
	total, err = strconv.ParseInt(string(got.Value), 10, 64)
	return total, got.Fence, err
}

// noteLimit stores a limit as it is set; 0 for none.
func (b *Broker) noteLimit(ctx context.Context, of queueLimit, total int64) (fence int64, err error) {
	req := broker.MarkRequest{Action: broker.MarkTake, Name: markOf(of.mark(), of.queue), Owner: limitOwner, TTL: broker.MaxDelay,
		Value: strconv.AppendInt(nil, max(total, 0), 10)}
	got, err := b.Mark(ctx, req)
	if err != nil {
		return 0, err
	}
	req.Action, req.Fence = broker.MarkSet, got.Fence
	if got, err = b.Mark(ctx, req); err == nil && !got.Held {
		return 0, fmt.Errorf("%w: another call sets the limit of queue %q, try again", broker.ErrUnavailable, of.queue)
	}
	return req.Fence, err
}
