package pgbroker

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

// pulse is where heartbeats run: on a connection that the broker keeps for them,
// since handlers that hold all of the caller's pool would otherwise make their
// own leases run out.
type pulse struct {
	b     *Broker
	start sync.Once
	own   *pgxpool.Pool
}

// pulseConns: renewals of one process take turns, which last milliseconds each, and
// have a third of a lease for it. A thousand processes have a thousand of these.
const pulseConns = 1

// pool is a pool of it, configured like the caller's, or nil.
func (p *pulse) pool() *pgxpool.Pool {
	p.start.Do(func() {
		config := p.b.pool.Config()
		config.MaxConns, config.MinConns, config.MinIdleConns = pulseConns, 0, 0
		if own, err := pgxpool.NewWithConfig(context.Background(), config); err == nil {
			p.own = own
		}
	})
	return p.own
}

// run runs a pipeline on this connection. When that was certainly not
// applied, because the server has no connection to spare or the one at hand was
// lost while it was idle, the caller's pool may do better.
func (p *pulse) run(ctx context.Context, steps ...step) error {
	if err := p.b.usable(ctx); err != nil {
		return err
	}
	if own := p.pool(); own != nil {
		err := p.b.runOn(ctx, own, steps...)
		if !errors.Is(err, broker.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
	}
	return p.b.run(ctx, steps...)
}

// close closes the connection. Calls that are under way may finish.
func (p *pulse) close() {
	p.start.Do(func() {}) // it starts no more
	if p.own != nil {
		p.own.Close()
	}
}
