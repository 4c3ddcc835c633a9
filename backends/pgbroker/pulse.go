package pgbroker

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

// pulse runs heartbeats on a connection that the broker keeps for them. Otherwise handlers that
// use up the caller's pool would make their own leases run out.
type pulse struct {
	b     *Broker
	start sync.Once
	own   *pgxpool.Pool
}

// pulseConns is the number of these connections per process. One is enough, since a renewal
// takes milliseconds, and a thousand processes need a thousand connections.
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

// run runs a pipeline on this connection. If the pipeline was certainly not applied, because the
// server has no connection left or the idle connection was lost, run uses the caller's pool.
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
	p.start.Do(func() {}) // so that pool does not make it any more
	if p.own != nil {
		p.own.Close()
	}
}
