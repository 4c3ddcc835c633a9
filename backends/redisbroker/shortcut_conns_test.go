package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A few jobs are not worth a connection, nor are many with pauses between; a batch
// counts for several.
func TestAShortcutIsMadeForManyRequests(t *testing.T) {
	t.Parallel()
	for size, requests := range map[int]int{1: shortcutAfter, 2: shortcutAfter / 2, 100: shortcutAfter / largeRequest} {
		b := open(t, client(t))
		b.shortcuts.idle = 30 * time.Second
		n := 0
		made := func(requests int) bool {
			for range requests {
				n++
				accept(t, b, firstSends("q", fmt.Sprint("request", n, "-"), size))
			}
			return slices.ContainsFunc(b.shortcuts.ways[:], func(way shortcut) bool { return way.conn != nil })
		}
		for range 3 {
			b.shortcuts.used = time.Now().Add(-time.Minute)
			if made(requests) {
				t.Fatalf("a connection was made for %d requests of %d jobs", requests, size)
			}
		}
		if !made(3) {
			t.Errorf("no connection was made for more than %d requests of %d jobs", requests, size)
		}
	}
}

// Of queues without end a few are watched, then none for a while: watching costs
// more than it saves where no job comes to a queue that is watched.
func TestShortcutsAreForAFewQueues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		queues, most int // of watches begun
		scripts      bool
	}{{3 * mostWatched, 3 * mostWatched, false}, {100, mostInVain / 2, true}} {
		t.Run(fmt.Sprint(test.queues), func(t *testing.T) {
			t.Parallel()
			b := open(t, client(t))
			b.shortcuts.after, b.shortcuts.rest, b.shortcuts.idle = 0, 0, time.Minute
			round := func(n int) {
				for q := range test.queues {
					accept(t, b, firstSends(fmt.Sprint("q", q), fmt.Sprint("round", n, "-"), 1))
				}
			}
			round(0) // makes the queues
			count := &commands{}
			b.store.single.AddHook(count)
			b.store.aside.AddHook(count)
			count.reset()
			for n := range 4 {
				round(n + 1)
			}
			begun := count.names["multi"] - int(count.transacted.Load())
			if begun > test.most {
				t.Errorf("%d watches were begun for %d queues, want %d at most", begun, test.queues, test.most)
			}
			count.reset()
			round(5)
			if got := count.names["multi"] == 0; got != test.scripts {
				t.Errorf("in the end were sent, for %d queues, %v", test.queues, count.names)
			}
		})
	}
}

// A connection that nobody used for a while is not relied on, though others were.
func TestAnIdleShortcutIsLeft(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	warm(t, b, "q")
	at := slices.IndexFunc(b.shortcuts.ways[:], func(way shortcut) bool { return way.conn != nil })
	way := &b.shortcuts.ways[at]
	if err := way.conn.Do(t.Context(), "quit").Err(); err != nil {
		t.Fatal(err)
	}
	way.used = time.Now().Add(-time.Minute)
	accept(t, b, firstSends("q", "after", 3))
}

// Jobs are stored though no connection can be had for a shortcut, and trying is
// left for a while.
func TestWithoutAConnectionForItTheScriptsServe(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	var dials atomic.Int64
	b.store.aside.Options().Dialer = func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, &net.OpError{Op: "dial", Err: errors.New("no more ports")}
	}
	b.shortcuts.after, b.shortcuts.rest = 1, 0
	for i := range 10 {
		accept(t, b, firstSends("q", fmt.Sprint("request", i, "-"), 1+i%2))
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("a connection was tried %d times for ten requests, want once", n)
	}
}

// A connection that breaks between two batches costs one answer, and no more,
// however many break.
func TestAShortcutThatBreaksIsReplaced(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	quit := func() {
		t.Helper()
		warm(t, b, "q")
		for i := range b.shortcuts.ways {
			if conn := b.shortcuts.ways[i].conn; conn != nil {
				if err := conn.Do(t.Context(), "quit").Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	quit()
	jobs := firstSends("q", "job", 3)
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs})
	for i, err := range outcomes(jobs, receipts, err) {
		if err == nil || !broker.MayHaveApplied(err) {
			t.Errorf("%s: got %v by a connection that is closed, want that it may have been stored", jobs[i].ID, err)
		}
	}
	for i := range jobs {
		jobs[i].Drawn = time.Time{}
	}
	accept(t, b, jobs)

	for i := range b.shortcuts.ways { // the server went away, and took all that there are
		warm(t, b, "q")
		if way := &b.shortcuts.ways[i]; way.conn == nil {
			steps := []*step{{batch: &enqueueBatch{queue: b.queue("q")}}}
			b.begin(t.Context(), way, steps)
			b.shortcuts.give(way)
		}
	}
	quit()
	lost := firstSends("q", "lost", 1)
	if receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: lost}); err == nil && receipts[0].Err == nil {
		t.Error("a job was accepted by a connection that is closed")
	}
	accept(t, b, firstSends("q", "then", 3))
}
