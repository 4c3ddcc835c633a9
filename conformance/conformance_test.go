package conformance_test

import (
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

func TestMembrokerConforms(t *testing.T) {
	conformance.Run(t, func(conformance.TB) *conformance.Store {
		s := membroker.NewStore()
		return &conformance.Store{Open: func(conformance.TB) broker.Broker { return s.Open() }}
	})
}
