package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// outage is a shard that can be away.
type outage struct {
	broker.Broker
	away atomic.Bool
}

func newOutage() *outage {
	o := new(outage)
	o.Broker = broker.Wrap(membroker.New(), func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
		if o.away.Load() {
			return fmt.Errorf("%w: connection refused", broker.ErrUnavailable)
		}
		return next(ctx)
	})
	return o
}

func newJob(id string) broker.NewJob {
	return broker.NewJob{Queue: "q", ID: id, Body: broker.Body{Type: "work", Priority: broker.PriorityNormal}}
}

func TestShards_OneThatIsAwayHarmsOnlyItsPart(t *testing.T) {
	t.Parallel()
	o, ctx := newOutage(), t.Context()
	b := opened(t, Shard{Name: "a", Broker: membroker.New()}, Shard{Name: "b", Broker: o}, Shard{Name: "c", Broker: membroker.New()})
	renew := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true}
	if _, err := b.Renew(ctx, renew); err != nil {
		t.Fatal(err)
	}
	enqueue := func(from, to int) (refused int) {
		var request []broker.NewJob
		for i := from; i < to; i++ {
			request = append(request, newJob(fmt.Sprint("j", i)))
		}
		receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: request})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range receipts {
			if r.Err != nil && !errors.Is(r.Err, broker.ErrUnavailable) {
				t.Fatal(r.Err)
			} else if r.Err != nil {
				refused++
			}
		}
		return refused
	}
	if refused := enqueue(0, 90); refused != 0 {
		t.Fatalf("%d jobs were refused while all shards answer", refused)
	}
	o.away.Store(true)
	refused := enqueue(90, 180)
	if refused < 15 || refused > 45 {
		t.Errorf("%d of 90 jobs were refused while one of three shards is away, want about 30", refused)
	}
	renew.Register = false
	if got, err := b.Renew(ctx, renew); err != nil || got.Lost || got.Held != nil {
		t.Errorf("Renew: %+v, %v, want success, without a count of leases", got, err)
	}
	info, err := b.Queues(ctx, broker.QueuesRequest{Names: []string{"q"}})
	if len(info.Queues) != 1 || !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), `shard "b"`) {
		t.Errorf("Queues: %d queues, error %v, want the counts of the others beside an error that names the shard", len(info.Queues), err)
	}
	if page, err := b.Find(ctx, broker.Query{Queue: "q", State: broker.StatePending}); len(page.Jobs) == 0 || err == nil || page.Cursor == "" {
		t.Errorf("Find: %d jobs, error %v, want the jobs of the others beside an error", len(page.Jobs), err)
	}
	if now, err := b.Ping(ctx); now.IsZero() || !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("Ping: %v, %v, want the time beside the error", now, err)
	}
	there := int(total(info.Queues[0].Counts))
	claim := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 500}}, Max: 500}
	got, err := b.Claim(ctx, claim)
	if len(got.Jobs) != there || err != nil {
		t.Errorf("Claim: %d jobs, %v, want the %d of the others; the shard that is away is left alone for a while", len(got.Jobs), err, there)
	}
	var items []broker.Settlement
	for i := range got.Jobs {
		items = append(items, broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)})
	}
	verdicts, err := b.Settle(ctx, broker.SettleRequest{Worker: "w", Number: 1, Items: items})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Err != nil {
			t.Fatal(v.Err)
		}
	}
	o.away.Store(false)
	if refused := enqueue(90, 180); refused != 0 {
		t.Errorf("%d jobs were refused after the shard came back", refused)
	}
}

