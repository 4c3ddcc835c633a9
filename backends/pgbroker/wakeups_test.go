package pgbroker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// onlyWoken opens another broker on f's schema, with a worker of its own. It listens, and its
// claims do not look by themselves for an hour.
func (f *inside) onlyWoken(worker string) *inside {
	f.t.Helper()
	return f.onlyWokenOn(connect(f.t, testenv.Postgres(f.t), 4), Config{Schema: f.schema}, worker)
}

func (f *inside) onlyWokenOn(pool *pgxpool.Pool, config Config, worker string) *inside {
	f.t.Helper()
	other := openOn(f.t, pool, config)
	other.poll = time.Hour
	other.worker(worker)
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	f.check(other.listener.await(ctx))
	testenv.Eventually(f.t, "that the listener wakes everybody as it begins", func() bool { return other.waker.sofar().all > 0 })
	return other
}

// waiting starts the first waiting claim of a process, for ten minutes, and returns after its
// last look: it looks, registers, looks again, and once more a moment later.
func (f *inside) waiting(worker string) *aClaim {
	f.t.Helper()
	looks := f.db.Stat().AcquireCount()
	came := make(chan []broker.Job, 1)
	go func() {
		got, err := f.Claim(f.t.Context(), broker.ClaimRequest{Worker: worker, Max: 10, Wait: 10 * time.Minute,
			Queues: []broker.Share{{Queue: "q", Max: 10}}})
		if err != nil && f.t.Context().Err() == nil {
			f.t.Errorf("a claim that waits: %v", err)
		}
		came <- got.Jobs
	}()
	testenv.Eventually(f.t, "the last look of a claim that waits", func() bool {
		return f.db.Stat().AcquireCount() >= looks+firstLooks && f.db.Stat().AcquiredConns() == 0
	})
	return &aClaim{f, came}
}

// firstLooks is how often the first waiting claim of a process uses a connection: it registers
// again before the last look.
const firstLooks = 5

// aClaim is a claim that waits.
type aClaim struct {
	f    *inside
	came <-chan []broker.Job
}

// wants checks that the claim gets only this job, and now.
func (c *aClaim) wants(id string) {
	c.f.t.Helper()
	select {
	case jobs := <-c.came:
		if len(jobs) != 1 || jobs[0].ID != id {
			c.f.t.Errorf("a claim that waits got %v, want job %q alone", jobs, id)
		}
	case <-time.After(30 * time.Second):
		c.f.t.Errorf("a claim that waits was not woken within 30 s")
	}
}

// Whatever makes a job claimable wakes the claims that wait for it, in other processes and in
// the same. No claim here looks by itself, so that a missing wake-up fails the test.
func TestClaim_IsWokenByWhateverMakesAJobClaimable(t *testing.T) {
	t.Parallel()
	ref := []broker.Ref{{Queue: "q", ID: "a", Epoch: broker.AnyEpoch}}
	no := broker.Failure{Message: "no"}
	operate := func(f *inside, op broker.Operation) {
		op.Refs = ref
		results, err := f.Operate(f.t.Context(), op)
		f.check(errors.Join(err, results[0].Err))
	}
	pause := func(f *inside, paused bool) {
		_, err := f.Policy(f.t.Context(), broker.PolicyRequest{Queue: "q", Paused: &paused})
		f.check(err)
	}
	hour := job("a")
	hour.Delay = time.Hour
	unique := uniqueJob("a", "key")
	given := job("a")
	given.Body.GivenID = true
	restored := job("a")
	restored.Restore = &broker.Restored{State: broker.StatePending}
	fresh := job("a")
	fresh.FirstSend = true
	soon := job("a")
	soon.Delay = 50 * time.Millisecond
	store := func(j broker.NewJob) func(*inside) { return func(f *inside) { f.accept(f, j) } }
	// held stores a job and leases it to the sender's worker.
	held := func(f *inside) {
		f.worker("sender")
		f.accept(f, job("a"))
		f.claimed("sender", 1)
	}
	end := func(o broker.Outcome) func(*inside) {
		return func(f *inside) {
			page, err := f.Find(f.t.Context(), broker.Query{Queue: "q", IDs: []string{"a", "b"}})
			f.check(err)
			outcomes := []broker.Outcome{o, broker.Complete(nil)}
			f.number++
			req := broker.SettleRequest{Worker: "sender", Number: f.number}
			for i := range page.Jobs {
				req.Items = append(req.Items, broker.Settlement{Job: &page.Jobs[i], Outcome: outcomes[i]})
			}
			_, err = f.Settle(f.t.Context(), req)
			f.check(err)
		}
	}
	two := func(f *inside) {
		f.worker("sender")
		f.accept(f, job("a"), job("b"))
		f.claimed("sender", 2)
	}
	for name, c := range map[string]struct{ before, do func(*inside) }{
		"a plain job":      {do: store(fresh)},
		"a job":            {do: store(job("a"))},
		"a unique job":     {do: store(unique)},
		"a given ID":       {do: store(given)},
		"a restored job":   {do: store(restored)},
		"a job soon due":   {do: store(soon)},
		"a retry at once":  {before: held, do: end(broker.Retry(0, no))},
		"a retry soon":     {before: held, do: end(broker.Retry(50*time.Millisecond, no))},
		"a release":        {before: held, do: end(broker.Release())},
		"a retry, mixed":   {before: two, do: end(broker.Retry(0, no))},
		"a release, mixed": {before: two, do: end(broker.Release())},
		"a retry on a claim": {before: held, do: func(f *inside) {
			page, err := f.Find(f.t.Context(), broker.Query{Queue: "q", IDs: []string{"a"}})
			f.check(err)
			got, err := f.Claim(f.t.Context(), broker.ClaimRequest{Worker: "sender", Settle: broker.SettleRequest{Worker: "sender", Number: 1,
				Items: []broker.Settlement{{Job: &page.Jobs[0], Outcome: broker.Retry(0, no)}}}})
			f.check(errors.Join(err, got.SettleErr))
		}},
		"a worker that retires": {before: held, do: func(f *inside) {
			_, err := f.Retire(f.t.Context(), broker.RetireRequest{Worker: "sender", Queues: []string{"q"}})
			f.check(err)
		}},
		"a transaction": {do: func(f *inside) {
			tx := f.begin(pgx.TxOptions{})
			f.accept(f.Tx(tx), job("a"))
			f.check(tx.Commit(f.t.Context()))
		}},
		"a redrive": {before: func(f *inside) { held(f); end(broker.Die(broker.ReasonRetries, no))(f) },
			do: func(f *inside) { operate(f, broker.Operation{Kind: broker.OpRedrive}) }},
		"a job sent for": {before: store(hour), do: func(f *inside) { operate(f, broker.Operation{Kind: broker.OpReschedule}) }},
		"a hold that ends": {before: func(f *inside) { store(job("a"))(f); operate(f, broker.Operation{Kind: broker.OpHold, Holder: "h"}) },
			do: func(f *inside) { operate(f, broker.Operation{Kind: broker.OpUnhold, Holder: "h"}) }},
		"a resumed queue": {before: func(f *inside) { pause(f, true); store(job("a"))(f) }, do: func(f *inside) { pause(f, false) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			f.worker("w0")
			if c.before != nil {
				c.before(f)
			}
			other := f.onlyWoken("w")
			came := other.waiting("w")
			c.do(f)
			came.wants("a")
		})
	}
}

