package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// Start refuses an invalid workflow with an error that names the fault, and
// stores nothing.
func TestStart_RefusesWhatCannotBe(t *testing.T) {
	many := make([]Part, 100_000)
	for i := range many {
		many[i] = Node{Name: fmt.Sprint(i)}
	}
	long := make([]Part, 15_000)
	for i := range long {
		long[i] = node(fmt.Sprintf("%s%05d", strings.Repeat("x", 90), i))
	}
	twice := func(n int) Part { // two groups of n nodes, one after the other
		var one, two []Part
		for i := range n {
			one, two = append(one, node(fmt.Sprint("a", i))), append(two, node(fmt.Sprint("b", i)))
		}
		return Chain(Group(one...), Group(two...))
	}
	deep := New("deep").Add(node("leaf"))
	for range 12 {
		deep = New("deep").Add(Node{Name: "d", Workflow: deep})
	}
	nest := func(n ...Part) *Workflow { return New("w").Add(Node{Name: "outer", Workflow: New("").Add(n...)}) }
	w := func(n ...Part) *Workflow { return New("w").Add(n...) }
	for _, c := range []struct {
		name  string
		wf    *Workflow
		err   error
		words string
	}{
		{"nil", nil, broker.ErrInvalid, "workflow"},
		{"no ID", New("").Add(node("a")), broker.ErrInvalid, "id"},
		{"a slash in the ID", New("a/b"), broker.ErrInvalid, "slash"},
		{"a long ID", New(strings.Repeat("x", 101)), broker.ErrInvalid, "101 bytes"},
		{"a cycle", w(node("a", "c"), node("b", "a"), node("c", "b"), node("d")), broker.ErrInvalid, `comes after itself: "`},
		{"a node after itself", w(node("selfish", "selfish")), broker.ErrInvalid, `node selfish`},
		{"a cycle by Before", w(Node{Name: "a", Before: []string{"b"}}, Node{Name: "b", Before: []string{"a"}}),
			broker.ErrInvalid, "comes after itself"},
		{"an unknown node in After", w(node("a", "zed")), broker.ErrInvalid, `node a: invalid: names "zed" in After`},
		{"an unknown node in AfterAny", w(Node{Name: "a", AfterAny: []string{"zed"}}), broker.ErrInvalid, `"zed" in AfterAny`},
		{"an unknown node in Before", w(Node{Name: "a", Before: []string{"zed"}}), broker.ErrInvalid, `"zed" in Before`},
		{"a name twice", w(node("twin"), node("twin")), broker.ErrInvalid, "node twin: invalid: is there twice"},
		{"no name", w(node("")), broker.ErrInvalid, "node"},
		{"a slash in a name", w(node("a/b")), broker.ErrInvalid, `"a/b"`},
		{"a colon", w(node(":undo:a")), broker.ErrInvalid, "colon"},
		{"too many nodes", w(many...), broker.ErrTooLarge, "nest"},
		{"too large a graph", w(long...), broker.ErrTooLarge, "nest"},
		{"too many edges for a graph", w(twice(600)), broker.ErrTooLarge, "1200 nodes with 360000 edges"},
		{"far too many edges", w(twice(10_000)), broker.ErrTooLarge, "edges: too large: there are 100000000"},
		{"too deep", New("top").Add(Node{Name: "d", Workflow: deep}), broker.ErrInvalid, "nested"},
		{"an ID for a job", w(Node{Name: "mine", Task: task(jobs.WithID("x"))}), broker.ErrInvalid, "node mine, id"},
		{"a delay for a job", w(Node{Name: "mine", Task: task(jobs.WithDelay(time.Second))}), broker.ErrInvalid, "node mine, delay"},
		{"a bad option", w(Node{Name: "mine", Task: task(jobs.WithMaxRetries(-1))}), broker.ErrInvalid, "node mine, max retries"},
		{"a bad compensation", w(Node{Name: "mine", Compensate: task(jobs.WithMaxRetries(-1))}), broker.ErrInvalid, "node mine, max retries"},
		{"a reserved queue", w(Node{Name: "mine", Task: task(jobs.WithQueue("@x"))}), broker.ErrInvalid, "node mine, queue"},
		{"a large payload", w(Node{Name: "mine", Task: jobs.NewTask("t", make([]byte, 2<<20))}), broker.ErrTooLarge, "node mine, payload"},
		{"the workflow's header", w(Node{Name: "mine", Task: task(jobs.WithHeader(HeaderNode, "x"))}), broker.ErrInvalid, "node mine, headers"},
		{"a bad policy", w(Node{Name: "mine", OnDead: "whatever"}), broker.ErrInvalid, "whatever"},
		{"task and workflow", w(Node{Name: "mine", Task: task(), Workflow: New("")}), broker.ErrInvalid, "node mine, Workflow"},
		{"task and signal", w(Node{Name: "mine", Task: task(), Signal: "s"}), broker.ErrInvalid, "node mine, Signal"},
		{"signal and delay", w(Node{Name: "mine", Signal: "s", Delay: time.Second}), broker.ErrInvalid, "node mine, Signal"},
		{"within without signal", w(Node{Name: "mine", Within: time.Second}), broker.ErrInvalid, "node mine, Within"},
		{"within, no unit", w(Node{Name: "mine", Signal: "s", Within: 48}), broker.ErrInvalid, "Within: invalid: is 48ns; use 1ms"},
		{"delay and time", w(Node{Name: "mine", Delay: time.Second, At: time.Now()}), broker.ErrInvalid, "node mine, Delay"},
		{"a negative delay", w(Node{Name: "mine", Delay: -time.Second}), broker.ErrInvalid, "node mine, Delay"},
		{"a bad signal", w(Node{Name: "mine", Signal: "a/b"}), broker.ErrInvalid, "node mine, Signal"},
		{"a bad deadline", &Workflow{ID: "w", Deadline: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)}, broker.ErrInvalid, "Deadline"},
		{"a bad retention", &Workflow{ID: "w", Retention: -1}, broker.ErrInvalid, "Retention"},
		{"a bad callback", &Workflow{ID: "w", OnSuccess: task(jobs.WithID("x"))}, broker.ErrInvalid, ":success"},
		{"in a nested one", nest(node("inner", "zed")), broker.ErrInvalid, "node outer, node inner"},
		{"a cycle in a nested one", nest(node("a", "b"), node("b", "a")), broker.ErrInvalid, "node outer, node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				err := Start(w.Context(), w.client, c.wf)
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.words) {
					t.Errorf("Start says %v, want %v with %q", err, c.err, c.words)
				}
				all, err := w.store.Queues(w.Context(), broker.QueuesRequest{})
				if err != nil || len(all.Queues) > 0 {
					t.Errorf("the store has queues: %+v, %v", all.Queues, err)
				}
			})
		})
	}
}

