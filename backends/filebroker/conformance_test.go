package filebroker

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// These tests do not wait for the disk; the tests that kill a process do.
func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(tb conformance.TB) *conformance.Store { return newStore(tb, true) })
}

func BenchmarkBroker(b *testing.B) {
	conformance.Bench(b, func(tb conformance.TB) *conformance.Store { return newStore(tb, false) })
}

func newStore(tb conformance.TB, noSync bool) *conformance.Store {
	path := filepath.Join(tb.TempDir(), "jobs.db")
	return &conformance.Store{
		Open: func(tb conformance.TB) broker.Broker {
			b, err := open(path, noSync)
			if err != nil {
				tb.Fatalf("%v", err)
			}
			return b
		},
		Reopen: func(tb conformance.TB) {
			opened.Lock()
			defer opened.Unlock()
			for _, f := range opened.files {
				if f.db.Path() == path {
					tb.Fatalf("the file is still open, with %d handles", f.users)
				}
			}
		},
	}
}
