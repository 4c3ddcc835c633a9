package observe

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed81422ce9/jobs"
)

// servers holds the servers of this process whose limits of types are measured.
type servers struct {
	mu  sync.Mutex
	all []*jobs.Server
}

// Server measures the limits of a server's Config.TypeConcurrency from now on. The
// rest of what a server does is measured through Hooks and Middleware.
func (m *Metrics) Server(s *jobs.Server) {
	m.servers.mu.Lock()
	defer m.servers.mu.Unlock()
	m.servers.all = append(m.servers.all, s)
}

func (m *Metrics) observeTypes(o metric.Observer) {
	i := &m.instruments
	sums := make(map[string]jobs.TypeLimit)
	m.servers.mu.Lock()
	for _, s := range m.servers.all {
		for _, l := range s.TypeLimits() {
			sum := sums[l.Pattern]
			sum.Max, sum.Running, sum.Waiting = sum.Max+l.Max, sum.Running+l.Running, sum.Waiting+l.Waiting
			sums[l.Pattern] = sum
		}
	}
	m.servers.mu.Unlock()
	for pattern, sum := range sums {
		of := metric.WithAttributes(attribute.String(labelPattern, pattern))
		o.ObserveInt64(i.typeMax, int64(sum.Max), of)
		o.ObserveInt64(i.typeRunning, int64(sum.Running), of)
		o.ObserveInt64(i.typeWaiting, int64(sum.Waiting), of)
	}
}
