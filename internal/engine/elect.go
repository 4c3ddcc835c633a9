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

// elected reports whether this server holds the mark, which it then holds for another ttl, or
// nobody can know. Then the work is done all the same, by several servers perhaps: only the part
// of a store that has the mark may be away.
func (e *elector) elected(ctx context.Context) bool {
	if e.owner == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, serverCallTimeout)
	defer cancel()
	got, err := e.broker.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: e.mark, Owner: e.owner, TTL: e.ttl})
	return err != nil || got.Held
}