// If the store refuses a node, nothing of the workflow stays in it.
func TestStart_LeavesNothingBehindWhenTheStoreRefuses(t *testing.T) {
	inWorld(t, func(w *world) {
		depth := int64(1)
		if _, err := w.store.Policy(w.Context(), broker.PolicyRequest{Queue: "small", MaxDepth: &depth}); err != nil {
			t.Fatal(err)
		}
		in := func(name, queue string) Node { return Node{Name: name, Task: task(jobs.WithQueue(queue))} }
		wf := New("w").Add(in("a", "big"), Node{Name: "n", Workflow: New("").Add(in("b", "big"))}, in("c", "small"), in("d", "small"))
		err := Start(w.Context(), w.client, wf)
		if !errors.Is(err, broker.ErrQueueFull) || !strings.Contains(err.Error(), "node d") {
			t.Errorf("Start says %v, want a full queue and the node d", err)
		}
		for _, queue := range []string{"big", "small", Queue} {
			if left := w.left(queue); len(left) > 0 {
				t.Errorf("%s has %v", queue, left)
			}
		}
		depth = broker.NoLimit
		if _, err := w.store.Policy(w.Context(), broker.PolicyRequest{Queue: "small", MaxDepth: &depth}); err != nil {
			t.Fatal(err)
		}
		w.serve(w.store, jobs.Config{Queues: map[string]int{"big": 1, "small": 1}})
		w.run(wf, StateCompleted)
	})
}

