package shardbroker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Settle sends each item to the shard that gave its job, with the request's Number, which each shard compares
// with the worker's last number there. While shards change, and for a broken job, an item
// goes to each shard that may have the lease; shards without the lease change nothing. §10.
func (b *Broker) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	parts := b.divide(&req)
	if len(parts) == 0 {
		return b.shards[0].Broker.Settle(ctx, req)
	}
	settled := newSettled(&req)
	settled.send(ctx, b, parts)
	b.forgetStrays(req.Worker, req.Items, settled.verdicts)
	return settled.verdicts, settled.whole()
}

// part is what a request has for one shard.
type part struct {
	request broker.SettleRequest
	items   []int // their positions in the whole request
}

func (b *Broker) divide(req *broker.SettleRequest) map[*shard]*part {
	parts := make(map[*shard]*part, len(b.shards))
	b.mu.Lock()
	strays := maps.Clone(b.strays[req.Worker]) // nearly always nil
	b.mu.Unlock()
	for i, item := range req.Items {
		for _, s := range b.holds(strays, item.Job) {
			p := parts[s]
			if p == nil {
				p = &part{request: *req}
				p.request.Items = nil
				parts[s] = p
			}
			p.request.Items = append(p.request.Items, item)
			p.items = append(p.items, i)
		}
	}
	return parts
}

// settled gathers the verdicts of a request.
type settled struct {
	verdicts []broker.Verdict
	known    int // the number of answers with verdicts
	err      error
}

func newSettled(req *broker.SettleRequest) *settled {
	s := &settled{verdicts: make([]broker.Verdict, len(req.Items))}
	for i, item := range req.Items {
		s.verdicts[i] = broker.Verdict{Queue: item.Job.Queue, ID: item.Job.ID}
	}
	return s
}

// send sends the shards their parts.
func (s *settled) send(ctx context.Context, b *Broker, parts map[*shard]*part) {
	answers := ask(ctx, among(b.shards, parts), func(s *shard) ([]broker.Verdict, error) { return s.Broker.Settle(ctx, parts[s].request) })
	for _, a := range answers {
		s.take(b, parts[a.of], a)
	}
}

// take adds the verdicts of a shard. If several shards answer for one item, a verdict other
// than a lost lease counts, since only one shard has the lease.
func (s *settled) take(b *Broker, p *part, a answer[[]broker.Verdict]) {
	lost := a.err != nil && broker.StoreFailed(a.err) && b.ranOut(p.request.Worker, a.of)
	if a.err == nil || lost {
		s.known++
	} else {
		s.err = errors.Join(s.err, a.err)
	}
	for n, i := range p.items {
		v := &s.verdicts[i]
		said := broker.Verdict{Err: cmp.Or(a.err, broker.ErrLeaseLost)}
		if lost {
			said.Err = broker.ErrLeaseLost
		} else if n < len(a.got) {
			said = a.got[n]
		}
		if v.State == broker.StateNone && (v.Err == nil || said.Err == nil || errors.Is(v.Err, broker.ErrLeaseLost)) {
			v.State, v.Err = said.State, broker.About(said.Err, "settle", v.Queue, v.ID)
		}
	}
}

// whole returns the error of the call if there is no verdict.
func (s *settled) whole() error {
	if s.known == 0 {
		s.verdicts = nil
		return s.err
	}
	return nil
}

// ranOut reports whether a shard has been away for longer than the worker's lease. Then the
// worker's leases there have run out, the jobs run again, and their verdicts do not matter.
func (b *Broker) ranOut(worker string, s *shard) bool {
	m := b.member(worker)
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	renewed := m.renewed[s]
	return !renewed.IsZero() && time.Since(renewed) > m.lease
}
