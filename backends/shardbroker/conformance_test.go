package shardbroker

import (
	"fmt"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("over %d shards", n), func(t *testing.T) {
			t.Parallel()
			var groups []string // all of them over three
			if n == 1 {
				groups = []string{"Claim", "Enqueue", "Settle", "Operate", "Find", "Count"}
			}
			conformance.Run(t, memory(n), groups...)
		})
	}
}

// With all jobs in one shard a broker over several is like one store: what it adds
// up, divides and asks for must not show.
func TestConformance_OfOneShardOfSeveral(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		s := memory(3)(tb)
		s.Open = s.OneStore
		return s
	})
}

// memory makes stores over n stores in memory.
func memory(n int) func(conformance.TB) *conformance.Store {
	return func(conformance.TB) *conformance.Store {
		stores := make([]*membroker.Store, n)
		for i := range stores {
			stores[i] = membroker.NewStore()
		}
		return over(n, func(_ conformance.TB, i int) broker.Broker { return stores[i].Open() })
	}
}

// over makes a store of shards, which open opens.
func over(n int, open func(tb conformance.TB, i int) broker.Broker) *conformance.Store {
	spread := func(tb conformance.TB) *Broker {
		tb.Helper()
		shards := make([]Shard, n)
		for i := range shards {
			shards[i] = Shard{Name: fmt.Sprint("shard ", i), Broker: open(tb, i)}
		}
		b, err := New(shards...)
		if err != nil {
			tb.Fatalf("New: %v", err)
		}
		return b
	}
	return &conformance.Store{
		Open: func(tb conformance.TB) broker.Broker { return spread(tb) },
		OneStore: func(tb conformance.TB) broker.Broker {
			b := spread(tb)
			b.routes = routes{now: b.shards[:1], fixed: b.shards[:1]}
			b.parts = 1
			return b
		},
	}
}
