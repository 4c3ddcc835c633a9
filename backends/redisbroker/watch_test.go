package redisbroker

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// Every worker watches for cancellations. That must not make settles publish events, and a
// worker must not get those that another watcher asks for.
func TestWatch_WhoWatchesForCancellationsIsToldNothingElse(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	told := func(kinds ...broker.EventKind) (settled, cancelled int64, announced bool) {
		t.Helper()
		if _, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}, Kinds: kinds}); err != nil {
			t.Fatal(err)
		}
		channel := b.channel("q")
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
	if settled, cancelled, _ := told(); settled != 1 || cancelled != 1 {
		t.Errorf("and one who watches for all, on the same connection: %d, %d; want 1, 1", settled, cancelled)
	}
}

// All watchers share one connection, which is closed with the last of them.
func TestWatch_WatchersShareAConnection(t *testing.T) {
	t.Parallel()
	server, cluster := client(t), clusterClient(t)
	for name, c := range map[string]redis.UniversalClient{server.Options().ClientName: server, cluster.Options().ClientName: cluster} {
		b := open(t, c)
		subscribed := func() (n int) {
			err := eachServer(c, func(node *redis.Client) error {
				list, err := node.ClientList(t.Context()).Result()
				for line := range strings.Lines(list) {
					if strings.Contains(line, "name="+name+" ") && !strings.Contains(line, " sub=0 ") {
						n++
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		queues := []string{"q0", "q1", "q2", "q3", "q4"}
		register(t, b, "w", queues...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var events []<-chan broker.Event
		var mu sync.Mutex
		var wait sync.WaitGroup
		for i := range 200 {
			wait.Go(func() {
				got, err := b.Watch(ctx, broker.WatchRequest{Queues: queues[i%5 : i%5+1], Kinds: []broker.EventKind{broker.EventSettled}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				events = append(events, got)
				mu.Unlock()
			})
		}
		wait.Wait()
		if n := subscribed(); n != 1 {
			t.Errorf("%s: 200 watchers have %d connections, want 1", name, n)
		}
		for _, q := range queues {
			enqueue(t, b, job(q, "a"))
			got := claimAt(t, b, at(0), "w", 1, q).Jobs
			req := broker.SettleRequest{Now: at(0), Worker: "w", Number: 1,
				Items: []broker.Settlement{{Job: &got[0], Outcome: broker.Complete(nil)}}}
			if v, err := b.Settle(ctx, req); err != nil || v[0].Err != nil {
				t.Fatal(v, err)
			}
		}
		for _, each := range events {
			select {
			case e := <-each:
				if e.Kind != broker.EventSettled || e.ID != "a" {
					t.Errorf("%s: an event %+v, want that of a", name, e)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s: a watcher is told nothing", name)
			}
		}
		cancel()
		for _, each := range events {
			for range each { // until it is closed
			}
		}
		testenv.Eventually(t, "the connection is given up", func() bool { return subscribed() == 0 })
		if _, err := b.Watch(t.Context(), broker.WatchRequest{Queues: queues}); err != nil || subscribed() != 1 {
			t.Errorf("%s: a watcher after all had gone: %v, %d connections", name, err, subscribed())
		}
	}
}

// A watch for a shorter time does not shorten a longer one.
func TestBroker_WatchKeepsTheLaterTime(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	enqueue(t, b, job("q", "a"))
	until := func() time.Time {
		us, err := c.HGet(t.Context(), b.queue("q").key("m"), "watch").Int64()
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMicro(us)
	}
	for _, span := range []time.Duration{time.Hour, time.Minute} {
		s := &step{script: watchScript, queues: []string{"q"}, now: "0", args: []any{span.Microseconds()}}
		if err := b.runOne(t.Context(), s); err != nil || s.code != codeDone {
			t.Fatal(s.code, err)
		}
	}
	if left := time.Until(until()); left < 30*time.Minute {
		t.Errorf("settles tell for %v more, want the hour that was asked for first", left)
	}
}

// Settles publish their jobs for as long as somebody watches, and no longer.
func TestWatch_IsAnnouncedAgainAndAgain(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{broker: b, req: broker.WatchRequest{Queues: []string{"q"}}, events: make(chan broker.Event, 1)}
	if err := w.announce(ctx); err != nil {
		t.Fatal(err)
	}
	key := b.queue("q").key("m")
	repeat, ended := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		w.attend(ctx, repeat)
	}()
	for range 2 {
		if err := c.HSet(ctx, key, "watch", 1).Err(); err != nil {
			t.Fatal(err)
		}
		repeat <- time.Time{}
		testenv.Eventually(t, "the watch is announced again", func() bool {
			until, err := c.HGet(t.Context(), key, "watch").Int64()
			return err == nil && time.UnixMicro(until).After(time.Now().Add(watchSpan/2))
		})
	}
	cancel()
	<-ended

	// Settles publish nothing after the watch has run out.
	if err := c.HSet(t.Context(), key, "watch", time.Now().Add(-time.Second).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
	sub := c.Subscribe(t.Context(), b.channel("q"))
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	register(t, b, "w", "q")
	enqueue(t, b, job("q", "a"))
	l := &life{t: t, b: b, queue: "q"}
	l.settle(at(0), "w", claimAt(t, b, at(0), "w", 1, "q").Jobs, broker.Complete(nil))
	if err := c.Publish(t.Context(), b.channel("q"), "mark").Err(); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.ReceiveMessage(t.Context()); err != nil || m.Payload != "mark" {
		t.Errorf("a settle told %v, %v, although nobody watches any more", m, err)
	}
}

// The broker has no subscription to a queue that nobody watches.
func TestWatch_TheLastWatcherOfAQueueEndsItsSubscription(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	channel := func(queue string) string { return b.channel(queue) }
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"stays"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Watch(ctx, broker.WatchRequest{Queues: []string{"leaves"}}); err != nil {
		t.Fatal(err)
	}
	cancel()
	testenv.Eventually(t, "the subscription ends", func() bool {
		n, err := c.PubSubNumSub(t.Context(), channel("stays"), channel("leaves")).Result()
		return err == nil && n[channel("stays")] == 1 && n[channel("leaves")] == 0
	})
}

// Events are lost while the connection is down. A watcher then gets one EventMissed, however
// many channels it has.
func TestWatch_ALostConnectionIsToldOfOnce(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}})
	if err != nil {
		t.Fatal(err)
	}
	next := func() broker.Event {
		t.Helper()
		select {
		case e := <-events:
			return e
		case <-time.After(time.Minute):
			t.Fatal("a watcher whose connection was lost is told nothing")
			return broker.Event{}
		}
	}
	bounce(t, c, c.Options().ClientName)
	if e := next(); e.Kind != broker.EventMissed {
		t.Errorf("the first event after the connection was lost is %+v, want EventMissed", e)
	}
	channel := b.channel("q")
	testenv.Eventually(t, "both channels are listened to again", func() bool {
		n, err := c.PubSubNumSub(t.Context(), channel, channel+cancels).Result()
		return err == nil && n[channel] == 1 && n[channel+cancels] == 1
	})
	enqueue(t, b, job("q", "a"))
	l := &life{t: t, b: b, queue: "q"}
	l.settle(at(0), "w", claimAt(t, b, at(0), "w", 1, "q").Jobs, broker.Complete(nil))
	if e := next(); e.Kind != broker.EventSettled || e.ID != "a" {
		t.Errorf("then comes %+v, want the end of a", e)
	}
}

// Two environments may use one prefix in two databases of a server. Channels belong to no database; a watcher is told only of its own jobs.
func TestWatch_TellsNothingOfOtherDatabases(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	o.DB = 1
	others := redis.NewClient(o)
	t.Cleanup(func() { _ = others.Close() })
	b := open(t, client(t))
	events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := openAs(t, others, b.config).Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*Broker{"theirs": openAs(t, others, b.config), "mine": b} {
		register(t, b, "w", "q")
		enqueue(t, b, job("q", name+" asked"), job("q", name+" done"))
		l := &life{t: t, b: b, queue: "q"}
		jobs := claimAt(t, b, at(0), "w", 2, "q").Jobs
		l.operate(broker.Operation{Kind: broker.OpCancel}, name+" asked")
		l.settle(at(0), "w", jobs[1:], broker.Complete(nil))
	}
	for name, events := range map[string]<-chan broker.Event{"mine": events, "theirs": theirs} {
		for range 2 {
			if e := <-events; !strings.HasPrefix(e.ID, name) {
				t.Errorf("who watches %s is told of %s", name, e.ID)
			}
		}
	}
}
