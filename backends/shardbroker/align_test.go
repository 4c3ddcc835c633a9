package shardbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func register(t *testing.T, b *Broker) {
	t.Helper()
	renew := broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true}
	if _, err := b.Renew(t.Context(), renew); err != nil {
		t.Error(err)
	}
}

func set(t *testing.T, b *Broker, req broker.PolicyRequest) {
	t.Helper()
	if _, err := b.Policy(t.Context(), req); err != nil {
		t.Error(err)
	}
}

// policies returns the policy of each shard, and the sums of their divided limits.
func (m *moving) policies(key string) (each map[string]broker.Policy, active, dead int64) {
	m.t.Helper()
	each = make(map[string]broker.Policy)
	for name, store := range m.stores {
		p, err := store.Open().Policy(m.t.Context(), broker.PolicyRequest{Queue: "q", Key: key})
		if err != nil {
			m.t.Fatal(err)
		}
		each[name] = p
		active, dead = active+p.MaxActive, dead+p.RetainDead.Count
	}
	return each, active, dead
}

var beforeChange = broker.PolicyRequest{Queue: "q", Paused: new(true), MaxActive: new(int64(12)), KeyMaxActive: new(int64(5)),
	MaxDepth: new(int64(100)), Ordered: new(broker.OrderStop), RetainDead: &broker.Retention{Age: time.Hour, Count: 40}}

var changed = broker.PolicyRequest{Queue: "q", Paused: new(false), MaxActive: new(int64(8)), KeyMaxActive: new(int64(2)),
	MaxDepth: new(int64(broker.NoLimit)), RetainDead: &broker.Retention{Age: 2 * time.Hour, Count: 20}}

// hasChanged checks that the queue has all of changed, and what beforeChange set besides.
func (m *moving) hasChanged() {
	m.t.Helper()
	each, active, dead := m.policies("")
	if active != 8 || dead != 20 {
		m.t.Errorf("the parts add up to %d active jobs, want 8, and to %d dead ones, want 20", active, dead)
	}
	for name, p := range each {
		if p.Paused || p.KeyMaxActive != 2 || p.MaxDepth != 0 || p.RetainDead.Age != 2*time.Hour || p.Ordered != broker.OrderStop ||
			p.MaxActive == 0 {
			m.t.Errorf("shard %s has the policy %+v, want what was set last", name, p)
		}
	}
}

// A process dies while it gives the new shards their policies. What is changed before another process continues is not
// undone by it.
func TestAlign_AProcessThatContinuesUndoesNoChange(t *testing.T) {
	t.Parallel()
	deaths(t, func(t *testing.T, ctx context.Context, p *mortal) {
		m := newMoving(t)
		set(t, m.before(), beforeChange)
		renew := broker.RenewRequest{Worker: "dies", Queues: []string{"q"}, Lease: time.Hour, Register: true}
		_, _ = m.both(p.wrap).Renew(ctx, renew)
		operator := m.both(nil)
		set(t, operator, changed)
		register(t, operator)
		m.hasChanged()
	})
}

// Before a first server has registered, the new shards have no policies. A change of one rule does not hide the others.
func TestAlign_AChangeBeforeItHidesNothing(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	set(t, m.before(), beforeChange)
	b := opened(t, Shard{Name: "c", Broker: m.stores["c"].Open(), From: switchAt}, Shard{Name: "a", Broker: m.stores["a"].Open()},
		Shard{Name: "d", Broker: m.stores["d"].Open(), From: switchAt}, Shard{Name: "b", Broker: m.stores["b"].Open()}) // in any order
	set(t, b, changed)
	if got, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q"}); err != nil || got.Ordered != broker.OrderStop {
		t.Errorf("the policy is %+v, %v; want it ordered as before", got, err)
	}
	register(t, b)
	m.hasChanged()
}

