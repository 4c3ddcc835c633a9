package redisbroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// While a Cluster moves a slot, its node ends a script that uses a key which is not there any more. So a script must not remove the last
// member of a key and then add it again: it would stop half-way, and the owner of a mark could not renew it.
func TestMark_TheOnlyMarkKeepsItsKeysWhileItIsRenewed(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := openAs(t, c, Config{})
	if err := c.ConfigSet(t.Context(), "notify-keyspace-events", "Eg").Err(); err != nil {
		t.Fatal(err)
	}
	removed := c.Subscribe(t.Context(), "__keyevent@0__:del")
	t.Cleanup(func() { _ = removed.Close() })
	if _, err := removed.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := b.Mark(t.Context(), broker.MarkRequest{Now: at(0), Action: broker.MarkTake, Name: "m", Owner: "o", TTL: time.Minute})
		if err != nil || !got.Held {
			t.Fatalf("Mark: %+v, %v", got, err)
		}
	}
	if err := c.Set(t.Context(), "last", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Del(t.Context(), "last").Err(); err != nil {
		t.Fatal(err)
	}
	if m, err := removed.ReceiveMessage(t.Context()); err != nil || m.Payload != "last" {
		t.Errorf("while the mark was renewed, the server removed %v, %v", m, err)
	}
}
