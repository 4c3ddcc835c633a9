package inspect_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

func TestInspector_NotesWhoPausedAQueueAndWhen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		defer b.Close()
		i, ctx := inspect.New(b), t.Context()
		note := func() string {
			t.Helper()
			n, known, err := i.PauseNote(ctx, "mail")
			if err != nil {
				t.Fatal(err)
			}
			if !known {
				return "nothing"
			}
			return fmt.Sprintf("%t by %q at %s", n.Paused, n.By, n.At.Format("15:04"))
		}
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now().UTC()
		at := func(minutes int) string { return begin.Add(time.Duration(minutes) * time.Minute).Format("15:04") }
		if got := note(); got != "nothing" {
			t.Errorf("of a queue that nobody paused: %s", got)
		}
		ok(i.As("ada").WithNote("a deploy").Pause(ctx, "mail"))
		time.Sleep(time.Minute)
		ok(i.As("bob").Pause(ctx, "mail")) // it is paused already
		depth := int64(10)
		_, err := i.As("eve").SetPolicy(ctx, inspect.PolicyRequest{Queue: "mail", MaxDepth: &depth})
		ok(err)
		ok(i.As("eve").PauseKey(ctx, "mail", "acme"))
		if got, want := note(), `true by "ada" at `+at(0); got != want {
			t.Errorf("after a pause: %s, want %s", got, want)
		}
		e, err := i.EvidenceIn(ctx, &broker.Job{Queue: "mail", State: broker.StatePending}, inspect.QueueInfo{Now: time.Now(),
			QueueInfo: broker.QueueInfo{Name: "mail", Policy: inspect.Policy{Paused: true}}})
		ok(err)
		if got, want := inspect.Explain(e)[0].Text, "the queue mail is paused by ada since "+readable.Clock(begin)+": a deploy"; got != want {
			t.Errorf("why says %q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		ok(i.Resume(ctx, "mail"))
		if got, want := note(), `false by "" at `+at(2); got != want {
			t.Errorf("after somebody resumed it: %s, want %s", got, want)
		}
	})
}
