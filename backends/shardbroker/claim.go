package shardbroker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Claim asks the shards one after the other until it has enough jobs, first those whose last
// claim left jobs or is a second ago. Each claim begins with another shard. So while all
// shards have enough jobs, a claim is one call. Each outcome in the request goes to the shard
// of its job. §6, §14, §16, §17.
func (b *Broker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	if err := req.Check(); err != nil {
		return broker.Claimed{}, err
	}
	if len(b.shards) == 1 {
		return b.shards[0].Broker.Claim(ctx, req)
	}
	if req.Now.IsZero() {
		b.lender.serve(req.Queues)
	}
	if req.Wait > 0 && req.Max > 0 && len(req.Queues) > 0 && req.Now.IsZero() && !b.limits.NoWait {
		return b.wait(ctx, req)
	}
	return b.claim(ctx, req)
}

// claim is a claim that does not wait.
func (b *Broker) claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	req.Wait = 0
	c := &claim{request: req, left: req.Max, room: req.ByteLimit(), shares: slices.Clone(req.Queues)}
	c.parts, c.settled = b.divide(&req.Settle), newSettled(&req.Settle)
	order := b.inTurn(b.member(req.Worker))
	if len(order) == 0 {
		order = b.shards // their errors say what is wrong
	}
	asked := 0
	for _, s := range order {
		if asked > 0 && (c.left == 0 && req.Max > 0 || c.room <= 0) {
			break
		}
		asked++
		c.ask(ctx, b, s)
	}
	c.got.More = c.got.More || asked < len(order)
	if len(req.Settle.Items) > 0 {
		c.settled.send(ctx, b, c.parts) // to those shards that the claim did not ask
		b.forgetStrays(req.Worker, req.Settle.Items, c.settled.verdicts)
		c.got.Verdicts, c.got.SettleErr = c.settled.verdicts, c.settled.whole()
	}
	return c.got, errors.Join(c.errs...)
}

// idleTime is how long a shard whose last claim left no jobs is asked last. It is short, since the others may have
// enough jobs for all claims.
const idleTime = time.Second

// claimed notes whether a claim left jobs in the shard.
func (s *shard) claimed(more bool) {
	if more {
		s.idle.Store(nil)
		return
	}
	until := time.Now().Add(idleTime)
	s.idle.Store(&until)
}

// inTurn returns the shards to ask for jobs, those that are idle last. Each call begins with
// another shard. It leaves out shards that are away, and shards where the worker is not
// registered yet or its leases ran out.
func (b *Broker) inTurn(m *member) []*shard {
	busy, idle := make([]*shard, 0, len(b.shards)), []*shard(nil)
	from := int(b.turn.Add(1) % uint64(len(b.shards)))
	for i := range b.shards {
		s := b.shards[(from+i)%len(b.shards)]
		away, _ := s.away()
		until := s.idle.Load()
		switch {
		case !m.holds(s) || away > 0:
		case until != nil && time.Now().Before(*until):
			idle = append(idle, s)
		default:
			busy = append(busy, s)
		}
	}
	return append(busy, idle...)
}

// claim is a claim under way.
type claim struct {
	request broker.ClaimRequest
	shares  []broker.Share // how many jobs each queue may still give
	left    int            // what is left of Max
	room    int            // what is left of Bytes
	parts   map[*shard]*part
	settled *settled
	got     broker.Claimed
	errs    []error
}

// ask asks a shard for all jobs that the claim still wants.
func (c *claim) ask(ctx context.Context, b *Broker, s *shard) {
	own := c.request
	own.Max, own.Queues, own.Bytes = c.left, slices.Clone(c.shares), c.room
	own.Settle = broker.SettleRequest{}
	p := c.parts[s]
	if p != nil {
		own.Settle = p.request
	}
	a := ask(ctx, []*shard{s}, func(s *shard) (broker.Claimed, error) { return s.Broker.Claim(ctx, own) })[0]
	b.noteStrays(c.request.Worker, s, a.got.Jobs)
	if p != nil {
		settled := answer[[]broker.Verdict]{of: s, got: a.got.Verdicts}
		if len(a.got.Verdicts) == 0 {
			settled.err = cmp.Or(a.got.SettleErr, a.err)
		}
		c.settled.take(b, p, settled)
		delete(c.parts, s)
	}
	c.take(a)
}

// take adds a shard's answer.
func (c *claim) take(a answer[broker.Claimed]) {
	gather(&c.got, &a.got)
	c.left -= len(a.got.Jobs)
	c.room -= size(a.got.Jobs)
	for i := range a.got.Jobs {
		if n := slices.IndexFunc(c.shares, func(s broker.Share) bool { return s.Queue == a.got.Jobs[i].Queue && s.Max > 0 }); n >= 0 {
			c.shares[n].Max--
		}
	}
	a.of.claimed(a.err == nil && a.got.More)
	if a.err != nil {
		c.errs = append(c.errs, a.err)
	}
}

// gather adds what a shard gave.
func gather(to, from *broker.Claimed) {
	// Now is the time of a step that gave jobs, since their starts count then.
	if len(from.Jobs) > 0 || len(to.Jobs) == 0 && to.Now.Before(from.Now) {
		to.Now = from.Now
	}
	to.Jobs = append(to.Jobs, from.Jobs...)
	to.More = to.More || from.More
	to.NextDue = earlier(to.NextDue, from.NextDue)
}