// A claim of the same process is woken without the server.
func TestClaim_IsWokenInTheSameProcess(t *testing.T) {
	t.Parallel()
	for id, change := range map[string]func(*broker.NewJob){
		"plain": func(j *broker.NewJob) { j.FirstSend = true },
		"given": func(j *broker.NewJob) { j.Body.GivenID = true },
		"soon":  func(j *broker.NewJob) { j.Delay = 50 * time.Millisecond },
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			f := open(t).onlyWoken("w")
			came := f.waiting("w")
			j := job(id)
			change(&j)
			f.accept(f, j)
			came.wants(id)
		})
	}
}

// A broker behind a PgBouncer that pools transactions listens past it.
func TestClaim_IsWokenBehindAPgBouncerByAListenerPastIt(t *testing.T) {
	t.Parallel()
	f := open(t)
	behind := f.onlyWokenOn(connect(t, testenv.PgBouncer(t), 4), Config{Schema: f.schema, PollOnly: true, Listen: testenv.Postgres(t)}, "w")
	came := behind.waiting("w")
	j := broker.NewJob{Queue: "q", ID: "job", Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}}
	f.accept(f, j)
	came.wants("job")
	_, err := New(t.Context(), f.db, Config{Schema: f.schema, Listen: "postgres://me:secret@host:x/"})
	if !errors.Is(err, broker.ErrInvalid) || strings.Contains(err.Error(), "secret") {
		t.Errorf("New with a Listen that cannot be read: %v, want ErrInvalid that quotes nothing of it", err)
	}
}

// A thousand processes have a thousand times as many connections.
func TestConnections_AreTwoBesideThePool(t *testing.T) {
	t.Parallel()
	f := open(t)
	b := f.onlyWokenOn(connectAs(t, testenv.Postgres(t), 4, f.schema), Config{Schema: f.schema}, "w")
	var renewals errgroup.Group
	for range 20 {
		renewals.Go(func() error {
			_, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Minute})
			return err
		})
	}
	f.check(renewals.Wait())
	n := 0
	f.check(f.db.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = $1", f.schema).Scan(&n))
	if own := n - int(b.db.Stat().TotalConns()); own != 2 {
		t.Errorf("a broker that listens and renews has %d connections beside those of its pool, want 2", own)
	}
}

// Heartbeats have a connection of their own: handlers that use the whole pool do not make
// their own leases run out.
func TestRenew_BesideAUsedUpPool(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.worker("w")
	pool := connect(t, testenv.Postgres(t), 2)
	b := openOn(t, pool, Config{Schema: f.schema})
	for range 2 {
		conn, err := pool.Acquire(t.Context())
		f.check(err)
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Minute})
	if err != nil || got.Lost {
		t.Errorf("a renewal while handlers hold all connections of the pool: %+v, %v; want it to pass", got, err)
	}
}
