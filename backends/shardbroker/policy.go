package shardbroker

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// Policy sets the rules in all shards. Each shard has its part of a limit of the whole
// queue, so that together they never exceed it. Servers move the parts to the shards that
// need them, except those of a rate with a Per of more than a minute, and of numbers of
// records to keep. A limit is at least the number of shards. The rules of keys, and of a
// key, are the same in each shard. §1, §32, §33.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	if err := req.Check(b.limits); err != nil {
		return broker.Policy{}, err
	}
	if err := b.divides(&req); err != nil {
		return broker.Policy{}, broker.About(err, "policy", req.Queue, "")
	}
	lock, amended := b.amend(ctx, &req)
	defer lock.drop(ctx)
	got, err := b.setPolicy(ctx, req) // also if a shard is away: the others may have to pause
	if err == nil && amended != nil { // not %w: the call has taken effect
		err = fmt.Errorf("the rules were set, and may be undone by the change of shards that is under way; set them again: %v", amended)
	}
	return got, err
}

func (b *Broker) setPolicy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	part := false
	for which, total := range asked(&req) {
		if b.limits.NoMark || b.limits.NoFlow {
			break
		}
		if _, err := b.noteLimit(ctx, queueLimit{which, req.Queue}, total); err != nil {
			return broker.Policy{}, begun(part, err)
		}
		part = b.lends() // servers give the shards their parts of it
	}
	requests, more, err := b.lowered(ctx, req)
	if err != nil {
		return broker.Policy{}, begun(part, err)
	}
	answers := ask(ctx, b.shards, func(s *shard) (broker.Policy, error) { return s.Broker.Policy(ctx, *requests[s]) })
	part = part || some(answers)
	if err = failed(answers); err == nil && more {
		answers, err = b.raised(ctx, req)
	}
	if err != nil {
		return broker.Policy{}, begun(part, err)
	}
	if req.Key != "" {
		return answers[0].got, nil
	}
	policies := make([]broker.Policy, 0, b.parts)
	for _, a := range answers[:b.parts] {
		policies = append(policies, a.got)
	}
	all := whole(policies)
	if err := b.asSet(ctx, req.Queue, &all); err != nil {
		return broker.Policy{}, err
	}
	return all, nil
}

// asSet puts limits into a sum of parts as they were set: the parts are less while one moves, and more after a change of
// shards that was taken back, since the shards that did not join keep theirs.
func (b *Broker) asSet(ctx context.Context, queue string, all *broker.Policy) error {
	for _, which := range limits {
		if sum := which.Of(all); sum > 0 && b.lends() {
			total, _, err := b.limit(ctx, queueLimit{which, queue})
			if err != nil {
				return err
			}
			if total > 0 {
				which.Set(all, total)
			}
		}
	}
	return nil
}

// lowered divides a request. The part of a level that a shard has does not grow, and what it uses beyond that
// is not given to another; more says that parts can be raised when all others are lowered.
func (b *Broker) lowered(ctx context.Context, req broker.PolicyRequest) (requests map[*shard]*broker.PolicyRequest, more bool, err error) {
	requests = make(map[*shard]*broker.PolicyRequest, len(b.shards))
	for i, s := range b.shards {
		part := partOf(req, i, b.parts)
		requests[s] = &part
	}
	levels, infos, err := b.levelsOf(ctx, req)
	for v, total := range levels {
		shares, _ := v.shares(total, infos)
		for i, part := range lower(shares) {
			*v.field(requests[b.shards[i]]) = &part
			more = more || part < shares[i].wants
		}
	}
	return requests, more, err
}

// raised raises the parts of levels to what the limit leaves.
func (b *Broker) raised(ctx context.Context, req broker.PolicyRequest) ([]answer[broker.Policy], error) {
	levels, infos, err := b.levelsOf(ctx, req)
	if err != nil {
		return nil, err
	}
	requests := make(map[*shard]*broker.PolicyRequest, len(b.shards))
	for _, s := range b.shards {
		requests[s] = &broker.PolicyRequest{Queue: req.Queue}
	}
	for v, total := range levels {
		for i, part := range raise(v.shares(total, infos)) {
			*v.field(requests[b.shards[i]]) = &part
		}
	}
	answers := ask(ctx, b.shards, func(s *shard) (broker.Policy, error) { return s.Broker.Policy(ctx, *requests[s]) })
	return answers, failed(answers)
}

// levelsOf returns the levels that a request sets, and what the shards have of them.
func (b *Broker) levelsOf(ctx context.Context, req broker.PolicyRequest) (levels map[*level]int64, infos []*broker.QueueInfo, err error) {
	levels = make(map[*level]int64)
	if !b.lends() {
		return levels, nil, nil
	}
	for which, total := range asked(&req) {
		if v, ok := which.(*level); ok && total > 0 {
			levels[v] = total
		}
	}
	if len(levels) == 0 {
		return levels, nil, nil
	}
	queues, err := b.lookAt(ctx, req.Queue)
	return levels, queues[req.Queue], err
}

// divided has the names of the rules of which each shard has a part.
var divided = map[string]bool{"max_depth": true, "max_bytes": true, "max_active": true, "rate": true, "rate_burst": true,
	"retry_rate": true, "retry_rate_burst": true, "keep_completed_count": true, "keep_dead_count": true}

// divides refuses limits that are less than one for each shard.
func (b *Broker) divides(r *broker.PolicyRequest) error {
	for _, c := range r.Changes() {
		least := int64(b.parts)
		if n := c.Rule.Name; divided[n] && r.Key == "" && c.Value > 0 && c.Value < least && n != "rate_burst" && n != "retry_rate_burst" {
			hint := fmt.Sprintf("is %d, and there are %d shards; use %d or more, or the limits of a key", c.Value, least, least)
			return &broker.Error{Field: strings.ReplaceAll(n, "_", " "), Hint: hint, Err: broker.ErrUnsupported}
		}
	}
	return nil
}

// partOf returns the part of a request for the i-th of n shards. No part of a limit is less than one, since zero
// would be no limit: while shards change, there may be more shards than a limit allows jobs.
func partOf(r broker.PolicyRequest, i, n int) broker.PolicyRequest {
	if r.Key != "" {
		return r
	}
	part := func(v *int64) {
		if *v > 0 {
			*v = max(int64(portion(int(*v), n, i)), 1)
		}
	}
	for _, limit := range []**int64{&r.MaxDepth, &r.MaxBytes, &r.MaxActive} {
		replace(limit, part)
	}
	for _, rate := range []**broker.Rate{&r.Rate, &r.RetryRate} {
		replace(rate, func(r *broker.Rate) {
			part(&r.Jobs)
			r.Burst = int64(portion(int(r.Burst), n, i)) // of a burst a shard can have none
		})
	}
	for _, keep := range []**broker.Retention{&r.RetainCompleted, &r.RetainDead} {
		replace(keep, func(r *broker.Retention) { part(&r.Count) })
	}
	return r
}

// replace changes a copy of a field that is set, since shards share the original.
func replace[T any](field **T, change func(*T)) {
	if *field != nil {
		v := **field
		change(&v)
		*field = &v
	}
}

// whole returns the policy of which shards have these parts. A shard that is new may have
// none yet, or only what was set since. So the first one counts, which is an old one.
func whole(parts []broker.Policy) (all broker.Policy) {
	for i := range parts {
		if all == (broker.Policy{}) {
			all = parts[i]
		}
	}
	for _, rule := range broker.Rules() {
		if divided[rule.Name] {
			n := int64(0)
			for i := range parts {
				n += rule.Of(&parts[i])
			}
			rule.Set(&all, n)
		}
	}
	return all
}
