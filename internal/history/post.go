package history

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Servers post their measurements in boxes, which the keeper empties each minute. A box is a mark. It
// holds sums by queue, so that its size does not depend on the number of servers, nor on how long
// there was no keeper.
const (
	boxes  = 8                // a fixed number, so that the keeper finds them; two servers seldom use one at the same time
	boxTTL = 10 * time.Minute // enough for another keeper to take over
	maxBox = broker.MaxResult // some 10,000 queues; the measurements of further queues are dropped
)

func boxName(n uint32) string { return fmt.Sprintf("history/latency/%d", n) }

// Post leaves the measurements of a server, by queue, for the keeper. The ID is that of the server. If
// again is true, the server adds them to its next ones: the store did not take them, or another server
// wrote to the same box at that moment.
func Post(ctx context.Context, m marker, id string, seen map[string]Latency) (again bool, err error) {
	hash := fnv.New32a()
	hash.Write([]byte(id))
	name := boxName(hash.Sum32() % boxes)
	got, err := m.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: name, Owner: owner, TTL: boxTTL})
	if err != nil || !got.Held {
		return true, err
	}
	all := parseBox(got.Value)
	for queue, l := range seen {
		all[queue] = all[queue].Plus(l)
	}
	got, err = m.Mark(ctx, broker.MarkRequest{Action: broker.MarkSet, Name: name, Owner: owner, Fence: got.Fence, TTL: boxTTL,
		Value: formBox(all)})
	if err != nil {
		return !broker.MayHaveApplied(err), err
	}
	return !got.Held, nil
}

// collect empties the boxes. It drops a box before the keeper has stored its contents, so that nothing
// counts twice: if the keeper dies in between, the contents are lost.
func (k *Keeper) collect(ctx context.Context) error {
	for n := range uint32(boxes) {
		box := broker.MarkRequest{Name: boxName(n), Owner: owner, TTL: boxTTL}
		got, err := k.store.Mark(ctx, box)
		if err == nil && len(got.Value) > 0 {
			box.Action = broker.MarkTake
			got, err = k.store.Mark(ctx, box)
		}
		if err != nil {
			return err
		}
		if len(got.Value) == 0 {
			continue
		}
		box.Action, box.Fence = broker.MarkDrop, got.Fence
		if dropped, err := k.store.Mark(ctx, box); err != nil {
			return err
		} else if !dropped.Held {
			continue // a server has just added something
		}
		for queue, l := range parseBox(got.Value) {
			k.fresh[queue] = k.fresh[queue].Plus(l)
			if !broker.Reserved(queue) {
				k.fresh[All] = k.fresh[All].Plus(l)
			}
		}
	}
	return nil
}

// formBox returns the stored form of a box.
func formBox(all map[string]Latency) (value []byte) {
	for _, queue := range slices.Sorted(maps.Keys(all)) {
		end := len(value)
		value = append(binary.AppendUvarint(value, uint64(len(queue))), queue...)
		if value = appendNumbers(value, all[queue].append(nil)); len(value) > maxBox {
			return value[:end]
		}
	}
	return value
}

// parseBox is the inverse of formBox. It stops at the first field that it cannot read.
func parseBox(b []byte) map[string]Latency {
	all := make(map[string]Latency)
	for len(b) > 0 {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			break
		}
		queue := string(b[n : n+int(length)])
		numbers, rest, err := parseNumbers(b[n+int(length):])
		if err != nil {
			break
		}
		l, err := parseLatency(numbers)
		if err != nil {
			break
		}
		all[queue], b = l, rest
	}
	return all
}
