package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

const (
	pruneInterval = 15 * time.Second  // the shortest: in a busy store, there is something to prune about as often
	pruneMax      = 1000              // records of a queue that one call examines, so that no call takes long
	pruneRounds   = 100               // calls in a row, so that they do not delay the rest of upkeep for long
	pruneTTL      = 3 * pruneInterval // pruning may fail twice before another server takes over
)

// pruner removes what is past its retention. Of the servers that share a store and
// have the same queues, one prunes. It has its own lock.
type pruner struct {
	elector
	log     *slog.Logger
	queues  []string
	lookout *lookout
	longest time.Duration // between two prunes, while nothing is found

	away outage // calls that failed in a row; only the upkeep loop uses it

	mu    sync.Mutex
	every time.Duration
	at    time.Time // of the next prune
}

func newPruner(s *Server) *pruner {
	p := &pruner{elector: newElector(s, "prune", pruneTTL), log: s.log, queues: s.names, lookout: &s.lookout,
		longest: pruneInterval, every: pruneInterval}
	if s.limits.InProcess { // no other process leaves anything to prune
		p.longest = max(pruneInterval, s.opts.Lease)
	}
	p.at = time.Now().Add(sleep.Jitter(p.every, 0.5))
	return p
}

// next returns when to prune next.
func (p *pruner) next() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// due reports whether to prune now. If so, it sets the time of the next prune.
func (p *pruner) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.at) {
		return false
	}
	p.at = now.Add(sleep.Jitter(p.every, 0.5))
	p.every = min(2*p.every, p.longest)
	return true
}

// soon makes the next prune come soon, because there may be something to prune.
func (p *pruner) soon(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.every == pruneInterval {
		return
	}
	p.every = pruneInterval
	if at := now.Add(sleep.Jitter(pruneInterval, 0.5)); at.Before(p.at) {
		p.at = at
		p.lookout.by(at)
	}
}

// turn prunes a bounded number of records, unless another server prunes.
func (p *pruner) turn(ctx context.Context) {
	for range pruneRounds {
		reply, err := p.prune(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			p.away.ended()
		} else if p.away.failed(time.Now(), err) {
			p.log.Warn("jobs: pruning failed, trying again later", p.away.args()...)
		}
		if err != nil || reply != (broker.Pruned{}) {
			p.soon(time.Now())
		}
		if err != nil || !reply.More {
			return
		}
	}
}

// prune makes one call, if this server is elected.
func (p *pruner) prune(ctx context.Context) (broker.Pruned, error) {
	if !p.elected(ctx) {
		return broker.Pruned{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, serverCallTimeout)
	defer cancel()
	return p.broker.Prune(ctx, broker.PruneRequest{Queues: p.queues, Max: pruneMax})
}
