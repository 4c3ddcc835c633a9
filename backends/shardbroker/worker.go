package shardbroker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// member is a worker that was registered through this broker.
type member struct {
	mu      sync.Mutex
	info    broker.WorkerInfo
	lease   time.Duration
	renewed map[*shard]time.Time // when each was last asked and renewed it, by this process's clock; none where it is not registered
}

func (b *Broker) member(worker string) *member {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.members[worker]
}

// knows reports whether the worker is registered in a shard. Before that, the shard refuses its claims.
func (m *member) knows(s *shard) bool {
	if m == nil {
		return true // another handle registered it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.renewed[s].IsZero()
}

// holds reports whether the worker's leases in a shard hold. When they ran out there while it was away, what the worker
// claims before its next renewal could be reclaimed at once, and run twice.
func (m *member) holds(s *shard) bool {
	if m == nil {
		return true // another handle registered it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.renewed[s]) < m.lease
}

// says returns the worker's last description.
func (m *member) says() broker.WorkerInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.info
}

// Renew registers or renews the worker in all shards, and succeeds if one of them answers: a
// shard that is away must not end the leases in the others. The next renewal registers the
// worker in shards where it is not registered yet. §6, §7, §8.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	if err := req.Check(); err != nil {
		return broker.Renewed{}, err
	}
	m := b.enter(&req)
	if req.Register {
		if err := b.align(ctx, req.Queues); err != nil {
			return broker.Renewed{}, err
		}
	}
	sent := time.Now()
	answers := ask(ctx, b.shards, func(s *shard) (broker.Renewed, error) {
		own := req
		if !own.Register && !m.knows(s) {
			own.Register, own.Info = true, m.says()
		}
		return s.Broker.Renew(ctx, own)
	})
	got := broker.Renewed{Held: make(map[string]int)}
	answered, lapse := 0, true
	for _, a := range answers {
		if a.err != nil {
			got.Held, lapse = nil, false
			continue
		}
		answered++
		if m != nil && !a.got.Lost {
			m.mu.Lock()
			m.renewed[a.of] = sent
			m.mu.Unlock()
		}
		got.Lost = got.Lost || a.got.Lost
		got.Now = later(got.Now, a.got.Now)
		got.Cancel = append(got.Cancel, a.got.Cancel...)
		if a.got.Held == nil {
			got.Held = nil
		}
		for queue, n := range a.got.Held {
			if got.Held != nil {
				got.Held[queue] += n
			}
		}
		if lapse = lapse && !a.got.NextLapse.IsZero(); lapse {
			got.NextLapse = earlier(got.NextLapse, a.got.NextLapse)
		}
	}
	if !lapse {
		got.NextLapse = time.Time{}
	}
	if got.Lost {
		b.leave(req.Worker)
	}
	if err := failed(answers); answered == 0 || err != nil && !broker.StoreFailed(err) {
		return broker.Renewed{}, err
	}
	return got, nil
}

// enter records a worker's description and lease. It returns nil for a worker that another
// handle registered.
func (b *Broker) enter(req *broker.RenewRequest) *member {
	b.mu.Lock()
	m := b.members[req.Worker]
	if m == nil && req.Register {
		m = &member{renewed: make(map[*shard]time.Time)}
		b.members[req.Worker] = m
	}
	b.mu.Unlock()
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.lease = req.Lease; req.Register || req.Describe {
			m.info = req.Info
		}
	}
	return m
}

func (b *Broker) leave(worker string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.members, worker)
	delete(b.strays, worker)
}

// Retire ends the worker in all shards. §12.
func (b *Broker) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	if err := req.Check(); err != nil {
		return broker.Retired{}, err
	}
	answers := ask(ctx, b.shards, func(s *shard) (broker.Retired, error) { return s.Broker.Retire(ctx, req) })
	var got broker.Retired
	for _, a := range answers {
		got.Released = append(got.Released, a.got.Released...)
	}
	err := failed(answers)
	if err == nil {
		b.leave(req.Worker)
	}
	return got, err
}

// Reclaim asks one shard after the other until it has Max jobs. §8, §13.
func (b *Broker) Reclaim(ctx context.Context, req broker.ReclaimRequest) (got broker.Claimed, err error) {
	if err := req.Check(); err != nil {
		return got, err
	}
	var errs []error
	room := req.ByteLimit()
	m := b.member(req.Worker)
	for _, s := range b.inTurn(m) {
		if len(got.Jobs) >= req.Max || room <= 0 {
			got.More = true
			break
		}
		own := req
		own.Max, own.Bytes = req.Max-len(got.Jobs), room
		a := ask(ctx, []*shard{s}, func(s *shard) (broker.Claimed, error) { return s.Broker.Reclaim(ctx, own) })[0]
		b.noteStrays(req.Worker, s, a.got.Jobs)
		gather(&got, &a.got)
		room -= size(a.got.Jobs)
		errs = append(errs, a.err)
	}
	return got, errors.Join(errs...)
}

// Prune prunes all shards, with an equal part of Max for each. While shards change, it also
// deletes the probes of processes that died during an enqueue. §23.
func (b *Broker) Prune(ctx context.Context, req broker.PruneRequest) (sum broker.Pruned, err error) {
	if err := req.Check(); err != nil {
		return sum, err
	}
	req.Max = max(1, req.Max/len(b.shards))
	answers := ask(ctx, b.shards, func(s *shard) (broker.Pruned, error) { return s.Broker.Prune(ctx, req) })
	for _, a := range answers {
		sum.Completed, sum.Cancelled, sum.Dead = sum.Completed+a.got.Completed, sum.Cancelled+a.got.Cancelled, sum.Dead+a.got.Dead
		sum.Other, sum.More = sum.Other+a.got.Other, sum.More || a.got.More
	}
	if err = failed(answers); err == nil && b.routes.former != nil {
		err = b.pruneProbes(ctx, req)
	}
	return sum, err
}

// earlier returns the earlier of two times; zero stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// size returns at least how many bytes of an answer's limit jobs use (§13).
func size(jobs []broker.Job) (n int) {
	for i := range jobs {
		n += len(jobs[i].Payload)
		for name, value := range jobs[i].Headers {
			n += len(name) + len(value)
		}
	}
	return n
}
