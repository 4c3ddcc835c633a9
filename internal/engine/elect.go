package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// elector chooses one of the servers that share a store and have the same queues: the
// owner of a mark.
type elector struct {
	broker broker.Broker
	owner  string // empty if no other server shares the store, or the store has no marks: then this server is elected
	mark   string
	ttl    time.Duration
}

func newElector(s *Server, purpose string, ttl time.Duration) elector {
	e := elector{broker: s.broker, ttl: ttl}
	if !s.limits.InProcess && !s.limits.NoMark {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", slices.Sorted(slices.Values(s.names))))
		e.owner, e.mark = s.keeperID, purpose+"/"+hex.EncodeToString(sum[:16])
	}
	return e
}

// elected reports whether this server holds the mark. If so, it now holds it for another ttl. After an
// error the server does the work all the same: the election only spares calls, and of a store in
// shards the part with the mark may be away while the others work.
func (e *elector) elected(ctx context.Context) (bool, error) {
	if e.owner == "" {
		return true, nil
	}
	got, err := e.broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: e.mark, Owner: e.owner, TTL: e.ttl})
	return err == nil && got.Held, err
}
