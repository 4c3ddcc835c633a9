package membroker

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/seed81422ce9/jobs/broker"
)

// bodies remembers bodies by their type, so that jobs which differ in nothing
// but ID, payload and headers share one: it is most of a job's record.
type bodies struct {
	seed   maphash.Seed
	recent [64]atomic.Pointer[broker.Body]
}

// of is a body like one of a caller, without the payload and the headers and with
// times rounded as the store does (§2). It is not to be written to.
func (s *bodies) of(b *broker.Body) *broker.Body {
	recent := &s.recent[maphash.String(s.seed, b.Type)%uint64(len(s.recent))]
	if known := recent.Load(); known != nil && alike(known, b) {
		return known
	}
	own := *b
	own.Payload, own.Headers = nil, nil
	own.Timeout, own.Retention = upTo(own.Timeout), upTo(own.Retention)
	own.Backoff.Base, own.Backoff.Max = upTo(own.Backoff.Base), upTo(own.Backoff.Max)
	own.Unique.TTL = upTo(own.Unique.TTL)
	own.Deadline = broker.FromMicros(broker.Micros(own.Deadline))
	recent.Store(&own)
	return &own
}

// alike reports whether two bodies differ in nothing but the payload and the
// headers.
func alike(a, b *broker.Body) bool {
	return a.Type == b.Type && a.TypeVersion == b.TypeVersion &&
		a.Priority == b.Priority && a.MaxRetries == b.MaxRetries && a.CrashBudget == b.CrashBudget &&
		a.Timeout == b.Timeout && a.Deadline.Equal(b.Deadline) && a.Retention == b.Retention && a.Backoff == b.Backoff &&
		a.Unique == b.Unique && a.Key == b.Key && a.GivenID == b.GivenID &&
		a.CorrelationID == b.CorrelationID && a.IdempotencyKey == b.IdempotencyKey &&
		a.PayloadRef == b.PayloadRef && a.Source == b.Source
}
