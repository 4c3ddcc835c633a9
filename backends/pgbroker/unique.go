package pgbroker

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// wantedKeys are unique keys that an enqueue or a redrive takes.
type wantedKeys struct {
	keys, ids []string
	modes     []int16
	ttls      []int64
}

func (w *wantedKeys) add(u broker.Unique, id string, now clock) {
	w.keys, w.ids = append(w.keys, u.Key), append(w.ids, id)
	w.modes, w.ttls = append(w.modes, int16(u.Mode)), append(w.ttls, now.after(u.TTL))
}

// take returns the statement that takes those of the keys that are free, and marks them with the token.
func (w *wantedKeys) take(b *Broker, now clock, queue string, pastLimit bool, token *int64) step {
	return b.step("enqueue_keys", nil, now.micros, queue, pastLimit, w.keys, w.ids, w.modes, w.ttls, token)
}

var errContested = fmt.Errorf("%w: another transaction is deciding about this ID or unique key; try again", broker.ErrUnavailable)

// keyWait returns how long to wait for an ID or a unique key of another transaction. A second try (again) waits less,
// because it may wait for many of them, one after the other.
func keyWait(again bool) *string {
	if again {
		return milliseconds(20 * time.Millisecond)
	}
	return milliseconds(lockWait)
}

const lockWait = 500 * time.Millisecond