// A policy is changed while a process gives the new shards their policies, at each of its calls.
func TestAlign_AChangeMeanwhileIsNotOverwritten(t *testing.T) {
	t.Parallel()
	for at, more := 1, true; more; at++ {
		synctest.Test(t, func(t *testing.T) {
			m, operator := newMoving(t), (*Broker)(nil)
			set(t, m.before(), beforeChange)
			operator = m.both(nil)
			var mu sync.Mutex
			var changes sync.WaitGroup
			calls := 0
			b := m.both(func(_ string, b broker.Broker) broker.Broker {
				return broker.Wrap(b, func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
					mu.Lock()
					calls++
					now := calls == at
					mu.Unlock()
					if now {
						changes.Go(func() { set(t, operator, changed) })
						time.Sleep(time.Second) // the change is made, or waits
					}
					return next(ctx)
				})
			})
			register(t, b)
			changes.Wait()
			if more = calls >= at; more {
				m.hasChanged()
			}
		})
		if t.Failed() {
			t.Fatalf("the policy was changed at call %d", at)
		}
		if !more && at < 10 {
			t.Errorf("the process made %d calls, want more: the test does not test what it should", at-1)
		}
	}
}

// There are so many keys with policies that the new shards get them only after a lock would be free again.
func TestAlign_KeepsItsLockForManyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, old, n := newMoving(t), (*Broker)(nil), 30
		old = m.before()
		for i := range n {
			set(t, old, broker.PolicyRequest{Queue: "q", Key: fmt.Sprint("k", i), Weight: new(int64(2))})
		}
		slow := m.both(func(_ string, b broker.Broker) broker.Broker {
			return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
				if c.Method == "Policy" {
					time.Sleep(time.Second)
				}
				return next(ctx)
			})
		})
		var changes sync.WaitGroup
		changes.Go(func() {
			operator := m.both(nil)
			time.Sleep(15 * time.Second)
			for i := range n {
				set(t, operator, broker.PolicyRequest{Queue: "q", Key: fmt.Sprint("k", i), Weight: new(int64(7))})
			}
		})
		register(t, slow)
		changes.Wait()
		for i := range n {
			each, _, _ := m.policies(fmt.Sprint("k", i))
			for name, p := range each {
				if p.Weight != 7 {
					t.Errorf("key %d has the weight %d in shard %s, want the 7 that was set last", i, p.Weight, name)
				}
			}
		}
	})
}

// While a shard is away a queue can be paused in the others, also if that shard has the mark of the change.
func TestAlign_AQueueIsPausedInTheShardsThatAnswer(t *testing.T) {
	t.Parallel()
	for _, away := range []string{"a", "b", "c", "d"} {
		m := newMoving(t)
		b := m.both(func(name string, b broker.Broker) broker.Broker {
			return broker.Wrap(b, func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
				if name == away {
					return broker.ErrUnavailable
				}
				return next(ctx)
			})
		})
		if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Paused: new(true)}); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("a pause while shard %s is away: %v, want ErrUnavailable", away, err)
		}
		each, _, _ := m.policies("")
		for name, p := range each {
			if p.Paused == (name == away) {
				t.Errorf("while shard %s is away, shard %s is paused: %v", away, name, p.Paused)
			}
		}
	}
}

// A limit that is lower than the number of shards during the change is one in each shard: no shard goes without it.
func TestAlign_ALimitBelowTheNumberOfShardsLimitsEach(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	set(t, m.before(), broker.PolicyRequest{Queue: "q", MaxActive: new(int64(3)), MaxDepth: new(int64(3)), MaxBytes: new(int64(3)),
		Rate: &broker.Rate{Jobs: 3, Per: time.Hour}, RetryRate: &broker.Rate{Jobs: 2, Per: time.Second},
		RetainCompleted: &broker.Retention{Age: time.Hour, Count: 3}, RetainDead: &broker.Retention{Count: 2}})
	register(t, m.both(nil))
	each, _, _ := m.policies("")
	for name, p := range each {
		if p.MaxActive == 0 || p.MaxDepth == 0 || p.MaxBytes == 0 || p.Rate.Jobs == 0 || p.RetryRate.Jobs == 0 ||
			p.RetainCompleted.Count == 0 || p.RetainDead.Count == 0 {
			t.Errorf("in shard %s a limit is missing: %+v", name, p)
		}
	}
}
