package pgbroker

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

// pulse runs heartbeats on a connection that the broker keeps for them: handlers that use
// all of the caller's pool would otherwise make their own leases run out.
type pulse struct {
	b     *Broker
	start sync.Once
	own   *pgxpool.Pool
}

// pulseConns is one, since renewals of one process take milliseconds, one after the other,
// and a thousand processes have a thousand of these connections.
const pulseConns = 1

// pool returns the pool with that connection, configured like the caller's, or nil.
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

// run runs a pipeline on this connection. If that was certainly not applied, because the
// server has no connection left or the idle one was lost, it tries the caller's pool.
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
