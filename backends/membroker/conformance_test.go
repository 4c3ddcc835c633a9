package membroker

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, newConformanceStore)
}

func BenchmarkBroker(b *testing.B) { conformance.Bench(b, newConformanceStore) }

func newConformanceStore(conformance.TB) *conformance.Store {
	store := NewStore()
	return &conformance.Store{
		Open: func(conformance.TB) broker.Broker { return store.Open() },
		Dump: store.dump,
	}
}
