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
func asked(req *broker.PolicyRequest) map[limit]int64 {
	asked := make(map[limit]int64)
	if req.Key != "" {
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

// level is a limit of what a queue has at one time, such as active jobs. A shard that has
// more than its new part keeps what it has.
type level struct {
	rule
	field func(r *broker.PolicyRequest) **int64
	// use returns what a shard has, and what it would have if the limit did not keep jobs back.
	use   func(q *broker.QueueInfo) (used, needs int64)
	waits func(s *share, least int64) bool
}

func activeUse(q *broker.QueueInfo) (used, needs int64) {
	used = q.Counts[broker.StateActive]
	return used, used + q.Counts[broker.StatePending]
}

func depthUse(q *broker.QueueInfo) (used, needs int64) {
	used = q.Counts[broker.StatePending] + q.Counts[broker.StateScheduled] + q.Counts[broker.StateWaiting]
	return used, used // it is not known how many jobs were refused
}

func bytesUse(q *broker.QueueInfo) (used, needs int64) { return q.Bytes, q.Bytes }

// share is a shard's part of a level, and how the shard uses it.
type share struct {
	part, used, needs int64
	wants             int64 // its part if the whole limit were divided anew
	waits             bool  // it needs more than its part
}

// taken returns how much of the limit the shard has: it may use more than its part after that was lowered.
func (s *share) taken() int64 { return max(s.part, s.used) }

// blocked reports whether jobs of the shard wait because its part is used up.
func blocked(s *share, _ int64) bool { return s.needs > s.used && s.used >= s.part }

// nearFull reports whether the shard has less than half the room that it could have. It would soon refuse jobs
// while other shards have room. A gain of less than least is not worth two calls; without that minimum, full
// shards would move parts all the time.
func nearFull(s *share, least int64) bool {
	room, gain := s.part-s.used, s.wants-s.part
	return room < gain && gain >= least
}

func (v *level) lent(p *broker.Policy) bool { return v.Of(p) > 0 }

// shares returns how the shards use their parts, and what the limit leaves.
func (v *level) shares(total int64, infos []*broker.QueueInfo) (shares []share, left int64) {
	shares, left = make([]share, len(infos)), total
	needs, all := make([]int64, len(infos)), int64(0)
	for i, part := range v.parts(infos) {
		used, need := v.use(infos[i])
		shares[i], needs[i] = share{part: part, used: used, needs: need}, need
		left -= shares[i].taken()
		all += used
	}
	least := max(total/int64(16*len(infos)), 1)
	for i, wants := range fairParts(total, needs) {
		s := &shares[i]
		s.wants = max(min(wants, total-(all-s.used)), 1) // other shards may use more than their fair parts
		s.waits = v.waits(s, least)
	}
	return shares, left
}

func (v *level) next(total int64, infos []*broker.QueueInfo, since time.Duration) []int64 {
	shares, left := v.shares(total, infos)
	waiting := false
	for i := range shares {
		waiting = waiting || shares[i].waits
	}
	switch {
	case left > 0 && since >= lendOften/2: // jobs accepted during the last step are counted by now
		return raise(shares, left)
	case left < 0 || left == 0 && waiting:
		return lower(shares)
	}
	return v.parts(infos)
}

// raise gives the shards what is left of the limit.
func raise(shares []share, left int64) []int64 {
	parts := make([]int64, len(shares))
	for i := range shares {
		s := &shares[i]
		parts[i] = s.part
		if more := min(left, s.wants-s.taken()); more > 0 {
			left -= more
			parts[i] = s.taken() + more
		}
	}
	return parts
}

// lower takes from shards what they do not need, or have beyond their fair part.
func lower(shares []share) []int64 {
	parts := make([]int64, len(shares))
	for i := range shares {
		if parts[i] = shares[i].wants; shares[i].part > 0 { // with 0, the shard has no part yet
			parts[i] = min(shares[i].part, shares[i].wants)
		}
	}
	return parts
}

// fairParts divides a limit: each shard gets what it needs, but no shard that needs more gets
// less than another. What nobody needs is divided evenly. No part is less than one.
func fairParts(total int64, needs []int64) []int64 {
	n := int64(len(needs))
	wants, left := make([]int64, n), max(total-n, 0)
	for i := range wants {
		wants[i] = 1
	}
	for left > 0 {
		var hungry []int
		for i := range needs {
			if needs[i] > wants[i] {
				hungry = append(hungry, i)
			}
		}
		each := max(left/int64(max(len(hungry), 1)), 1)
		for _, i := range hungry {
			more := min(each, needs[i]-wants[i], left)
			wants[i] += more
			left -= more
		}
		if len(hungry) == 0 {
			for i := range wants {
				wants[i] += int64(portion(int(left), int(n), i))
			}
			break
		}
	}
	return wants
}

// lendRatePer bounds the Per of rates whose parts move. A part moves once in each Per, because a shard
// whose part grows may start what its burst allows at once. So a shard waits that long for its own.
const lendRatePer = time.Minute

// rate is a rate of a queue. Only Jobs moves: each shard keeps its part of Burst.
type rate struct {
	rule
	per   func(p *broker.Policy) time.Duration
	waits func(q *broker.QueueInfo) bool // whether the rate may keep jobs back
}

func startsWait(q *broker.QueueInfo) bool { return q.Counts[broker.StatePending] > 0 }

// retriesWait reports whether retries are due: those that may become pending do so in a moment.
func retriesWait(q *broker.QueueInfo) bool {
	return q.Counts[broker.StateRetry] > 0 && !q.Oldest[broker.StateRetry].After(q.AsOf)
}

func (r *rate) lent(p *broker.Policy) bool { return r.Of(p) > 0 && r.per(p) <= lendRatePer }

func (r *rate) next(total int64, infos []*broker.QueueInfo, since time.Duration) []int64 {
	parts, waits := r.parts(infos), make([]bool, len(infos))
	for i, q := range infos {
		waits[i] = r.waits(q)
	}
	wants, left, short := fairRates(total, waits), total, false
	for i := range parts {
		left -= parts[i]
		short = short || waits[i] && wants[i] > parts[i]
	}
	switch {
	case left > 0 && since >= lendOften/2:
		for i := range parts {
			more := max(min(left, wants[i]-parts[i]), 0)
			left -= more
			parts[i] += more
		}
	case left < 0 || left == 0 && short && since >= r.per(&infos[0].Policy):
		for i := range parts {
			parts[i] = min(parts[i], wants[i])
		}
	}
	return parts
}

// fairRates divides a rate evenly among the shards whose jobs wait. The others get one. No part is less than one.
func fairRates(total int64, waits []bool) []int64 {
	hungry, total := 0, max(total, int64(len(waits)))
	for _, w := range waits {
		if w {
			hungry++
		}
	}
	n := len(waits)
	wants, at := make([]int64, n), 0
	for i := range wants {
		switch {
		case hungry == 0:
			wants[i] = int64(portion(int(total), n, i))
		case !waits[i]:
			wants[i] = 1
		default:
			wants[i] = int64(portion(int(total)-(n-hungry), hungry, at))
			at++
		}
	}
	return wants
}
