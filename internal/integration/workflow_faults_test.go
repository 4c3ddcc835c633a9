package integration

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/workflow"
)

// Of the calls that two servers make to a real store, one in 13 is carried out but
// its answer is lost, and one in 17 fails. Every workflow ends as it should, and
// all of its nodes have run.
func TestWorkflow_AnswersAreLostOnEveryStore(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		var mu sync.Mutex
		ran := make(map[string]map[string]bool)
		handler := jobs.HandlerFunc(func(ctx context.Context, j *jobs.Job) error {
			w := workflow.Of(ctx)
			id, _, _ := strings.Cut(w.ID(), ".")
			mu.Lock()
			if ran[id] == nil {
				ran[id] = make(map[string]bool)
			}
			ran[id][w.Node()] = true
			mu.Unlock()
			switch w.Node() {
			case "bad":
				return jobs.SkipRetry
			case "adds":
				return w.Add(ctx, workflow.Node{Name: "new", Task: jobs.NewTask("node", nil), Before: []string{"last"}})
			}
			return nil
		})
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		dice := rand.New(rand.NewPCG(seed, 0))
		for range 2 {
			b, err := backends.Open(t.Context(), s.url)
			if err != nil {
				t.Fatal(err)
			}
			var plan faulty.Plan
			for n := 1; n < 5000; n++ {
				switch { // at random, since every 13th call could always be the same call of a run
				case dice.IntN(13) == 0:
					plan = append(plan, faulty.Step{Call: n, Fault: faulty.ReplyLost})
				case dice.IntN(17) == 0:
					plan = append(plan, faulty.Step{Call: n, Fault: faulty.Unavailable})
				}
			}
			bad := faulty.Wrap(b, plan)
			client := jobs.NewClient(bad, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithQueue(queue)}})
			logger := slog.New(slog.DiscardHandler)
			server, err := jobs.NewServer(bad, jobs.Config{Lease: lease, Logger: logger, Queues: map[string]int{queue: 1}, CrashBudget: 1000,
				RetryPolicy: jobs.Constant(lease / 10),
				Extensions:  []jobs.Extension{workflow.Extension(client, workflow.ExtensionConfig{Logger: logger})}})
			if err == nil {
				err = server.Start(context.Background(), handler)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = server.Shutdown(context.Background()) // its last calls may fail too
				client.Close()
				b.Close()
			})
		}
		want := map[string]string{"chain": "a b c", "chord": "x y z last", "saga": "a b bad :undo:b :undo:a", "nested": "in last",
			"dynamic": "adds new last"}
		for _, wf := range []*workflow.Workflow{
			workflow.New("chain").Add(workflow.Chain(node("a"), node("b"), node("c"))),
			workflow.New("chord").Add(workflow.Chord(node("last"), node("x"), node("y"), node("z"))),
			workflow.New("saga").Add(workflow.Chain(undo("a"), undo("b"), node("bad"))),
			workflow.New("nested").Add(workflow.Chain(workflow.Node{Name: "n", Workflow: workflow.New("").Add(node("in"))}, node("last"))),
			workflow.New("dynamic").Add(workflow.Chain(node("adds"), node("last"))),
		} {
			if err := workflow.Start(t.Context(), s.client, wf); err != nil {
				t.Fatalf("%s: %v", wf.ID, err)
			}
		}
		for id, nodes := range want {
			ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
			_, err := workflow.Wait(ctx, s.client, id)
			cancel()
			if bad := id == "saga"; bad != errors.Is(err, jobs.ErrDead) || !bad && err != nil {
				info, _ := workflow.Get(t.Context(), s.client, id)
				t.Errorf("%s: Wait says %v; it is %+v", id, err, info)
			}
			mu.Lock()
			for _, name := range strings.Fields(nodes) {
				if !ran[id][name] {
					t.Errorf("%s: the node %s never ran", id, name)
				}
			}
			if len(ran[id]) != len(strings.Fields(nodes)) {
				t.Errorf("%s: the nodes %v ran, want %s", id, ran[id], nodes)
			}
			mu.Unlock()
		}
	})
}
