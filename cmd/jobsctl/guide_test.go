package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

// guideLine matches a command in an indented block of the guide.
var guideLine = regexp.MustCompile(`(?m)^ {4,}(?:\$ )?(jobsctl .*)$`)

// guideJob stands in the guide for the ID of any job.
const guideJob = "01J8ZQ4GVX4M8S7K9T2B3C4D5E"

// Each command of the guide succeeds in a store with the queues and jobs that the guide
// names.
func TestDocs_CommandsOfTheGuideRun(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range guideLine.FindAllStringSubmatch(string(text), -1) {
			line, _, _ := strings.Cut(m[1], " #")
			ran++
			t.Run(strings.TrimSpace(line), func(t *testing.T) {
				t.Parallel()
				runGuideLine(t, file, words(strings.ReplaceAll(line, "01J…", guideJob))[1:])
			})
		}
	}
	if ran < 20 {
		t.Errorf("only %d commands were found: they are looked for in the wrong way", ran)
	}
}

// runbookCommand matches a command in the text of a runbook.
var runbookCommand = regexp.MustCompile("`(jobsctl [^`]*)`")

// Each runbook begins with a command, and its commands succeed in a store that has what
// the alert reports.
func TestDocs_CommandsOfTheRunbooksRun(t *testing.T) {
	t.Parallel()
	const file = "../../docs/runbooks.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	group := inspect.Group{Type: "report", Fingerprint: "timeout"}
	names := strings.NewReplacer("QUEUE", "reports", "GROUP", group.ID(), "TYPE", "report", "KEY", "acme", " N", " 10", "WHY", "rain",
		"schedule pause ID", "schedule pause nightly-report", "ID", guideJob)
	ran := make(map[string]bool)
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		name, _, _ := strings.Cut(section, "\n")
		step := regexp.MustCompile("(?s)\n(1\\.|-) .*?(\n\\d\\. |\n- |\n\n|$)").FindString(section)
		if !regexp.MustCompile("`(jobsctl|kubectl|curl|redis-cli|psql) ").MatchString(step) {
			t.Errorf("the first step of %s has no command:%s", name, step)
		}
		for _, m := range runbookCommand.FindAllStringSubmatch(section, -1) {
			args := words(names.Replace(m[1]))[1:]
			if slices.Contains([]string{"top", "bench"}, args[0]) || ran[m[1]] {
				continue // commands that need a terminal or take long
			}
			a := &app{environment: environment{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}}
			cmd, rest, err := a.root().Find(args)
			if err != nil || len(rest) == 0 && (cmd.ValidateArgs(nil) != nil || cmd.Name() == "move" || cmd.HasSubCommands()) {
				continue // named only, without arguments
			}
			ran[m[1]] = true
			if args[0] == "events" {
				args = words(strings.ReplaceAll(strings.Join(args, " "), "reports", "dying"))
			}
			t.Run(name+"/"+m[1], func(t *testing.T) {
				t.Parallel()
				runGuideLine(t, file, args)
			})
		}
	}
	if len(ran) < 30 {
		t.Errorf("only %d commands were found: they are looked for in the wrong way", len(ran))
	}
}

func runGuideLine(t *testing.T, file string, args []string) {
	state := broker.StateDead
	if args[0] == "why" { // the guide asks why a job waits
		state = broker.StatePending
	}
	store := guideStore(t, state)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	e := environment{in: strings.NewReader("y\n"), out: &out, err: &errs, home: configHome,
		getenv: func(name string) string {
			return map[string]string{"JOBS_BROKER": "memory://", "EDITOR": "sed -i s/1/2/"}[name]
		},
		open: func(context.Context, string) (broker.Broker, error) { return store.Open(), nil }}
	switch args[0] { // some run until they are interrupted
	case "dashboard":
		args = append(args, "--addr", "127.0.0.1:0")
		e.out, e.err = ends{&out, cancel}, ends{&errs, cancel}
	case "edit":
		args = append(args, "--yes") // the editor reads all of the input
	case "events":
		e.out = ends{&out, cancel}
		dying(ctx, t, store)
	}
	for i := range args {
		if args[i] == "--out" {
			args[i+1] = filepath.Join(t.TempDir(), args[i+1])
		}
	}
	if code := run(ctx, args, e); code != 0 {
		t.Errorf("%s: jobsctl %s ends with %d:\n%s%s", file, strings.Join(args, " "), code, out.String(), errs.String())
	}
	if out.Len()+errs.Len() == 0 {
		t.Errorf("%s: jobsctl %s says nothing", file, strings.Join(args, " "))
	}
}

// ends is a writer that interrupts the command after a certain output.
type ends struct {
	*bytes.Buffer
	cancel func()
}

func (e ends) Write(p []byte) (int, error) {
	e.cancel()
	return e.Buffer.Write(p)
}

// dying makes jobs die, one after the other, until ctx ends.
func dying(ctx context.Context, t *testing.T, store *membroker.Store) {
	b := store.Open()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	server, err := jobs.NewServer(b, jobs.Config{Queues: map[string]int{"dying": 1}, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = server.Start(ctx, jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			_, err := client.Enqueue(ctx, jobs.NewTask("next", nil), jobs.WithQueue("dying"), jobs.WithDelay(time.Millisecond))
			return errors.Join(err, jobs.SkipRetry)
		}))
	}
	if err == nil {
		_, err = client.Enqueue(ctx, jobs.NewTask("first", nil), jobs.WithQueue("dying"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Shutdown(context.Background()), client.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
}

// guideStore returns a store with the queues, jobs, schedules and workflows of the
// guide, and with guideJob in a state.
func guideStore(t *testing.T, state broker.State) *membroker.Store {
	t.Helper()
	store := membroker.NewStore()
	b := store.Open()
	defer b.Close()
	ctx, client := t.Context(), jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	job := broker.NewJob{Queue: "reports", ID: guideJob, Body: broker.Body{Type: "report", Key: "acme", Payload: []byte(`{"day":1}`),
		Priority: broker.PriorityNormal, MaxRetries: 3}}
	if state == broker.StateDead {
		job.Restore = &broker.Restored{State: state, CreatedAt: time.Now().Add(-time.Hour),
			Head: broker.Head{Failures: 4, Reason: broker.ReasonRetries, FinishedAt: time.Now().Add(-time.Minute),
				Errors: broker.ErrorLog{Entries: []broker.Failure{{At: time.Now().Add(-time.Minute), Class: jobs.ClassRetryable, Message: "timeout"}}}}}
	}
	receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{job}})
	for _, queue := range []string{"geocoder", "mail", "default"} {
		_, failed := client.Enqueue(ctx, jobs.NewTask("email:send", nil), jobs.WithQueue(queue))
		err = errors.Join(err, failed)
	}
	_, failed := schedule.New(b, "shop").Put(ctx, "nightly-report", schedule.Cron("0 3 * * *", "UTC"), jobs.NewTask("report", nil))
	started := workflow.Start(ctx, client, workflow.New("order-42").Add(workflow.Node{Name: "reserve", Task: jobs.NewTask("reserve", nil)}))
	if err := errors.Join(err, receipts[0].Err, failed, started); err != nil {
		t.Fatal(err)
	}
	return store
}
