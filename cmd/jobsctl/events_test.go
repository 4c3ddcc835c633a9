package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestEvents_FollowsWhatBecomesOfJobs(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		c.run(0, "enqueue", "--type", "email:welcome", "--queue", "mail", "--id", "warm-up")
		lines := make(chan string, 1000)
		code := make(chan int, 1)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		go func() {
			var errs bytes.Buffer
			code <- run(ctx, []string{"--broker", c.url, "events", "--state", "dead,cancelled", "--json"}, environment{in: strings.NewReader(""),
				out: writerFunc(func(p []byte) (int, error) {
					lines <- string(p)
					return len(p), nil
				}), err: &errs, getenv: func(string) string { return "" }, home: func() (string, error) { return t.TempDir(), nil }, open: c.open})
			if errs.Len() > 0 {
				t.Errorf("it says %s", &errs)
			}
		}()
		next := func() (e eventView) {
			t.Helper()
			if err := json.Unmarshal([]byte(await(t, "an event", lines)), &e); err != nil {
				t.Fatal(err)
			}
			return e
		}
		for n, begun := 0, false; !begun; n++ { // repeat until the command listens
			if n == 300 {
				t.Fatal("no event is written")
			}
			id := fmt.Sprint("early-", n)
			c.run(0, "enqueue", "--type", "x", "--queue", "mail", "--id", id, "--delay", "1h")
			c.run(0, "cancel", id, "--yes")
			select {
			case <-lines:
				begun = true
			case <-time.After(200 * time.Millisecond):
			}
		}
		c.die(1, "no such user")
		e := next()
		for strings.HasPrefix(e.ID, "early") {
			e = next()
		}
		if e.At.IsZero() || e.Event != "settled" || e.Queue != "mail" || e.ID != "warm-up" || e.State != "dead" || e.Type != "email:welcome" ||
			e.Attempt != 1 || !strings.HasPrefix(e.Error, "no such user") {
			t.Errorf("the event is %+v", e)
		}
		interrupt()
		if got := await(t, "the end", code); got != 0 {
			t.Errorf("it exits with %d after an interrupt, want 0", got)
		}
		c.run(2, "events", "--state", "asleep")
		c.run(3, "events", "nowhere")
	})
}

// An outage of the store ends neither command: both are for watching an incident.
func TestEvents_FollowingAndWatchingGoOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := membroker.New()
		defer store.Close()
		away := faulty.Wrap(store, nil)
		c := &cli{t: t}
		var out, errs bytes.Buffer
		a := &app{environment: environment{out: &out, err: &errs}}
		ctx, interrupt := context.WithCancel(t.Context())
		cancel := func(queue, id string) {
			t.Helper()
			job := broker.NewJob{Queue: queue, ID: id, Body: broker.Body{Type: "x", Priority: broker.PriorityNormal}}
			_, err := store.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job}})
			if err == nil {
				_, err = inspect.New(store).Select(inspect.Query{Queue: queue, IDs: []string{id}}).Cancel(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		cancel("mail", "before")
		var ended sync.WaitGroup
		ended.Go(func() {
			f := follower{app: a, inspector: inspect.New(away)}
			if err := f.follow(ctx, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("following ends with %v", err)
			}
		})
		synctest.Wait()
		away.Set(faulty.Plan{{Method: "Find", Call: 1, Fault: faulty.Unavailable}, {Method: "Queues", Call: 1, Fault: faulty.Unavailable}})
		cancel("mail", "during")
		time.Sleep(2 * lookForQueues)
		cancel("mail", "after")
		cancel("new", "unseen")
		time.Sleep(lookForQueues)
		cancel("new", "seen") // a queue that did not exist at first
		interrupt()
		ended.Wait()
		c.has(out.String(), "cancelled  mail  during", "cancelled  mail  after", "cancelled  new  seen")
		c.has(errs.String(), "unavailable.*events may be missing")

		ctx, interrupt = context.WithCancel(t.Context())
		looks := 0
		if err := a.watch(ctx, time.Second, func() error {
			if looks++; looks == 5 {
				interrupt()
			}
			if looks == 2 {
				return broker.ErrUnavailable
			}
			return nil
		}); err != nil || looks != 5 {
			t.Errorf("watching ends after %d looks with %v", looks, err)
		}
		c.has(errs.String(), "asking again")
		if err := a.watch(t.Context(), time.Second, func() error { return broker.ErrUnavailable }); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("a store that is away from the start: %v", err)
		}
	})
}

func TestExit_AStoreThatIsNotMigratedHasACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	c := &cli{t: t, url: testenv.PostgresPlace(t), open: backends.Open}
	c.has(c.run(9, "stats"), `not migrated`, `jobsctl migrate`)
	c.run(0, "migrate")
	c.run(0, "stats")
	c.run(3, "stats", "nowhere")
}
