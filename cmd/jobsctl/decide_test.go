package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// enqueued stores n jobs of a type.
func (c *cli) enqueued(n int, queue, typ string, delay time.Duration) {
	c.t.Helper()
	b, err := c.open(c.t.Context(), c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	tasks := make([]*jobs.Task, n)
	for i := range tasks {
		tasks[i] = jobs.NewTask(typ, nil, jobs.WithQueue(queue), jobs.WithDelay(delay))
	}
	if _, err := client.EnqueueMany(c.t.Context(), tasks); err != nil {
		c.t.Fatal(err)
	}
}

func TestDecide_LargeAndUnfilteredDecisionsAskWithTheNumber(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		c.enqueued(1100, "mail", "email:digest", time.Hour)
		c.enqueued(30, "mail", "email:welcome", time.Hour)
		for _, d := range []struct {
			code int
			args string
			want string
		}{
			{7, "reschedule --all", "about 1,130 jobs"},
			{7, "reschedule --queue mail", "about 1,130 jobs"},
			{7, "reschedule --type email:digest", "about 1,100 jobs"},
			{7, "reschedule --type email:digest --limit 101", "about 101 jobs"},
			{7, "cancel --type email:welcome --state scheduled", "about 30 jobs"}, // always asks
			{0, "reschedule --type email:digest --limit 100 --in 3h", ""},
			{0, "reschedule --type email:welcome --in 2h", ""},
			{0, "reschedule --all --in 2d --yes", ""},
			{0, "reschedule --type none", ""},
		} {
			out, errs := c.both(d.code, strings.Fields(d.args)...)
			if asked := strings.Contains(errs, "[y/N]"); asked != (d.want != "") || !strings.Contains(errs, d.want) {
				t.Errorf("jobsctl %s asks %q, want %q\n%s", d.args, errs, d.want, out)
			}
		}
		c.has(c.run(0, "reschedule", "--all", "--in", "1h", "--yes"), `^1,130 of 1,130 jobs rescheduled\.\n$`)
		c.has(c.run(0, "delete", "--state", "scheduled", "--all", "--dry-run"), `^1,130 jobs would be deleted`)
		c.stdin = "y\n"
		c.has(c.run(0, "delete", "--state", "scheduled", "--queue", "mail"), `^1,130 of 1,130 jobs deleted\.\n$`)
	})
}

func TestDecide_UnsuppressCountsWhatItWouldChange(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		for _, id := range []string{"a", "b", "c"} {
			c.run(0, "enqueue", "--type", "email:x", "--queue", "mail", "--id", id)
		}
		c.die(3, "no such user")
		c.run(0, "dlq", "suppress", "a")
		for _, filter := range []string{"--all", "--type email:x"} {
			c.has(c.run(0, append([]string{"dlq", "unsuppress", "--dry-run"}, strings.Fields(filter)...)...), `^1 job would be`)
			c.has(c.run(0, append([]string{"dlq", "redrive", "--dry-run"}, strings.Fields(filter)...)...), `^2 jobs would be`)
			c.has(c.run(0, append([]string{"dlq", "redrive", "--suppressed", "--dry-run"}, strings.Fields(filter)...)...), `^3 jobs would be`)
		}
	})
}

// A dry run must not count jobs that the decision would refuse.
func TestDecide_AStateThatADecisionIsNotForIsRefused(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	c.run(0, "enqueue", "--type", "email:x", "--queue", "mail", "--id", "a")
	c.die(1, "no such user")
	for line, want := range map[string]string{
		"cancel --state dead --all":                  "dead cannot be cancelled",
		"cancel --state dead --queue mail --dry-run": "dead cannot be cancelled",
		"delete --state active --all --yes":          "active cannot be deleted",
		"redrive --state pending --all":              "pending cannot be redriven",
		"reschedule --state dead --all":              "dead cannot be rescheduled",
	} {
		c.has(c.run(2, strings.Fields(line)...), "^jobsctl: jobs in state "+want)
	}
	c.run(0, "cancel", "--state", "waiting", "--all", "--dry-run")
	c.has(c.run(2, "cancel", "--state", "asleep", "--all"), "unknown state")
}