// A process whose shard goes away, for longer than a lease, goes on with the others,
// and with that shard when it is back.
func TestShards_AServerGoesOnWithoutOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutage()
		b, err := New(Shard{Name: "a", Broker: membroker.New()}, Shard{Name: "b", Broker: o}, Shard{Name: "c", Broker: membroker.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var ran atomic.Int64
		server, err := jobs.NewServer(b, jobs.Config{Concurrency: 8, Lease: 15 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		handler := jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
			time.Sleep(100 * time.Millisecond)
			ran.Add(1)
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if err := server.Start(context.Background(), handler); err != nil {
			t.Fatal(err)
		}
		add := func(from, n int) {
			for i := range n {
				j := newJob(fmt.Sprint("j", from+i))
				j.Queue = "default"
				for {
					r, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{j}})
					if err == nil && (r[0].Err == nil || errors.Is(r[0].Err, broker.ErrDuplicate)) {
						break
					}
					if o.away.Load() {
						break
					}
					time.Sleep(time.Second)
				}
			}
		}
		add(0, 400)
		time.Sleep(time.Second)
		o.away.Store(true)
		before := ran.Load()
		time.Sleep(5 * time.Minute)
		if n := ran.Load() - before; n < 150 {
			t.Errorf("%d jobs ran while one of three shards was away, want those of the others", n)
		}
		if n := ran.Load(); n >= 400 {
			t.Errorf("%d jobs ran: those of the shard that is away too?", n)
		}
		info, err := b.Queues(ctx, broker.QueuesRequest{Names: []string{"default"}})
		if err == nil || total(info.Queues[0].Counts) != 0 {
			t.Errorf("the other shards have %v, %v; want nothing, all of it settled", info.Queues, err)
		}
		o.away.Store(false)
		time.Sleep(5 * time.Minute)
		info, err = b.Queues(ctx, broker.QueuesRequest{Names: []string{"default"}})
		if err != nil || total(info.Queues[0].Counts) != 0 {
			t.Errorf("left are %v, %v; want none, as all shards are back", info.Queues, err)
		}
		if n := ran.Load(); n < 400 {
			t.Errorf("%d jobs ran, want at least 400", n)
		}
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
}

// shared is a store that other processes share, as those of production are: servers elect one that reclaims, by a mark.
type shared struct{ broker.Broker }

func (shared) Limits() broker.Limits { return broker.Limits{} }

// The mark by which servers elect the one that reclaims is in one shard. While that is away, the jobs of a server that
// died are reclaimed in the other shards.
func TestShards_ADeadServersJobsRunAgainWhileAnyShardIsAway(t *testing.T) {
	t.Parallel()
	for _, away := range []string{"a", "b", "c"} {
		t.Run(away, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				outages, shards := make(map[string]*outage), []Shard(nil)
				for _, name := range []string{"a", "b", "c"} {
					outages[name] = newOutage()
					shards = append(shards, Shard{Name: name, Broker: shared{outages[name]}})
				}
				b := opened(t, shards...)
				var request []broker.NewJob
				for i := range 30 {
					j := newJob(fmt.Sprint("j", i))
					j.Queue = "default"
					request = append(request, j)
				}
				_, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: request})
				queues := []string{"default"}
				_, errRenew := b.Renew(t.Context(), broker.RenewRequest{Worker: "dies", Queues: queues, Lease: 15 * time.Second, Register: true})
				got, errClaim := b.Claim(t.Context(), broker.ClaimRequest{Worker: "dies", Max: 30, Queues: []broker.Share{{Queue: "default", Max: 30}}})
				if err := errors.Join(err, errRenew, errClaim); err != nil || len(got.Jobs) != 30 {
					t.Fatal(len(got.Jobs), err)
				}
				var ran atomic.Int64
				server, err := jobs.NewServer(b, jobs.Config{Lease: 15 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				if err := server.Start(context.Background(), jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
					ran.Add(1)
					return nil
				})); err != nil {
					t.Fatal(err)
				}
				outages[away].away.Store(true)
				time.Sleep(3 * time.Minute)
				here := 0
				for _, j := range got.Jobs {
					if b.holds(nil, &j)[0].Name != away {
						here++
					}
				}
				if n := int(ran.Load()); n != here {
					t.Errorf("%d jobs ran again, want the %d of the shards that answer", n, here)
				}
				outages[away].away.Store(false)
				if err := server.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A client sends the jobs of its callers in one call after the other. A shard that does not answer must not hold up each of them.
func TestEnqueue_AShardThatHangsDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		slow := func(hangs *atomic.Bool) broker.Broker {
			return broker.Wrap(membroker.New(), func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
				if time.Sleep(50 * time.Millisecond); hangs.Load() {
					<-ctx.Done()
					return ctx.Err()
				}
				return next(ctx)
			})
		}
		b := opened(t, Shard{Name: "a", Broker: slow(new(atomic.Bool))}, Shard{Name: "b", Broker: slow(&hangs)})
		client := jobs.NewClient(b, jobs.ClientConfig{})
		defer client.Close()
		hangs.Store(true)
		var stored atomic.Int64
		end := time.Now().Add(time.Minute)
		for range 16 {
			go func() {
				for time.Now().Before(end) {
					if _, err := client.Enqueue(t.Context(), jobs.NewTask("work", nil)); err == nil {
						stored.Add(1)
					}
				}
			}()
		}
		time.Sleep(90 * time.Second)
		if n := stored.Load(); n < 500 {
			t.Errorf("in a minute %d jobs were stored in the shard that answers", n)
		}
		hangs.Store(false)
		time.Sleep(longPause)
		for range 20 {
			if _, err := client.Enqueue(t.Context(), jobs.NewTask("work", nil)); err != nil {
				t.Errorf("once the shard is back: %v", err)
			}
		}
	})
}
