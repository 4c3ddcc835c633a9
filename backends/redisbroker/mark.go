package redisbroker

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// markSlots is the number of groups of keys over which marks are spread, by the hash of their
// names: enough for a Cluster to share their load, and few enough to prune them all.
const markSlots = 16

func newMarkSlots(prefix string) []*queue {
	slots := make([]*queue, markSlots)
	for i := range slots {
		slots[i] = newQueue(fmt.Sprintf("%s:marks:{%02d}:", prefix, i), "", 0)
	}
	return slots
}

// Mark reads, takes, keeps, sets or drops a mark, in one round trip. §24.
func (b *Broker) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	if err := req.Check(); err != nil {
		return broker.Marked{}, err
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(req.Name)) // never fails
	action := [...]string{broker.MarkRead: "read", broker.MarkTake: "take", broker.MarkKeep: "keep",
		broker.MarkSet: "set", broker.MarkDrop: "drop"}[req.Action]
	s := &step{script: markScript, keys: b.marks[hash.Sum32()%markSlots], now: nowArg(req.Now),
		args: []any{action, req.Name, req.Owner, req.Fence, broker.DurationMicros(req.TTL), req.Value}}
	if err := b.runOne(ctx, s); err != nil {
		return broker.Marked{}, broker.About(err, "mark", "", "")
	}
	if len(s.reply) < 5 {
		return broker.Marked{}, broker.About(broker.ErrMalformed, "mark", "", "")
	}
	got := broker.Marked{Held: number(s.reply[0]) == 1, Owner: text(s.reply[1]), Fence: number(s.reply[2]), Until: moment(number(s.reply[4]))}
	if v := text(s.reply[3]); v != "" {
		got.Value = []byte(v)
	}
	return got, nil
}

// pruneMarks removes lapsed marks of one slot; each call takes the next slot.
func (b *Broker) pruneMarks(now time.Time, most int) *step {
	slot := int(b.pruned.Add(1)) % markSlots
	return &step{script: markScript, keys: b.marks[slot], now: nowArg(now), args: []any{"prune", most}}
}
