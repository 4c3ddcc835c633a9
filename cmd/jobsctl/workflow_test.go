package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/workflow"
)

// The command's output about workflows that succeed, fail, wait and are cancelled, on
// each store.
func TestWorkflows(t *testing.T) {
	transcribe(t, func(s *transcript) {
		b := s.broker()
		client := jobs.NewClient(b, jobs.ClientConfig{})
		var mended atomic.Bool
		server, err := jobs.NewServer(b, jobs.Config{Logger: slog.New(slog.DiscardHandler),
			Extensions: []jobs.Extension{workflow.Extension(client, workflow.ExtensionConfig{})}})
		if err == nil {
			err = server.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
				if j.Type() == "refuse" && !mended.Load() {
					return fmt.Errorf("no carrier goes there: %w", jobs.SkipRetry)
				}
				return nil
			}))
		}
		if err != nil {
			s.t.Fatal(err)
		}
		defer func() {
			if err := server.Shutdown(s.t.Context()); err != nil {
				s.t.Error(err)
			}
			client.Close()
		}()
		start := func(id string, parts ...workflow.Part) {
			if err := workflow.Start(s.t.Context(), client, workflow.New(id).Add(parts...)); err != nil {
				s.t.Fatal(err)
			}
		}
		await := func(id string) {
			ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
			defer cancel()
			_, _ = workflow.Wait(ctx, client, id) // the transcript shows the result
		}
		node := func(name, typ string) workflow.Node { return workflow.Node{Name: name, Task: jobs.NewTask(typ, nil)} }
		undo := func(name string) workflow.Node {
			return workflow.Node{Name: name, Task: jobs.NewTask("do", nil), Compensate: jobs.NewTask("undo", nil)}
		}
		var pages []workflow.Part
		for i := range 25 {
			pages = append(pages, node(fmt.Sprintf("page-%02d", i), "do"))
		}
		start("report", workflow.Chain(node("plan", "do"), workflow.Group(pages...), node("sum", "do"), node("send", "do")))
		start("order-42", workflow.Chain(undo("reserve"), undo("charge"), node("ship", "refuse"), node("thank", "do")))
		start("order-43", workflow.Chain(node("reserve", "do"), node("ship", "refuse"), workflow.Group(node("thank", "do"), node("bill", "do"))))
		start("invoice-7", workflow.Chain(node("ask", "do"), workflow.Node{Name: "approval", Signal: "approve"}, node("pay", "do")))
		start("invoice-8", workflow.Chain(workflow.Node{Name: "approval", Signal: "approve"}, node("pay", "do")))
		for _, id := range []string{"report", "order-42", "order-43"} {
			await(id)
		}
		testenv.Eventually(s.t, "invoice-7 waits for its signal", func() bool {
			info, err := workflow.Get(s.t.Context(), client, "invoice-7")
			return err == nil && info.Counts[workflow.StateCompleted] == 1
		})
		host, _ := os.Hostname()
		s.hide = append(s.hide, "jobsctl@"+host, "WHO")
		s.jobs("workflow", "show", "report")
		s.jobs("workflow", "show", "order-42")
		s.jobs("workflow", "show", "order-43")
		s.jobs("workflow", "show", "invoice-7")
		s.jobs("workflow", "show", "nothing")
		s.jobs("workflow", "retry", "order-42")
		s.jobs("workflow", "retry", "order-43", "nothing")
		mended.Store(true)
		s.jobs("workflow", "retry", "order-43")
		await("order-43")
		s.jobs("workflow", "show", "order-43")
		s.jobs("workflow", "signal", "invoice-7", "approve", "--payload", `"Ada"`)
		await("invoice-7")
		s.jobs("workflow", "signal", "invoice-7", "approve", "--payload", `"Bob"`)
		s.jobs("workflow", "cancel", "invoice-8")
		s.jobs("workflow", "cancel", "invoice-8", "--yes")
		await("invoice-8")
		s.jobs("workflow", "cancel", "invoice-8", "--yes")
		s.inAnyOrder("workflow", "list")
		s.jobs("workflow", "list", "--state", "failed")
		s.jobs("workflow", "list", "--nested")
		s.jobs("workflow", "delete", "order-42", "--yes")
		s.jobs("workflow", "delete", "order-42", "--yes")
		if _, errs, code := s.run("workflow", "list", "--state", "asleep"); code != 2 || !strings.Contains(errs, "none of starting, running") {
			s.t.Errorf("an unknown state: exit code %d, %s", code, errs)
		}
		if out, _, _ := s.run("__complete", "workflow", "list", "--state", ""); !strings.HasPrefix(out, "starting\nrunning\n") {
			s.t.Errorf("states are completed as\n%s", out)
		}
		out, _, code := s.run("workflow", "show", "invoice-7", "--json")
		if code != 0 || !strings.Contains(out, `"state":"completed"`) || !strings.Contains(out, `"name":"approval"`) {
			s.t.Errorf("--json says %s", out)
		}
	})
}

// Doctor finds and removes what a workflow left whose own job somebody deleted.
func TestDoctor_AWorkflowWhoseJobWasDeleted(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		b, err := c.open(t.Context(), c.url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		client := jobs.NewClient(b, jobs.ClientConfig{})
		defer client.Close()
		task := jobs.NewTask("do", nil)
		wf := workflow.New("order-42").Add(workflow.Chain(workflow.Node{Name: "reserve", Task: task}, workflow.Node{Name: "ship", Task: task},
			workflow.Node{Name: "inner", Workflow: workflow.New("").Add(workflow.Node{Name: "thank", Task: task})}))
		if err := workflow.Start(t.Context(), client, wf); err != nil {
			t.Fatal(err)
		}
		sound := func() {
			t.Helper()
			if out := c.run(0, "doctor", "--queue", workflow.Queue); strings.Contains(out, "workflow-") {
				t.Errorf("doctor says\n%s", out)
			}
		}
		sound()
		c.run(0, "delete", "order-42", "--queue", workflow.Queue, "--yes")
		c.has(c.output(8, "doctor"), `error: workflow-node-left in queue default \(2\)\n  order-42\.[a-z0-9]+/reserve: it is the node "reserve"`,
			`error: workflow-node-left in queue @workflows \(1\)\n  order-42\.[a-z0-9]+/inner: `, "--fix: it is removed")
		c.has(c.output(0, "doctor", "--queue", workflow.Queue, "--fix", "--yes"), `Repaired 2: it is removed`, `Repaired 1: `)
		sound()
	})
}
