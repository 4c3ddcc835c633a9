package pgbroker

import (
	"testing"

	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func BenchmarkFlow(b *testing.B) {
	url := testenv.Postgres(b)
	direct := connect(b, url, 2)
	conformance.BenchFlow(b, func(tb conformance.TB) *conformance.Store {
		return store(tb, direct, newPooledSchema(tb, direct, url, ""), Config{})
	})
}
