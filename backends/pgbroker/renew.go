package pgbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/deadconn"
)

// Renew writes one row and commits, on the broker's own connection: the pulse that all queues of the
// worker follow. To register, to describe, or to renew other queues than before, it writes a row for
// each queue. After the commit it may count the worker's leases, which then are already extended,
// however long the count takes. If the count fails, Held is empty. §6, §7, §8.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (got broker.Renewed, err error) {
	defer about(&err, "renew", "")
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return got, err
	}
	r := renewal{b: b, req: &req, now: clockOf(req.Now), queues: distinct(req.Queues)}
	pulse, searched := b.leases.pulse(req.Worker, r.queues)
	if pulse != 0 && !req.Register && !req.Describe {
		steps := append([]step{b.byIndex(false), r.extend(pulse)}, r.news(searched)...)
		if err := b.pulse.run(ctx, steps...); err != nil {
			return broker.Renewed{}, err
		}
	}
	if r.alive == 0 {
		if err := r.follow(ctx); err != nil {
			return broker.Renewed{}, err
		}
		_, searched = b.leases.pulse(req.Worker, r.queues)
		if err := b.pulse.run(ctx, append([]step{b.byIndex(true)}, r.news(searched)...)...); err != nil {
			r.got.Cancel, r.lapse = nil, 0
		}
	}
	r.got.Now, r.got.NextLapse, r.got.Lost = broker.FromMicros(r.at), broker.FromMicros(int64(r.lapse)), r.alive < len(r.queues)
	if r.got.Lost {
		b.leases.forget(req.Worker)
	}
	r.countPollers(ctx)
	if r.got.Lost || b.leases.count(req.Worker, r.queues, time.Now()) {
		if err := r.count(ctx); err != nil {
			return r.got, err
		}
	}
	return r.got, nil
}

// renewal is a call of Renew under way.
type renewal struct {
	b      *Broker
	req    *broker.RenewRequest
	now    clock
	queues []string

	at    int64         // the store's time
	alive int           // the number of queues in which the worker was renewed
	lapse zeronull.Int8 // when the next leases run out
	got   broker.Renewed
}

// extend extends the leases in all queues, which follow a pulse.
func (r *renewal) extend(pulse int64) step {
	return r.b.step("renew_pulse", func(rs rows) error {
		r.alive = 0 // a call that was not applied is sent again
		return each(func(rs rows) error { r.alive = len(r.queues); return rs.Scan(&r.at) })(rs)
	}, r.now.micros, r.req.Worker, pulse, r.now.after(r.req.Lease))
}

// news returns the steps that read what the worker must know.
func (r *renewal) news(searched int64) []step {
	columns := func(ref *broker.Ref) []any { return []any{&ref.Queue, &ref.ID, &ref.Epoch} }
	return []step{r.b.step("renew_lapse", one(&r.lapse), r.now.micros, r.queues, searched),
		r.b.step("renew_cancel", list(&r.got.Cancel, columns), r.req.Worker, r.queues)}
}

// followTries is how often a renewal tries to write the rows of all queues while another renewal of the
// same worker writes them. Few are enough, since the process of a worker never renews it twice at a time.
const followTries = 3

// follow registers the worker or extends its leases queue by queue, so that all follow one pulse.
func (r *renewal) follow(ctx context.Context) error {
	var info []byte
	if r.req.Register || r.req.Describe {
		info = broker.AppendWorkerInfo([]byte{}, &r.req.Info)
	}
	r.b.leases.follow(r.req.Worker, nil, 0)
	for range followTries {
		var pulse *int64
		read, args := one(&r.at, &pulse, &r.alive), []any{r.now.micros, r.req.Worker, r.queues, r.now.after(r.req.Lease), info}
		apart := r.b.step("renew_apart", nil, r.req.Worker)
		steps := []step{r.b.byIndex(false), apart, r.b.step("renew", read, args...)}
		if r.req.Register {
			steps = []step{r.b.step("register_queue", nil, r.queues), apart, r.b.step("renew_register", read, args...)}
		}
		if err := r.b.pulse.run(ctx, steps...); err != nil {
			return err
		}
		if pulse != nil {
			if r.alive == len(r.queues) {
				r.b.leases.follow(r.req.Worker, r.queues, *pulse)
			}
			return nil
		}
	}
	return fmt.Errorf("%w: another call renews the worker at the same time", broker.ErrUnavailable)
}

// countPollers counts, once a minute, the workers with which this one shares its polls, if this broker
// never listens. If the count fails, the last one stays.
func (r *renewal) countPollers(ctx context.Context) {
	now, last := time.Now().UnixNano(), r.b.counted.Load()
	since := time.Duration(now - last) // below 0: the host's clock was set back
	if !r.b.polls() || since >= 0 && since < time.Minute || !r.b.counted.CompareAndSwap(last, now) {
		return
	}
	n := 0
	if r.b.pulse.run(ctx, r.b.byIndex(true), r.b.step("poll_peers", one(&n), r.queues, mostPeers)) == nil {
		r.b.pollers.Store(int64(n))
	}
}

// count counts the worker's leases. It returns an error only if a newer release wrote a queue.
func (r *renewal) count(ctx context.Context) error {
	r.got.Held = make(map[string]int, len(r.queues))
	for _, q := range r.queues {
		r.got.Held[q] = 0
	}
	err := r.b.pulse.run(ctx, r.b.byIndex(true), r.b.step("renew_held", each(func(rs rows) error {
		var queue string
		var layout, held int
		err := rs.Scan(&queue, &layout, &held)
		r.got.Held[queue] = held
		return cmp.Or(err, checkLayout(layout))
	}), r.req.Worker, r.queues))
	if err != nil {
		r.got.Held = nil
	}
	if errors.Is(err, broker.ErrNewerForm) {
		return err
	}
	return nil
}

// distinct returns names without repetitions, and sorted, so that all calls lock rows in the
// same order.
func distinct(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

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
		deadconn.Bound(config)
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
