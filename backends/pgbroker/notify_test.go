package pgbroker

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// listenTo listens as a process in which claims wait for all queues that there are. The
// function that it returns returns what came before a payload.
func listenTo(t *testing.T, f *inside) (heard func(until string) []string) {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), f.db.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	number := 1 + rand.Int32N(math.MaxInt32-1)
	if _, err := conn.Exec(t.Context(), fmt.Sprintf(`listen %s; listen """%s"".%d"; select pg_advisory_lock(%d, %[3]d)`,
		f.channel, f.schema, number, listenerLock)); err != nil {
		t.Fatal(err)
	}
	f.exec("insert into jobs.waiter (queue, listener) select id, $1 from jobs.queue", number)
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

func TestNotify_NotificationsAreAtMostOnePerWindow(t *testing.T) {
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

func TestNotify_ANotificationHeldBackIsSentAtTheEndOfItsWindow(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 10)
	tasks := newTasks()
	w := newWaker(tasks, func(_ context.Context, queue string, wakes []*wakeUp, _ bool) bool {
		sent <- wakes[0].payload(queue)
		return false
	})
	first, second := w.announce("q", true, 1), w.announce("q", true, 2)
	other := w.announce("other", true, 1)
	if first == nil || second != nil || other == nil {
		t.Fatalf("announced %v, %v, and for another queue %v; want the first of each queue to send", first, second, other)
	}
	w.announced("q", true, 1, first, nil)
	w.announced("q", true, 2, second, nil)
	w.announced("q", true, 3, w.announce("q", true, 3), nil)
	if got, want := <-sent, w.messageLocked(true, 5).payload("q"); got != want {
		t.Errorf("at the end of the window %q was sent, want %q", got, want)
	}
	tasks.stop()
	if n := len(sent); n != 0 {
		t.Errorf("%d more notifications were sent for one window", n)
	}
}

// A producer may name its queues by tenant or by day.
func TestNotify_WindowsThatHaveEndedAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tasks, sent := newTasks(), make(chan string, 1)
		defer tasks.stop()
		w := newWaker(tasks, func(_ context.Context, queue string, _ []*wakeUp, _ bool) bool { sent <- queue; return false })
		enqueue := func(queue string) { w.announced(queue, true, 1, w.announce(queue, true, 1), nil) }
		for i := range 50 * fewWindows {
			enqueue(strconv.Itoa(i))
			time.Sleep(notifyWindow / 10)
		}
		if n := len(w.windows); n > 2*fewWindows {
			t.Errorf("%d windows are remembered after %d queues with an enqueue each", n, 50*fewWindows)
		}
		for range 2 {
			enqueue("late") // the second notification waits for the end of the window
		}
		time.Sleep(notifyWindow + notifyGrace/2)
		for i := range 3 * fewWindows {
			enqueue("more" + strconv.Itoa(i))
		}
		if w.announce("late", true, 1) == nil {
			t.Error("the window of late has not ended")
		}
		time.Sleep(notifyGrace)
		synctest.Wait()
		if len(sent) != 0 {
			t.Error("a window was forgotten before its delayed notification, which was sent beside the one that contains it")
		}
	})
}

// The timer of a window whose notification a statement has sent does not end the next window early.
func TestNotify_ATimerSendsOnlyAtTheEndOfItsOwnWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan string, 10)
		tasks := newTasks()
		defer tasks.stop()
		w := newWaker(tasks, func(_ context.Context, queue string, wakes []*wakeUp, _ bool) bool {
			sent <- wakes[0].payload(queue)
			return false
		})
		enqueue := func(after time.Duration) bool {
			time.Sleep(after)
			message := w.announce("q", true, 1)
			w.announced("q", true, 1, message, nil)
			return message != nil
		}
		first, second := enqueue(0), enqueue(time.Millisecond)
		third, fourth := enqueue(notifyWindow-time.Millisecond/2), enqueue(time.Millisecond/4)
		if !first || second || !third || fourth {
			t.Fatalf("statements sent notifications: %v %v %v %v; want the first of each window to", first, second, third, fourth)
		}
		time.Sleep(notifyWindow / 2)
		synctest.Wait()
		if n := len(sent); n != 0 {
			t.Errorf("%d notifications more were sent within a window", n)
		}
		time.Sleep(notifyWindow)
		synctest.Wait()
		if n := len(sent); n != 1 {
			t.Errorf("%d notifications were sent at the end of the window, want 1", n)
		}
	})
}

// A notification that was held back covers all that it replaced: only if all were for pending
// jobs does it say so.
func TestNotify_ANotificationOfPendingJobsSpeaksOfNothingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan string, 10)
		tasks := newTasks()
		defer tasks.stop()
		w := newWaker(tasks, func(_ context.Context, queue string, wakes []*wakeUp, _ bool) bool {
			sent <- wakes[0].payload(queue)
			return false
		})
		flush := func(pending bool) *wakeUp {
			wake := w.announce("q", pending, 1)
			w.announced("q", pending, 1, wake, nil)
			return wake
		}
		payload := func(pending bool, jobs int) string { return w.messageLocked(pending, jobs).payload("q") }
		if got := flush(true); got == nil || got.payload("q") != payload(true, 1) {
			t.Fatalf("a flush of a pending job announces %+v, want %q", got, payload(true, 1))
		}
		flush(true)
		if got := <-sent; got != payload(true, 1) {
			t.Errorf("after a window of pending jobs %q was sent, want %q", got, payload(true, 1))
		}
		flush(true)
		flush(false)
		flush(true)
		if got := <-sent; got != payload(false, 3) {
			t.Errorf("after a window with a scheduled job %q was sent, want %q", got, payload(false, 3))
		}
		flush(false)
		time.Sleep(notifyWindow)
		if got := flush(true); got == nil || got.payload("q") != payload(false, 2) {
			t.Errorf("a flush of pending jobs that speaks for a scheduled one announces %+v, want %q", got, payload(false, 2))
		}
		if n := w.sofar(); n.all != 7 || n.other != 2 {
			t.Errorf("heard %+v, want 7 wake-ups, 2 of them of more than pending jobs", n)
		}
	})
}
