package workflow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/internal/mortal"
)

// counts reports whether a call belongs to a run of a workflow, or settles the
// workflow or its nodes.
func counts(c *broker.Call) bool {
	switch r := c.Request.(type) {
	case *broker.MarkRequest, *broker.EnqueueRequest, *broker.Query, *broker.Operation:
		return true
	case *broker.SettleRequest:
		return len(r.Items) > 0
	case *broker.ClaimRequest:
		return len(r.Settle.Items) > 0
	}
	return c.Method == "Ping"
}

// shapes are workflows that use every feature, and the nodes that must run.
var shapes = map[string]struct {
	make  func() *Workflow
	fails []string
	state State
	want  []string
}{
	"graph": {func() *Workflow {
		w := New("w").Add(node("a"), node("b", "a"), node("c", "a"), Node{Name: "join", After: []string{"b", "c"}}, node("d", "join"))
		w.OnSuccess = task()
		return w
	}, nil, StateCompleted, []string{"a", "b", "c", "d", ":success"}},
	"saga": {func() *Workflow {
		return New("w").Add(Chain(undoable("a"), undoable("b"), node("bad"), node("never")))
	}, []string{"bad"}, StateFailed, []string{"a", "b", "bad", ":undo:b", ":undo:a"}},
	"nested": {func() *Workflow {
		return New("w").Add(Chain(node("a"), Node{Name: "n", Workflow: New("").Add(Chain(node("x"), node("y")))}, node("b")))
	}, nil, StateCompleted, []string{"a", "x", "y", "b"}},
	"dynamic": {func() *Workflow {
		return New("w").Add(Chain(node("adds"), node("after")))
	}, nil, StateCompleted, []string{"adds", "new0", "new1", "after"}},
}

// adds is a handler that adds nodes before the node "after".
func adds(ctx context.Context, _ *jobs.Job) error {
	return Of(ctx).Add(ctx, Node{Name: "new0", Task: task(), After: []string{"adds"}, Before: []string{"after"}},
		Node{Name: "new1", Task: task(), Before: []string{"after"}})
}

// exactly waits for the end of the workflow and checks which nodes ran.
func (w *world) exactly(state State, want []string) {
	w.Helper()
	w.ends("w", state)
	for range 60 { // callbacks run after the end, and wait for a store that cannot be reached
		if w.ran(want) {
			break
		}
		pass(time.Second)
	}
	pass(15 * time.Second) // many times the lease: whatever runs again has done so
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, node := range want {
		if w.runs[node] == 0 {
			w.Errorf("node %s never ran; %v did", node, w.order)
		}
	}
	if len(w.runs) != len(want) {
		w.Errorf("%v ran, want %v", w.order, want)
	}
}

// ran reports whether each of the nodes has run.
func (w *world) ran(nodes []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(nodes, func(node string) bool { return w.runs[node] == 0 })
}

// A server dies before or after each single call that its workflows make.
// Another one continues, and each node runs, again only if the server died before
// it settled the node's job.
func TestWorkflow_NoCrashLosesOrDoublesANode(t *testing.T) {
	for name, shape := range shapes {
		for call := int64(1); call <= 48; call++ {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, call %d, carried out %v", name, call, lost), func(t *testing.T) {
					inWorld(t, func(w *world) {
						w.on("adds", adds)
						w.fails(shape.fails...)
						dying := mortal.New(w.store, counts)
						dying.Lost = lost
						dying.After.Store(call)
						cfg := jobs.Config{Lease: time.Second, PollInterval: time.Second}
						w.serve(dying, cfg)
						w.start(shape.make())
						for begun := time.Now(); !dying.Dead() && time.Since(begun) < 20*time.Second; {
							time.Sleep(100 * time.Millisecond)
						}
						w.serve(w.store, cfg)
						w.exactly(shape.state, shape.want)
						again := 0
						for _, n := range w.runs {
							again += n - 1
						}
						// When the server died, it had at most a few jobs that it had not settled.
						if again > 2 {
							t.Errorf("%d nodes ran again: %v", again, w.order)
						}
						if left := w.left("default"); len(left) > 0 {
							t.Errorf("there is left: %v", left)
						}
					})
				})
			}
		}
	}
}

// Every method of the store fails now and then, before or after it is carried
// out.
func TestWorkflow_NoLostAnswerLosesANode(t *testing.T) {
	for _, method := range []string{"Mark", "Enqueue", "Ping", "Settle", "Claim", "Find", "Operate"} {
		for fault, f := range map[string]faulty.Fault{"unavailable": faulty.Unavailable, "lost": faulty.ReplyLost, "cut": faulty.ReplyCut} {
			for name, shape := range shapes {
				t.Run(strings.Join([]string{method, fault, name}, " "), func(t *testing.T) {
					inWorld(t, func(w *world) {
						w.on("adds", adds)
						w.fails(shape.fails...)
						bad := faulty.Wrap(w.store, nil)
						var plan faulty.Plan
						for n := 1; n < 300; n += 1 + n%3 {
							plan = append(plan, faulty.Step{Method: method, Call: n, Fault: f})
						}
						bad.Set(plan)
						w.serve(bad, jobs.Config{Lease: 2 * time.Second, PollInterval: time.Second})
						w.start(shape.make())
						w.exactly(shape.state, shape.want)
					})
				})
			}
		}
	}
}

// Three servers are killed at random for some minutes, and replaced, while
// workflows of all shapes run.
func TestWorkflow_ServersKilledAtRandom(t *testing.T) {
	inWorld(t, func(w *world) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		w.on("adds", adds)
		w.fails("bad")
		cfg := jobs.Config{Lease: 2 * time.Second, PollInterval: time.Second, CrashBudget: 1000}
		fleet := make([]*mortal.Broker, 3)
		servers := make([]*jobs.Server, 3)
		replace := func(i int) { fleet[i] = mortal.New(w.store, counts); servers[i] = w.serve(fleet[i], cfg) }
		for i := range fleet {
			replace(i)
		}
		want := make(map[string]State)
		kills := 0
		for n := 0; n < 60; n++ {
			for name, shape := range shapes {
				wf := shape.make()
				wf.ID = fmt.Sprint(name, n)
				w.start(wf)
				want[wf.ID] = shape.state
			}
			time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
			i := r.IntN(len(fleet))
			fleet[i].Kill()
			kills++
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = servers[i].Shutdown(ctx)
			cancel()
			replace(i)
		}
		for id, state := range want {
			w.ends(id, state)
		}
		pass(time.Minute)
		if left := w.left("default"); len(left) > 0 {
			t.Errorf("after %d kills there is left: %v", kills, left)
		}
	})
}
