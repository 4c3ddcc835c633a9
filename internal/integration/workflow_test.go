package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/workflow"
)

func node(name string) workflow.Node {
	return workflow.Node{Name: name, Task: jobs.NewTask("node", nil)}
}

// undo is a node with a compensation.
func undo(name string) workflow.Node {
	return workflow.Node{Name: name, Task: jobs.NewTask("node", nil), Compensate: jobs.NewTask("node", nil)}
}

// Three servers run workflows of all kinds on a real store, and one of them stops
// meanwhile.
func TestWorkflow_OnEveryStore(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		var mu sync.Mutex
		ran := make(map[string][]string) // the nodes of each workflow, as they began
		broken := map[string]bool{"bad": true}
		handler := jobs.HandlerFunc(func(ctx context.Context, j *jobs.Job) error {
			w := workflow.Of(ctx)
			if w == nil {
				return fmt.Errorf("the job %s belongs to no workflow", j.ID())
			}
			root, _, _ := strings.Cut(strings.ReplaceAll(w.ID(), ".", "/"), "/")
			mu.Lock()
			ran[root] = append(ran[root], w.Node())
			bad := broken[w.Node()]
			mu.Unlock()
			switch {
			case bad:
				return jobs.SkipRetry
			case w.Node() == "adds":
				return w.Add(ctx, workflow.Node{Name: "new", Task: jobs.NewTask("node", nil), Before: []string{"last"}})
			case w.Node() == "last":
				results, err := workflow.Results[string](ctx)
				return errors.Join(err, workflow.SetResult(ctx, len(results)))
			}
			return workflow.SetResult(ctx, "of "+w.Node())
		})
		serve := func() *jobs.Server {
			b, err := backends.Open(t.Context(), s.url)
			if err != nil {
				t.Fatal(err)
			}
			client := jobs.NewClient(b, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithQueue(queue)}})
			logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
			server, err := jobs.NewServer(b, jobs.Config{Lease: lease, Logger: logger, Queues: map[string]int{queue: 1},
				Extensions: []jobs.Extension{workflow.Extension(client, workflow.ExtensionConfig{Logger: logger})}})
			if err == nil {
				err = server.Start(context.Background(), handler)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				client.Close()
				b.Close()
			})
			return server
		}
		first := serve()
		serve()
		serve()
		b, err := backends.Open(t.Context(), s.url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		client := jobs.NewClient(b, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithQueue(queue)}})
		defer client.Close()
		for _, wf := range []*workflow.Workflow{
			workflow.New("chain").Add(workflow.Chain(node("a"), node("b"), node("c"))),
			workflow.New("chord").Add(workflow.Chord(node("last"), node("x"), node("y"), node("z"))),
			workflow.New("saga").Add(workflow.Chain(undo("a"), undo("b"), node("bad"))),
			workflow.New("nested").Add(workflow.Chain(workflow.Node{Name: "n", Workflow: workflow.New("").Add(node("in"))}, node("last"))),
			workflow.New("dynamic").Add(workflow.Chain(node("adds"), node("last"))),
			workflow.New("signal").Add(workflow.Chain(workflow.Node{Name: "go", Signal: "go"}, node("last"))),
			workflow.New("cancel").Add(workflow.Chain(undo("a"), workflow.Node{Name: "never", Signal: "never"}, node("b"))),
			workflow.New("retry").Add(workflow.Chain(node("a"), node("bad"), node("c"))),
		} {
			if err := workflow.Start(t.Context(), client, wf); err != nil {
				t.Fatalf("%s: %v", wf.ID, err)
			}
		}
		if err := workflow.Signal(t.Context(), client, "signal", "go", []byte(`"now"`)); err != nil {
			t.Fatal(err)
		}
		wait := func(id string, want error, result string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			got, err := workflow.Wait(ctx, client, id)
			if !errors.Is(err, want) || string(got) != result {
				info, _ := workflow.Get(t.Context(), client, id)
				t.Errorf("%s: Wait gives %q, %v; want %q, %v; it is %+v", id, got, err, result, want, info)
			}
		}
		wait("chain", nil, `"of c"`)
		if err := first.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wait("chord", nil, "3")
		wait("saga", jobs.ErrDead, "")
		wait("nested", nil, "1")
		wait("dynamic", nil, "1") // the node "adds" sets no result
		wait("signal", nil, "1")
		if err := workflow.Cancel(t.Context(), client, "cancel", "test"); err != nil {
			t.Fatal(err)
		}
		wait("cancel", jobs.ErrCancelled, "")
		wait("retry", jobs.ErrDead, "")
		mu.Lock()
		broken["bad"] = false
		mu.Unlock()
		if err := workflow.Retry(t.Context(), client, "retry"); err != nil {
			t.Fatal(err)
		}
		wait("retry", nil, `"of c"`)
		mu.Lock()
		defer mu.Unlock()
		for id, want := range map[string]string{"chain": "a b c", "saga": "a b bad :undo:b :undo:a", "nested": "in last",
			"dynamic": "adds new last", "signal": "last", "retry": "a bad bad c"} {
			if got := strings.Join(ran[id], " "); got != want {
				t.Errorf("of %s these nodes ran: %s; want %s", id, got, want)
			}
		}
		page, err := workflow.List(t.Context(), client, workflow.ListOptions{})
		if err != nil || len(page.Workflows) != 8 {
			t.Errorf("the list has %d workflows, %v; want 8", len(page.Workflows), err)
		}
		if err := workflow.Delete(t.Context(), client, "saga"); err != nil {
			t.Error(err)
		}
	})
}