// A program takes ErrDuplicate for a workflow that was started before. A held unique key is another answer: nothing was started.
func TestStart_IsNotADuplicateBecauseOfANodesUniqueKey(t *testing.T) {
	inWorld(t, func(w *world) {
		held := func() *jobs.Task { return task(jobs.WithUniqueKey("k")) }
		_, err := w.client.Enqueue(w.Context(), held(), jobs.WithQueue("default"), jobs.WithID("holder"))
		if err != nil {
			t.Fatal(err)
		}
		for name, wf := range map[string]*Workflow{
			"a node":        New("w").Add(node("a"), Node{Name: "b", Task: held()}),
			"a nested node": New("w").Add(node("a"), Node{Name: "n", Workflow: New("").Add(Node{Name: "b", Task: held()})}),
		} {
			err := Start(w.Context(), w.client, wf)
			if errors.Is(err, broker.ErrDuplicate) || !errors.Is(err, broker.ErrWrongState) || !strings.Contains(err.Error(), `"holder"`) {
				t.Errorf("%s: Start says %v, want ErrWrongState and the holder", name, err)
			}
			if left := w.left(Queue); len(left) > 0 {
				t.Errorf("%s: %s has %v", name, Queue, left)
			}
		}
	})
}

func TestStart_AnIDIsThatOfOneWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		wf := New("w").Add(node("a"))
		w.start(wf)
		for range 2 {
			if err := Start(w.Context(), w.client, wf); !errors.Is(err, broker.ErrDuplicate) {
				t.Errorf("starting it again: %v", err)
			}
			w.up()
			w.ends("w", StateCompleted)
		}
		w.once("a")
		if err := Delete(w.Context(), w.client, "w"); err != nil {
			t.Fatal(err)
		}
		if _, err := Get(w.Context(), w.client, "w"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("after Delete: %v", err)
		}
		w.run(wf, StateCompleted)
	})
}

// A client dies after each single call of Start. What it stored is removed, or
// used if the client calls Start again.
func TestStart_AClientThatDiesLeavesNothing(t *testing.T) {
	build := func() *Workflow {
		return New("w").Add(Chain(node("a"), Node{Name: "n", Workflow: New("").Add(node("inner"))}, undoable("b")))
	}
	for _, comesBack := range []bool{false, true} {
		for _, lost := range []bool{false, true} {
			for call := 1; call <= 12; call++ {
				t.Run(fmt.Sprintf("call %d, carried out %v, comes back %v", call, lost, comesBack), func(t *testing.T) {
					inWorld(t, func(w *world) {
						dying := faulty.Wrap(w.store, dies(call, lost))
						client := jobs.NewClient(dying, jobs.ClientConfig{Retries: -1})
						defer client.Close()
						err := Start(w.Context(), client, build())
						if err == nil && dying.Calls("") < call {
							return // it makes fewer calls
						}
						if comesBack {
							if err := Start(w.Context(), w.client, build()); err != nil && !errors.Is(err, broker.ErrDuplicate) {
								t.Fatal(err)
							}
						}
						w.up()
						pass(10 * time.Minute)
						_, getErr := Get(w.Context(), w.client, "w")
						switch state := w.stateOf("w"); {
						case comesBack && state != broker.StateCompleted:
							t.Errorf("the workflow is %v (%v), want it completed", state, getErr)
						case state == broker.StateCompleted:
							w.once("a", "inner", "b")
						case state != broker.StateNone && state != broker.StateCancelled:
							t.Errorf("the workflow is %v, want it to run or to be given up", state)
						default:
							w.once()
						}
						if left := w.left("default"); len(left) > 0 {
							t.Errorf("there is left: %v", left)
						}
						if state := w.stateOf("w"); state != broker.StateCompleted {
							w.run(build(), StateCompleted) // the ID can be used again
						}
					})
				})
			}
		}
	}
}

