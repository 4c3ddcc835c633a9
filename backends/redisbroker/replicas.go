package redisbroker

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// quorum is for how many replicas to wait, and for how long.
type quorum struct {
	replicas int
	timeout  time.Duration
}

// awaited returns for how many replicas a call of a script waits. Only scripts that accept jobs wait,
// since a failover must not lose accepted jobs.
func (b *Broker) awaited(s *script) quorum {
	switch s {
	case plainScript, enqueueScript, meetScript, restoreScript:
		return quorum{b.config.Replicas, b.config.ReplicaTimeout}
	}
	return quorum{}
}

// missed returns an error if too few replicas acknowledged the writes.
func (a quorum) missed(reached *redis.IntCmd) error {
	n, err := reached.Result()
	switch {
	case err != nil:
		return fmt.Errorf("stored by the master; whether replicas have it is not known: %v", err) // not %w: the job was stored
	case n < int64(a.replicas):
		return fmt.Errorf("stored by the master, and acknowledged by %d of %d replicas within %v", n, a.replicas, a.timeout)
	}
	return nil
}

// doubt sets an error in the receipts of jobs that are stored, now or by an earlier send, but may be
// lost in a failover.
func (e *enqueueBatch) doubt(receipts []broker.Receipt, err error) {
	for _, i := range e.items {
		if r := &receipts[i]; r.Err == nil || r.Holder == r.ID {
			*r = broker.Receipt{Queue: r.Queue, ID: r.ID, Err: broker.About(err, "enqueue", r.Queue, r.ID)}
		}
	}
}
