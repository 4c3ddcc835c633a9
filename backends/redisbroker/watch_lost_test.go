package redisbroker

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// nextEvent returns the next event of a watcher.
func nextEvent(t *testing.T, events <-chan broker.Event) broker.Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(time.Minute):
		t.Fatal("a watcher is told nothing")
		return broker.Event{}
	}
}

// A server that refuses a lost connection is asked again, but not all the time. Once it accepts the
// connection, watchers learn that they missed events.
func TestWatch_AServerThatRefusesALostConnectionIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]struct{ refuse, accept []any }{
		"the password": {[]any{"resetpass", ">another"}, []any{">secret"}},
		"the channels": {[]any{"resetchannels", "&other"}, []any{"allchannels"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := client(t)
			user := testenv.Name(t)
			set := func(rules ...any) {
				t.Helper()
				if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", user}, rules...)...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			set("on", ">secret", "allkeys", "allchannels", "+@all")
			t.Cleanup(func() { admin.Do(context.Background(), "ACL", "DELUSER", user) })
			o := *admin.Options()
			o.Username, o.Password = user, "secret"
			var dials atomic.Int64
			o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			c := redis.NewClient(&o)
			t.Cleanup(func() { _ = c.Close() })
			b := open(t, c)
			events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}, Kinds: []broker.EventKind{broker.EventCancel}})
			if err != nil {
				t.Fatal(err)
			}

			set(rules.refuse...)
			if err := admin.Do(t.Context(), "CLIENT", "KILL", "USER", user).Err(); err != nil {
				t.Fatal(err)
			}
			start, before := time.Now(), dials.Load()
			testenv.Eventually(t, "the connection is made several times", func() bool { return dials.Load() >= before+5 })
			if took := time.Since(start); took < 2*relisten {
				t.Errorf("five connections were made within %v; want pauses of %v", took, relisten)
			}
			set(rules.accept...)
			if e := nextEvent(t, events); e.Kind != broker.EventMissed {
				t.Errorf("the first event after that is %+v, want EventMissed", e)
			}
			if err := admin.Publish(t.Context(), b.channel("q")+cancels, "a").Err(); err != nil {
				t.Fatal(err)
			}
			if e := nextEvent(t, events); e.Kind != broker.EventCancel || e.ID != "a" {
				t.Errorf("then comes %+v, want that a must be cancelled", e)
			}
		})
	}
}

// A watcher that comes while the connection of the others is lost learns that it missed events, as
// they do.
func TestWatch_WhoComesWhileTheConnectionIsLostIsToldOfIt(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t)
	c := clientOf(t, server.URL)
	b := openAs(t, c, Config{})
	watch := func() <-chan broker.Event {
		t.Helper()
		events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}, Kinds: []broker.EventKind{broker.EventCancel}})
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	before := watch()
	server.Kill()
	testenv.Eventually(t, "the connection is known to be lost", func() bool {
		b.listener.mu.Lock()
		defer b.listener.mu.Unlock()
		return len(b.listener.lost) > 0
	})
	meanwhile := watch()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for name, events := range map[string]<-chan broker.Event{"before": before, "meanwhile": meanwhile} {
		if e := nextEvent(t, events); e.Kind != broker.EventMissed {
			t.Errorf("who came %s: the first event is %+v, want EventMissed", name, e)
		}
	}
}

// wire is a network whose connections stay open, and give nothing more once it is cut.
type wire struct {
	cut   atomic.Bool
	reads atomic.Int64
}

// deaf is a connection on a wire.
type deaf struct {
	net.Conn
	on *wire
}

func (d deaf) Read(p []byte) (int, error) {
	for {
		n, err := d.Conn.Read(p)
		if d.on.reads.Add(1); err != nil || !d.on.cut.Load() {
			return n, err
		}
	}
}

// A network may drop an idle connection without notice. The watcher learns that it missed events, and hears the next ones. A connection
// on which there is nothing to hear is kept.
func TestWatch_AConnectionThatIsLostWithoutNoticeIsReplaced(t *testing.T) {
	t.Parallel()
	admin := client(t)
	o := *admin.Options()
	var dials atomic.Int64
	var wires atomic.Pointer[wire]
	wires.Store(new(wire))
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return deaf{conn, wires.Load()}, err
	}
	c := redis.NewClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	b := open(t, c)
	b.listener.every = 2 * time.Second
	events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}, Kinds: []broker.EventKind{broker.EventCancel}})
	if err != nil {
		t.Fatal(err)
	}
	cancel := func(id string) {
		t.Helper()
		if err := admin.Publish(t.Context(), b.channel("q")+cancels, id).Err(); err != nil {
			t.Fatal(err)
		}
	}
	before, heard := dials.Load(), wires.Load().reads.Load()
	testenv.Eventually(t, "the server gives signs of life", func() bool { return wires.Load().reads.Load() >= heard+2 })
	if cancel("a"); nextEvent(t, events).ID != "a" || dials.Load() != before {
		t.Errorf("%d connections were made while nothing was lost, want none", dials.Load()-before)
	}
	wires.Swap(new(wire)).cut.Store(true)
	cancel("missed")
	if e := nextEvent(t, events); e.Kind != broker.EventMissed {
		t.Errorf("the first event after that is %+v, want EventMissed", e)
	}
	if cancel("b"); nextEvent(t, events).ID != "b" {
		t.Error("then an event is missing")
	}
}
