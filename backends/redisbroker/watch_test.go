package redisbroker

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// Every worker watches for cancellations. It must not thereby have every settle
// tell what it settled, nor be told when somebody else asks for that.
func TestWhoWatchesForCancellationsIsToldNothingElse(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	told := func(kinds ...broker.EventKind) (settled, cancelled int64, announced bool) {
		t.Helper()
		if _, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}, Kinds: kinds}); err != nil {
			t.Fatal(err)
		}
		channel := b.queue("q").channel
		listening, err := c.PubSubNumSub(t.Context(), channel, channel+cancels).Result()
		if err != nil {
			t.Fatal(err)
		}
		announced, err = c.HExists(t.Context(), b.queue("q").key("m"), "watch").Result()
		if err != nil {
			t.Fatal(err)
		}
		return listening[channel], listening[channel+cancels], announced
	}
	if settled, cancelled, announced := told(broker.EventCancel); settled != 0 || cancelled != 1 || announced {
		t.Errorf("one who watches for cancellations: %d listen for what is settled, %d for cancellations, settles tell: %t; want 0, 1, false",
			settled, cancelled, announced)
	}
	if settled, cancelled, announced := told(broker.EventSettled); settled != 1 || cancelled != 1 || !announced {
		t.Errorf("and one who watches for what is settled: %d, %d, %t; want 1, 1, true", settled, cancelled, announced)
	}
	if settled, cancelled, _ := told(); settled != 2 || cancelled != 2 {
		t.Errorf("and one who watches for all: %d, %d; want 2, 2", settled, cancelled)
	}
}
