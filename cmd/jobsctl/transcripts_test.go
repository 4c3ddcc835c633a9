package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/schedule"
)

func TestEnqueue(t *testing.T) {
	transcribe(t, func(s *transcript) {
		s.jobs("enqueue", "--type", "email:welcome", "--queue", "mail", "--id", "a", "--payload", `{"user": 1}`)
		s.jobs("enqueue", "--type", "email:welcome", "--queue", "mail", "--id", "a")
		s.jobs("enqueue", "--type", "report")
		s.jobs("enqueue", "--type", "report", "--delay", "1h", "--id", "later")
		s.jobs("enqueue", "--type", "report", "--unique", "daily", "--id", "first")
		s.jobs("enqueue", "--type", "report", "--unique", "daily", "--id", "second")
		s.jobs("enqueue", "--type", "report", "--id", "b", "--json")
		s.stdin = "\xff\x00 not text"
		s.jobs("enqueue", "--type", "blob", "--id", "c", "--payload-file", "-", "--key", "tenant-1", "--header", "a=1,b=2", "--retention", "1h",
			"--max-retries", "3", "--priority", "1")
		s.jobs("show", "c", "--payload")
		s.jobs("queues", "policy", "mail", "--max-depth", "1")
		s.jobs("enqueue", "--type", "email:welcome", "--queue", "mail")
		s.jobs("enqueue")
		s.jobs("enqueue", "--type", "x", "--priority", "9")
		s.jobs("enqueue", "--type", "x", "--queue", "a{b}")
		s.jobs("enqueue", "--type", "x", "--delay", "-1h")
		s.jobs("enqueue", "--type", "x", "--delay", "soon")
		s.jobs("enqueue", "--type", "x", "--payload", "1", "--payload-file", "-")
		s.jobs("enqueue", "--type", "x", "--payload-file", "missing.json")
	})
}

