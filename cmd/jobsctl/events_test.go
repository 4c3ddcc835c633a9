package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestEvents_FollowsWhatBecomesOfJobs(t *testing.T) {
	for name, c := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c.t = t
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
}

func TestEvents_ANewQueueIsFollowedToo(t *testing.T) {
	t.Parallel()
	c := &cli{t: t, url: testenv.RedisPlace(t), open: backends.Open}
	term := startWith(t, []string{"JOBS_BROKER=" + c.url}, "events")
	for n := 0; !strings.Contains(term.text(), "cancelled"); n++ {
		if n == 120 {
			t.Fatalf("the events of a new queue are not shown: %q", term.text())
		}
		id := fmt.Sprint("a-", n)
		c.run(0, "enqueue", "--type", "x", "--queue", "new", "--id", id, "--delay", "1h")
		c.run(0, "cancel", id, "--yes")
		time.Sleep(500 * time.Millisecond)
	}
	c.has(term.text(), `Z  cancelled  new  a-`)
}

func TestExit_AStoreThatIsNotMigratedHasACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	c := &cli{t: t, url: testenv.PostgresPlace(t), open: backends.Open}
	c.has(c.run(9, "stats"), `not migrated`, `jobsctl migrate`)
	c.run(0, "migrate")
	c.run(0, "stats")
	c.run(3, "stats", "nowhere")
}
