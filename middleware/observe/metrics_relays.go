package observe

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed81422ce9/jobs/relay"
)

// relays holds the relays of this process that are measured.
type relays struct {
	mu  sync.Mutex
	all []*relay.Relay
}

// Relay measures a relay from now on. Add at most one relay for a queue.
func (m *Metrics) Relay(r *relay.Relay) {
	m.relays.mu.Lock()
	defer m.relays.mu.Unlock()
	m.relays.all = append(m.relays.all, r)
}

func (m *Metrics) observeRelays(o metric.Observer) {
	i := &m.instruments
	m.relays.mu.Lock()
	defer m.relays.mu.Unlock()
	for _, r := range m.relays.all {
		s := r.Stats()
		queue := attribute.String(labelQueue, m.series.queue(s.Queue))
		active := int64(0)
		if s.Active {
			active = 1
		}
		o.ObserveInt64(i.relaying, active, metric.WithAttributes(queue))
		o.ObserveInt64(i.relayed, s.Relayed, metric.WithAttributes(queue))
		o.ObserveFloat64(i.relayLag, s.Lag.Seconds(), metric.WithAttributes(queue))
		for reason, n := range s.Refused {
			o.ObserveInt64(i.relayRefused, n, metric.WithAttributes(queue, attribute.String(labelReason, string(reason))))
		}
	}
}