// lived fills a store with jobs in every state.
func lived(s *transcript) *worker {
	s.t.Helper()
	enqueue := func(id, typ string, options ...string) {
		s.t.Helper()
		args := append([]string{"enqueue", "--type", typ, "--queue", "mail", "--id", id, "--retention", "24h", "--payload", `{"user":"` + id +
			`"}`}, options...)
		if _, errs, code := s.run(args...); code != 0 {
			s.t.Fatalf("enqueue %s: %s", id, errs)
		}
	}
	w := s.work("mail", 1, "email:*")
	for _, step := range []struct {
		id      string
		ends    error
		in      broker.State
		options []string
	}{
		{"done", nil, broker.StateCompleted, nil},
		{"refused", fmt.Errorf("%w: no such user", jobs.SkipRetry), broker.StateDead,
			[]string{"--header", "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
		{"hostile", fmt.Errorf("%w: \x1b]0;owned\x07 \u202egnp.exe\nsecond line", jobs.SkipRetry), broker.StateDead,
			[]string{"--key", "tenant\u202e"}},
		{"failing", errors.New("503 from the other side"), broker.StateRetry, nil},
		{"given-up", jobs.Cancel(errors.New("no use any more")), broker.StateCancelled, nil},
		{"running", nil, 0, nil},
	} {
		enqueue(step.id, "email:welcome", step.options...)
		if id := w.holds(); id != step.id {
			s.t.Fatalf("%s runs, want %s", id, step.id)
		}
		if step.in != 0 {
			w.ends(step.ends, step.in)
		}
	}
	enqueue("waiting", "email:welcome")
	enqueue("waiting-2", "email:late", "--key", "tenant-2")
	enqueue("later", "email:late", "--delay", "48h")
	return w
}

func TestLook(t *testing.T) {
	transcribe(t, func(s *transcript) {
		s.jobs("stats")
		s.jobs("stats", "--json")
		w := lived(s)
		defer w.stop()
		s.jobs("stats")
		s.jobs("stats", "mail", "--json")
		s.jobs("stats", "nothing")
		s.jobs("queues", "ls")
		s.inAnyOrder("ls")
		for _, state := range []string{"scheduled", "active", "retry", "completed", "dead", "cancelled"} {
			s.jobs("ls", "--state", state)
		}
		s.jobs("ls", "--queue", "mail", "--type", "email:late")
		s.jobs("ls", "--state", "", "--key", "tenant-2")
		s.jobs("ls", "--state", "dead", "--error", "no such")
		s.jobs("ls", "--state", "dead", "--limit", "1")
		s.jobs("ls", "--older-than", "1h")
		s.jobs("ls", "--state", "dead", "--json")
		s.jobs("ls", "--state", "lost")
		s.jobs("ls", "--queue", "nothing")
		s.jobs("show", "refused")
		s.jobs("show", "refused", "--payload", "--queue", "mail")
		s.jobs("show", "hostile")
		s.jobs("show", "running", "--json")
		s.jobs("show", "failing", "--json", "--payload")
		s.jobs("show", "nothing")
		s.jobs("workers")
		s.jobs("workers", "--running")
		s.jobs("workers", "--json")
		s.jobs("workers", "nothing")
	})
}

func TestDecide(t *testing.T) {
	transcribe(t, func(s *transcript) {
		w := lived(s)
		s.jobs("reschedule", "later", "--in", "1h")
		s.jobs("reschedule", "later", "--at", "2100-01-01T00:00:00Z")
		s.jobs("show", "later", "--json")
		s.jobs("reschedule", "later", "--at", "tomorrow")
		s.jobs("reschedule", "done")
		s.jobs("reschedule", "--state", "retry", "--all")
		s.jobs("reschedule", "--state", "retry", "--all", "--in", "2h", "--yes")
		s.jobs("cancel", "waiting")
		s.stdin = "n\n"
		s.jobs("cancel", "waiting")
		s.stdin = "y\n"
		s.jobs("cancel", "waiting")
		s.stdin = ""
		s.jobs("cancel", "running", "--yes", "--json")
		if state := await(s.t, "the cancelled job", w.told); state != broker.StateCancelled {
			s.t.Fatalf("the job that was asked to cancel is %v", state)
		}
		w.holds()
		s.jobs("cancel", "refused", "--yes")
		s.jobs("cancel", "nothing", "--yes")
		s.jobs("delete", "waiting-2", "done", "--yes") // the first is running now
		s.jobs("delete")
		s.jobs("delete", "--all", "--yes")
		s.jobs("redrive", "--dry-run", "--all")
		s.jobs("redrive", "--dry-run", "--error", "no such", "--json")
		s.jobs("redrive")
		s.jobs("redrive", "later")
		s.jobs("dlq", "list")
		s.jobs("dlq", "list", "--state", "pending")
		s.jobs("dlq", "suppress", "hostile")
		s.jobs("stats")
		s.jobs("stats", "--json")
		s.jobs("dlq", "list")
		s.jobs("dlq", "list", "--suppressed")
		s.jobs("dlq", "unsuppress", "hostile")
		s.jobs("dlq", "requeue", "--error", "owned", "--rate", "10")
		s.jobs("dlq", "purge")
		s.jobs("dlq", "purge", "--older-than", "30d", "--dry-run")
		s.jobs("dlq", "purge", "--all")
		s.jobs("dlq", "purge", "--all", "--yes", "--json")
		w.stop()
		s.jobs("stats")
	})
}

func TestQueues(t *testing.T) {
	transcribe(t, func(s *transcript) {
		s.run("enqueue", "--type", "x", "--queue", "mail", "--id", "a")
		s.jobs("queues", "policy", "mail")
		s.jobs("queues", "policy", "mail", "--max-depth", "1000", "--keep-completed", "24h", "--keep-completed-count", "10000", "--keep-dead",
			"30d", "--duplicate-span", "2h")
		s.jobs("queues", "policy", "mail", "--keep-dead-count", "500", "--json")
		s.jobs("queues", "policy", "mail", "--keep-dead", "-1h")
		s.jobs("queues", "policy", "nothing")
		s.jobs("queues", "pause", "mail")
		s.jobs("queues", "pause", "nothing")
		s.jobs("queues", "pause")
		s.jobs("queues", "ls")
		s.jobs("queues", "resume", "mail")
		s.run("enqueue", "--type", "x", "--queue", "mail+gpu", "--id", "labelled")
		s.jobs("enqueue", "--type", "x", "--queue", "mail+ssd+gpu")
		s.jobs("queues", "pause", "mail+*")
		s.jobs("queues", "ls", "mail+*")
		s.jobs("ls", "--queue", "mail+*", "--state", "pending")
		s.jobs("why", "labelled")
		s.jobs("queues", "resume", "mail+*", "nothing+*")
		s.run("delete", "labelled", "--yes")
		s.run("queues", "remove", "mail+gpu")
		s.jobs("queues", "remove", "mail")
		s.run("delete", "a", "--yes")
		s.jobs("queues", "remove", "mail")
		s.jobs("queues", "remove", "mail")
		s.jobs("queues", "ls")
		s.jobs("migrate")
	})
}

func TestCarry(t *testing.T) {
	transcribe(t, func(s *transcript) {
		w := lived(s)
		defer w.stop()
		s.jobs("edit", "refused", "--payload", `{ "user" : 2 }`, "--dry-run")
		s.jobs("edit", "refused", "--payload", `{"user":2}`)
		s.jobs("edit", "refused", "--payload", `{"user":2}`, "--yes")
		s.jobs("edit", "refused", "--payload", `{"user":`)
		s.jobs("edit", "running", "--payload", `{"user":2}`, "--yes")
		s.jobs("edit", "later", "--payload", `{"user":2}`, "--redrive")
		s.jobs("edit", "nothing", "--payload", `{"user":2}`)
		s.jobs("show", "refused", "--payload")
		s.stdin = s.jobs("dlq", "export", "--queue", "mail")
		s.jobs("import", "-", "--queue", "copies", "--dry-run")
		s.jobs("import", "-", "--queue", "copies")
		s.jobs("import", "-", "--queue", "copies")
		s.jobs("dlq", "list", "--queue", "copies")
		s.stdin = "{}\nno JSON\n"
		s.jobs("import", "-")
		s.jobs("import", "missing.ndjson")
		s.stdin = ""
		s.jobs("export", "--state", "active")
		s.jobs("move", "--queue", "copies")
		s.jobs("move", "--queue", "copies", "--to-queue", "elsewhere", "--dry-run")
		s.jobs("move", "--queue", "copies", "--to-queue", "elsewhere", "--state", "dead", "--error", "owned", "--yes")
		s.jobs("stats", "copies", "elsewhere")
		s.jobs("move", "--queue", "nothing", "--to-queue", "elsewhere")
		s.jobs("relay")
		s.jobs("relay", "--queue", "copies")
		s.jobs("relay", "--queue", "copies,mail", "--to-queue", "elsewhere")
	})
}

func TestSchedule(t *testing.T) {
	transcribe(t, func(s *transcript) {
		s.jobs("schedule", "list")
		b := s.broker()
		schedules := schedule.New(b, "shop")
		put := func(id string, spec schedule.Spec, task *jobs.Task, opts ...schedule.Option) {
			s.t.Helper()
			if _, err := schedules.Put(s.t.Context(), id, spec, task, opts...); err != nil {
				s.t.Fatal(err)
			}
		}
		put("nightly", schedule.Cron("0 3 29 2 *", "Europe/Berlin"), jobs.NewTask("report", []byte(`{"region":"eu"}`), jobs.WithQueue("reports")),
			schedule.WithOverlap(schedule.OverlapSkip), schedule.WithMisfire(schedule.RunUpTo(3, 2*time.Hour)), schedule.WithExpiry(time.Hour))
		put("old", schedule.Cron("@yearly", ""), jobs.NewTask("report", []byte{0xff}), schedule.WithJitter(time.Minute),
			schedule.WithEnd(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)))
		put("hostile\u202e", schedule.Cron("@yearly", ""), jobs.NewTask("\u202etype", nil))
		if _, err := schedule.New(b, "other").Put(s.t.Context(), "theirs", schedule.Cron("0 0 29 2 *", ""), jobs.NewTask("x", nil)); err != nil {
			s.t.Fatal(err)
		}
		s.jobs("schedule", "list")
		s.jobs("schedule", "list", "--owner", "other", "--json")
		s.jobs("schedule", "list", "--status", "ended")
		s.jobs("schedule", "list", "--status", "tired")
		s.jobs("schedule", "show", "nightly")
		s.jobs("schedule", "show", "nightly", "--payload")
		s.jobs("schedule", "show", "old", "--json", "--payload")
		s.jobs("schedule", "show", "nothing")
		s.jobs("schedule", "show")
		s.jobs("schedule", "pause", "nightly", "--by", "ada")
		s.jobs("schedule", "show", "nightly")
		s.jobs("schedule", "show", "nightly", "--json")
		s.jobs("schedule", "resume", "nightly", "nothing")
		s.jobs("schedule", "resume")
		s.jobs("schedule", "run", "nightly")
		s.jobs("schedule", "run", "nightly", "--json")
		s.jobs("doctor", "--queue", schedule.Queue)
		s.runsSchedules(func() bool {
			info, err := schedules.Get(s.t.Context(), "nightly")
			return err == nil && info.Counts.Enqueued == 2
		})
		s.jobs("schedule", "show", "nightly")
		s.jobs("schedule", "delete", "nightly", "nothing")
		s.jobs("schedule", "delete", "nightly", "old")
		s.stdin = "y\n"
		s.jobs("schedule", "delete", "nightly")
		s.stdin = ""
		s.jobs("schedule", "delete", "old", "--yes")
		s.jobs("schedule", "delete")
		s.jobs("schedule", "list", "--owner", "shop")
		s.jobs("schedule", "stop", "nightly")
	})
}

// runsSchedules runs a server until done returns true.
func (s *transcript) runsSchedules(done func() bool) {
	s.t.Helper()
	b := s.broker()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	log := slog.New(slog.DiscardHandler)
	server, err := jobs.NewServer(b, jobs.Config{Logger: log,
		Extensions: []jobs.Extension{schedule.New(b, "shop").Extension(client, schedule.ExtensionConfig{Logger: log})}})
	if err == nil {
		err = server.Start(context.Background(), jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return nil }))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	testenv.Eventually(s.t, "a server runs the schedules", done)
	if err := server.Shutdown(s.t.Context()); err != nil {
		s.t.Error(err)
	}
}
