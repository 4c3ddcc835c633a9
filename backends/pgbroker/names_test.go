package pgbroker_test

import (
	"errors"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// A name that the server cannot store is no queue's, and no page ends with it. The store is not to blame.
func TestQueues_ANameThatCannotBeStoredIsNoQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, odd := range []string{"a\x00b", "a\xffb"} {
		for _, names := range [][]string{{odd}, {odd, testQueue}} {
			reply, err := f.Queues(t.Context(), broker.QueuesRequest{Names: names, Workers: true})
			if err != nil || len(reply.Queues) != len(names)-1 {
				t.Errorf("Queues of %q: %d queues, %v; want %d", names, len(reply.Queues), err, len(names)-1)
			}
		}
		if _, err := f.Keys(t.Context(), broker.KeysRequest{Queue: testQueue, Cursor: odd}); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("Keys after %q: %v, want ErrInvalid", odd, err)
		}
	}
}
