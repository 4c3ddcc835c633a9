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
	t.Run("over 3 shards", func(t *testing.T) {
		t.Parallel()
		conformance.Run(t, memory)
	})
}

// With all jobs in one shard a broker over several is like one store: what it adds
// up, divides and asks for must not show.
func TestConformance_OfOneShardOfSeveral(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		s := memory(tb)
		s.Open = s.OneStore
		return s
	})
}

// memory makes stores over three stores in memory.
func memory(conformance.TB) *conformance.Store {
	var stores [3]*membroker.Store
	for i := range stores {
		stores[i] = membroker.NewStore()
	}
	spread := func(tb conformance.TB) *Broker {
		tb.Helper()
		shards := make([]Shard, len(stores))
		for i := range shards {
			shards[i] = Shard{Name: fmt.Sprint("shard ", i), Broker: stores[i].Open()}
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
