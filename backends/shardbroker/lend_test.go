package shardbroker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// lending is a queue with a limit, over two shards of which other processes see each job.
type lending struct {
	t      *testing.T
	stores map[string]*membroker.Store
	b      *Broker
	held   []broker.Job
	number int64
	next   int
}

const lendLimit = 8

func newLending(t *testing.T) *lending {
	l := &lending{t: t, stores: map[string]*membroker.Store{"a": membroker.NewStore(), "b": membroker.NewStore()}}
	l.b = l.open(nil)
	l.set(lendLimit)
	_, err := l.b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: 24 * time.Hour, Register: true})
	l.ok(err)
	return l
}

// open opens another process on the stores.
func (l *lending) open(wrap func(name string, b broker.Broker) broker.Broker) *Broker {
	var shards []Shard
	for _, name := range []string{"a", "b"} {
		b := broker.Broker(l.stores[name].Open())
		if wrap != nil {
			b = wrap(name, b)
		}
		shards = append(shards, Shard{Name: name, Broker: b})
	}
	return opened(l.t, shards...)
}

func (l *lending) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lending) set(limit int64) {
	l.t.Helper()
	got, err := l.b.Policy(l.t.Context(), broker.PolicyRequest{Queue: "q", MaxActive: &limit})
	l.ok(err)
	if got.MaxActive != limit {
		l.t.Errorf("the limit is %d, want %d", got.MaxActive, limit)
	}
}

// add stores jobs in one shard.
func (l *lending) add(shard string, n int) {
	l.t.Helper()
	for n > 0 {
		l.next++
		j := newJob(fmt.Sprint("j", l.next))
		if l.b.routes.of(label(j.ID, &j.Body))[0].Name != shard {
			continue
		}
		receipts, err := l.b.Enqueue(l.t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{j}})
		l.ok(err)
		l.ok(receipts[0].Err)
		n--
	}
}

// claim takes all that may start, and returns how many jobs of each shard are active.
func (l *lending) claim() map[string]int {
	l.t.Helper()
	for {
		got, err := l.b.Claim(l.t.Context(), broker.ClaimRequest{Worker: "w", Max: 50, Queues: []broker.Share{{Queue: "q", Max: 50}}})
		l.ok(err)
		l.held = append(l.held, got.Jobs...)
		if len(got.Jobs) == 0 && !got.More {
			break
		}
	}
	if len(l.held) > lendLimit {
		l.t.Fatalf("%d jobs are active, the limit is %d", len(l.held), lendLimit)
	}
	active := make(map[string]int)
	for i := range l.held {
		for _, s := range l.b.shards {
			page, err := s.Broker.Find(l.t.Context(), broker.Query{Queue: "q", IDs: []string{l.held[i].ID}})
			l.ok(err)
			active[s.Name] += len(page.Jobs)
		}
	}
	return active
}

// end completes the first of the active jobs.
func (l *lending) end(n int) {
	l.t.Helper()
	l.number++
	req := broker.SettleRequest{Worker: "w", Number: l.number}
	for i := range l.held[:n] {
		req.Items = append(req.Items, broker.Settlement{Job: &l.held[i], Outcome: broker.Complete(nil)})
	}
	_, err := l.b.Settle(l.t.Context(), req)
	l.ok(err)
	l.held = append([]broker.Job(nil), l.held[n:]...)
}

func (l *lending) wants(when string, a, b int) {
	l.t.Helper()
	if got := l.claim(); got["a"] != a || got["b"] != b {
		l.t.Errorf("%s %d and %d jobs are active in the shards, want %d and %d", when, got["a"], got["b"], a, b)
	}
}

func TestLend_AShardUsesWhatAnotherLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLending(t)
		l.add("a", 40)
		l.wants("at first", 4, 0)
		time.Sleep(10 * time.Second)
		l.wants("while the other shard is idle,", 7, 0)
		l.add("b", 40)
		l.wants("as jobs come to the other shard,", 7, 1)
		l.end(8)
		for range 10 {
			time.Sleep(lendOften)
			l.claim()
			time.Sleep(3 * lendOften / 2) // so the process that lends sees the jobs that are active now
			l.end(3)
		}
		l.wants("while both shards have more than they may,", 4, 4)
		l.set(lendLimit)
		l.wants("after the same limit was set again,", 4, 4)
	})
}

func TestLend_ALimitThatIsRaisedWhilePartsAreLentHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLending(t)
		l.set(lendLimit - 1)
		l.add("a", 40)
		l.claim()
		time.Sleep(10 * time.Second)
		l.wants("while the other shard is idle,", 6, 0)
		l.add("b", 40)
		l.set(lendLimit)
		l.claim() // fails if more are active than the limit
		time.Sleep(10 * time.Second)
		if got := l.claim(); got["a"]+got["b"] != lendLimit {
			t.Errorf("%v jobs are active, want %d", got, lendLimit)
		}
	})
}

// Whenever the process that lends dies, the limit holds, and another process lends on.
func TestLend_AProcessThatDiesLeavesTheLimitWhole(t *testing.T) {
	t.Parallel()
	deaths(t, func(t *testing.T, ctx context.Context, p *mortal) {
		l := newLending(t)
		lends := l.open(p.wrap)
		_, _ = lends.Claim(ctx, broker.ClaimRequest{Worker: "other", Max: 1, Queues: []broker.Share{{Queue: "q", Max: 1}}})
		time.Sleep(lendOften / 2) // it is the first to take the mark
		l.add("a", 40)
		r := rand.New(rand.NewPCG(uint64(p.diesAt), 0))
		for range 20 {
			l.claim()
			time.Sleep(lendOften / 3)
			if l.claim(); r.IntN(3) == 0 {
				l.end(r.IntN(len(l.held) + 1))
			}
			if r.IntN(4) == 0 {
				l.add("b", r.IntN(3))
			}
		}
		lends.Close()
		time.Sleep(2 * (lendTTL + lendSeldom))
		l.add("a", 60)
		l.add("b", 60)
		for range 10 {
			l.end(len(l.held) / 2)
			l.claim()
			time.Sleep(2 * lendOften)
		}
		if got := l.claim(); got["a"]+got["b"] != lendLimit {
			t.Errorf("%v jobs are active, want %d: a part is lost", got, lendLimit)
		}
		l.set(lendLimit)
	})
}