// dies returns a plan in which every call from the given one on fails. The first
// of them can be carried out and lose only its answer.
func dies(call int, carriedOut bool) faulty.Plan {
	var plan faulty.Plan
	if carriedOut {
		plan = append(plan, faulty.Step{Call: call, Fault: faulty.ReplyLost})
		call++
	}
	for n := call; n < call+200; n++ {
		plan = append(plan, faulty.Step{Call: n, Fault: faulty.Unavailable})
	}
	return plan
}

// stateOf returns the state of a workflow's job.
func (w *world) stateOf(id string) broker.State {
	w.Helper()
	page, err := w.store.Find(context.Background(), broker.Query{Queue: Queue, IDs: []string{id}})
	if err != nil {
		w.Fatal(err)
	}
	if len(page.Jobs) == 0 {
		return broker.StateNone
	}
	return page.Jobs[0].State
}

// Two clients start different workflows with one ID at once. What runs is one of them, never a mix.
func TestStart_OfTwoWorkflowsWithOneIDNeverMixes(t *testing.T) {
	for call := 1; call <= 8; call++ {
		t.Run(fmt.Sprintf("the other one begins after call %d", call), func(t *testing.T) {
			inWorld(t, func(w *world) {
				of := func(who string) *Workflow {
					load := func(name string) Node { return Node{Name: name, Task: jobs.NewTask("task", []byte(who))} }
					return New("w").Add(Chain(load("a"), Node{Name: "n", Workflow: New("").Add(load("inner"))}, load("b")))
				}
				calls := 0
				var second error
				between := broker.Wrap(w.store, func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
					err := next(ctx)
					if calls++; calls == call {
						second = Start(ctx, w.client, of("second"))
					}
					return err
				})
				client := jobs.NewClient(between, jobs.ClientConfig{})
				defer client.Close()
				first := Start(w.Context(), client, of("first"))
				if calls < call {
					return // it makes fewer calls
				}
				if first != nil || !errors.Is(second, broker.ErrWrongState) && !errors.Is(second, broker.ErrDuplicate) {
					t.Errorf("the first Start says %v, the second %v; want one of them refused", first, second)
				}
				for _, name := range []string{"a", "inner", "b"} {
					w.on(name, func(_ context.Context, j *jobs.Job) error {
						if string(j.Payload()) != "first" {
							t.Errorf("node %s has the task of the %s", name, j.Payload())
						}
						return nil
					})
				}
				w.up()
				w.ends("w", StateCompleted)
				w.once("a", "inner", "b")
			})
		})
	}
}

// A client that died in the middle of a start does not keep another workflow from its ID for long.
func TestStart_TakesTheIDOfAnotherWorkflowThatWasGivenUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		dying := jobs.NewClient(faulty.Wrap(w.store, dies(2, false)), jobs.ClientConfig{Retries: -1})
		defer dying.Close()
		if err := Start(w.Context(), dying, New("w").Add(Node{Name: "a", Task: jobs.NewTask("old", nil)})); err == nil {
			t.Fatal("the client did not die")
		}
		other := New("w").Add(node("a"))
		if err := Start(w.Context(), w.client, other); !errors.Is(err, broker.ErrWrongState) || errors.Is(err, broker.ErrDuplicate) {
			t.Errorf("before the first one is given up: %v, want ErrWrongState", err)
		}
		pass(2 * time.Minute)
		w.run(other, StateCompleted)
	})
}