// The exit code after which nothing was changed is not that of a decision that changed some jobs before the store failed.
func TestDecide_AStoreThatFailsOnTheWay(t *testing.T) {
	t.Parallel()
	store := membroker.NewStore()
	plan := faulty.Plan{}
	c := &cli{t: t, url: "memory://", open: func(context.Context, string) (broker.Broker, error) {
		return faulty.Wrap(store.Open(), plan), nil
	}}
	c.enqueued(600, "mail", "email:digest", time.Hour)
	for _, id := range []string{"a", "b"} {
		c.run(0, "enqueue", "--type", "x", "--queue", "of-"+id, "--id", id, "--delay", "1h")
	}
	fails := func(call int) { plan = faulty.Plan{{Method: "Operate", Call: call, Fault: faulty.Unavailable}} }
	fails(1)
	c.has(c.run(5, "reschedule", "--queue", "mail", "--in", "2h", "--yes"), `^jobsctl: .*nothing was applied\n$`)
	c.run(5, "reschedule", "a", "b", "--in", "2h")
	fails(2)
	out, errs := c.both(6, "reschedule", "--queue", "mail", "--in", "2h", "--yes")
	c.has(out, `^500 of about 600 jobs rescheduled\.\n$`)
	c.has(errs, `; what was done before is not undone\n$`)
	out, errs = c.both(6, "reschedule", "a", "b", "--in", "2h")
	c.has(out+errs, `^1 of about 2 jobs rescheduled\.\n`, `; what was done before is not undone\n$`)
}

// An interrupted decision reports how many jobs it changed, and out of how many.
func TestDecide_AnInterruptedDecisionTellsWhatItDid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags string
		of    string // how the report goes on after the number
	}{
		{"--all --yes", "%d of about 20 jobs rescheduled"},
		{"--type email:welcome", "%d of about 20 jobs rescheduled"}, // counted to see whether to ask
		{"--type email:welcome --yes", "%d of %[1]d job"},
		{"--all --yes -o json", `"done":%d,`},
	} {
		url := testenv.RedisPlace(t)
		tool := &cli{t: t, url: url, open: backends.Open}
		tool.enqueued(20, "mail", "email:welcome", time.Hour)
		cmd := command(t, []string{"JOBS_BROKER=" + url}, append([]string{"reschedule", "--rate", "1"}, strings.Fields(c.flags)...)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		b, err := backends.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		pending := func() int {
			q, err := inspect.New(b).Queue(t.Context(), "mail")
			if err != nil {
				t.Fatal(err)
			}
			return int(q.Counts[broker.StatePending])
		}
		testenv.Eventually(t, "some are rescheduled", func() bool { return pending() > 0 })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit code is checked below
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("an interrupted decision exits with %d, want 130", code)
		}
		n := pending()
		if want := fmt.Sprintf(c.of, n); n == 20 || !strings.Contains(out.String(), want) || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("%s: %d of 20 jobs were rescheduled, and the command does not say %q:\n%s%s", c.flags, n, want, &out, &errs)
		}
		b.Close()
	}
}

// Ctrl-C at the question counts as no.
func TestDecide_AnInterruptedQuestionChangesNothing(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	c.enqueued(3, "mail", "x", 0)
	unanswered, typing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer typing.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	asked := make(chan struct{}, 100)
	var out, errs bytes.Buffer
	code := make(chan string, 1)
	go func() {
		code <- strconv.Itoa(run(ctx, []string{"--broker", c.url, "delete", "--state", "pending", "--all"}, environment{in: unanswered, out: &out,
			err: writerFunc(func(p []byte) (int, error) {
				asked <- struct{}{}
				return errs.Write(p)
			}), getenv: func(string) string { return "" }, home: func() (string, error) { return t.TempDir(), nil }, open: c.open}))
	}()
	await(t, "the question", asked)
	interrupt()
	if got := await(t, "the end", code); got != "130" || !strings.Contains(errs.String(), "nothing was changed") {
		t.Errorf("it exits with %s, want 130, and says %s%s", got, &out, &errs)
	}
	c.has(c.run(0, "stats"), `(?m)^mail +3 `)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
