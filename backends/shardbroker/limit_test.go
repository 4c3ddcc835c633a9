package shardbroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A change of shards was taken back before its time, and the limits were set again. The shards that did not join keep their
// parts, which are not added to the limit when the change is made later.
func TestLimit_ALimitDoesNotGrowByAChangeThatWasTakenBack(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	limits := broker.PolicyRequest{Queue: "q", MaxActive: new(int64(9)), MaxDepth: new(int64(90)),
		Rate: &broker.Rate{Jobs: 20, Per: time.Second}}
	set(t, m.before(), limits)
	register(t, m.both(nil))
	set(t, m.before(), limits)
	later := switchAt.Add(24 * time.Hour)
	open := func(name string) broker.Broker { return m.stores[name].Open() }
	register(t, opened(t, Shard{Name: "a", Broker: open("a")}, Shard{Name: "b", Broker: open("b"), Until: later},
		Shard{Name: "c", Broker: open("c"), From: later}, Shard{Name: "d", Broker: open("d"), From: later}))
	active, depth, starts := int64(0), int64(0), int64(0)
	for name, store := range m.stores {
		p, err := store.Open().Policy(t.Context(), broker.PolicyRequest{Queue: "q"})
		if err != nil || p.MaxActive == 0 || p.MaxDepth == 0 || p.Rate.Jobs == 0 {
			t.Errorf("shard %s has the policy %+v, %v", name, p, err)
		}
		active, depth, starts = active+p.MaxActive, depth+p.MaxDepth, starts+p.Rate.Jobs
	}
	if active != 9 || depth != 90 || starts != 20 {
		t.Errorf("the parts add up to %d active jobs, a depth of %d and a rate of %d; want 9, 90 and 20", active, depth, starts)
	}
}

// Of two shards one remains, where the limit is set anew. When a second one joins, that limit holds, and not the earlier one.
func TestLimit_ALimitThatWasSetInOneShardHolds(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	set(t, m.before(), broker.PolicyRequest{Queue: "q", MaxActive: new(int64(10))})
	set(t, opened(t, Shard{Name: "a", Broker: m.stores["a"].Open()}), broker.PolicyRequest{Queue: "q", MaxActive: new(int64(20))})
	b := opened(t, Shard{Name: "a", Broker: m.stores["a"].Open()}, Shard{Name: "c", Broker: m.stores["c"].Open(), From: switchAt})
	register(t, b)
	if got, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q"}); err != nil || got.MaxActive != 20 {
		t.Errorf("the limit is %d, %v; want 20", got.MaxActive, err)
	}
	total, _, err := b.limit(t.Context(), queueLimit{limits[0], "q"})
	if err != nil || total != 20 {
		t.Errorf("the limit as it was set is %d, %v; want 20", total, err)
	}
}
