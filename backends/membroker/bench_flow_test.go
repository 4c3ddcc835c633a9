package membroker

import (
	"testing"

	"github.com/seed81422ce9/jobs/conformance"
)

func BenchmarkFlow(b *testing.B) { conformance.BenchFlow(b, newConformanceStore) }
