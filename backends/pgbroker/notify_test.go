package pgbroker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// listenTo listens on the fixture's channel. The function that it returns
// gives what came before a payload.
func listenTo(t *testing.T, f *inside) (heard func(until string) []string) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), f.db.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), "listen "+f.channel); err != nil {
		t.Fatal(err)
	}
	return func(until string) (all []string) {
		t.Helper()
		for {
			n, err := conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == until {
				return all
			}
			all = append(all, n.Payload)
		}
	}
}

func TestNotificationsAreAtMostOnePerWindow(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.accept(f, job("first of the queue"))
	heard := listenTo(t, f)
	began := time.Now()
	var flushes sync.WaitGroup
	const producers, each = 4, 50
	for p := range producers {
		flushes.Go(func() {
			for i := range each {
				receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job(fmt.Sprint(p, "-", i))}})
				if err != nil || receipts[0].Err != nil {
					t.Error(err, receipts)
				}
			}
		})
	}
	flushes.Wait()
	took := time.Since(began)
	f.Close() // sends what a window held back
	f.exec("select pg_notify($1, 'end')", f.channel)
	n := len(heard("end"))
	if most := int(took/notifyWindow) + 2; n < 1 || n > most {
		t.Errorf("%d enqueues in %v made %d notifications, want 1 to %d: one per %v and one more", producers*each, took, n, most, notifyWindow)
	}
	if n >= producers*each {
		t.Errorf("every one of %d enqueues notified", n)
	}
}

func TestANotificationHeldBackIsSentAtTheEndOfItsWindow(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 10)
	tasks := newTasks()
	w := newWaker("channel", tasks, func(_ context.Context, wake *wakeUp) { sent <- wake.payload })
	first, second := w.announce("q"), w.announce("q")
	other := w.announce("other")
	if first == nil || second != nil || other == nil {
		t.Fatalf("announced %v, %v, and for another queue %v; want the first of each queue to send", first, second, other)
	}
	w.announced("q", first, nil)
	w.announced("q", second, nil)
	w.announced("q", w.announce("q"), nil)
	if got, want := <-sent, w.message("q").payload; got != want {
		t.Errorf("at the end of the window %q was sent, want %q", got, want)
	}
	tasks.stop()
	if n := len(sent); n != 0 {
		t.Errorf("%d more notifications were sent for one window", n)
	}
}
