package workflow

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// nothing checks that no job of the workflow w is left, and of its state at most that it has ended.
func (w *world) nothing(when string) {
	w.Helper()
	for _, queue := range []string{"default", Queue} {
		for _, state := range broker.States() {
			page, err := w.store.Find(w.Context(), broker.Query{Queue: queue, State: state, Suppressed: true, Limit: 1000})
			if err != nil {
				w.Fatal(err)
			}
			for _, j := range page.Jobs {
				w.Errorf("%s %s is left in %s, %v", when, j.ID, queue, j.State)
			}
		}
	}
	m, err := w.store.Mark(w.Context(), broker.MarkRequest{Action: broker.MarkRead, Name: "workflow:w"})
	if err != nil || m.Held && !strings.Contains(string(m.Value), `"phase":"aborted"`) {
		w.Errorf("%s the state is left until %v: %s (%v)", when, m.Until, m.Value, err)
	}
}

// pause pauses the queue of workflows, or resumes it.
func (w *world) pause(paused bool) {
	w.Helper()
	if _, err := w.store.Policy(w.Context(), broker.PolicyRequest{Queue: Queue, Paused: &paused}); err != nil {
		w.Fatal(err)
	}
}

// brief is a workflow that is kept for an hour.
func brief(parts ...Part) *Workflow {
	wf := New("w").Add(parts...)
	wf.Retention = time.Hour
	return wf
}

func TestSweep_ThatIsLateRemovesEverything(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("grow", func(ctx context.Context, _ *jobs.Job) error { return Of(ctx).Add(ctx, node("grown")) })
		w.run(brief(Chain(node("grow"), Node{Name: "nested", Workflow: New("in").Add(node("inner"))}, node("last"))), StateCompleted)
		w.pause(true)
		pass(100 * time.Hour)
		if info := w.info("w"); info.State != StateCompleted || len(info.Nodes) != 4 {
			t.Errorf("while the sweep waits, the workflow is %s, %s", info.State, states(info))
		}
		w.pause(false)
		pass(time.Minute)
		w.nothing("after the sweep")
		w.start(brief(node("again"))) // the ID is free
	})
}

// The letters of a workflow, which are due after a month, stay as long as its nodes.
func TestSweep_AfterMonthsRemovesAddedNodes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("grow", func(ctx context.Context, _ *jobs.Job) error { return Of(ctx).Add(ctx, node("grown")) })
		wf := New("w").Add(node("grow"))
		wf.Retention = 100 * 24 * time.Hour
		w.run(wf, StateCompleted)
		pass(99 * 24 * time.Hour)
		if info := w.info("w"); states(info) != "grow completed, grown completed" {
			t.Errorf("after 99 days it has %s", states(info))
		}
		pass(25 * time.Hour)
		w.nothing("after the retention")
	})
}

func TestSweep_OfACancelledWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.start(brief(Chain(Node{Name: "wait", Signal: "never"}, node("b"))))
		if err := Cancel(w.Context(), w.client, "w", "ada"); err != nil {
			t.Fatal(err)
		}
		w.ends("w", StateCancelled)
		pass(time.Hour + time.Minute)
		w.nothing("after it was cancelled,")
	})
}

func TestSweep_OfAWorkflowThatWasGivenUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		s, err := open(w.Context(), w.client)
		if err != nil {
			t.Fatal(err)
		}
		p, err := planOf(w.client, brief(node("a")), s.Limits())
		if err == nil {
			err = errors.Join(s.create(w.Context(), p), submit(w.Context(), s, w.client, p))
		}
		if err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Minute) // its client died
		if info := w.info("w"); info.State != StateCancelled {
			t.Errorf("it is %s, want given up", info.State)
		}
		pass(time.Hour)
		w.nothing("after it was given up,")
	})
}

// A nested workflow that failed stays for an operator's decision, whatever that is.
func TestSweep_OfAWorkflowWithANestedOneThatFailed(t *testing.T) {
	for name, decide := range map[string]func(w *world, id string) error{
		"delete": func(w *world, id string) error { return Delete(w.Context(), w.client, id) },
		"retry": func(w *world, id string) error {
			w.on("bad", nil)
			return Retry(w.Context(), w.client, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				w.fails("bad")
				inner := New("in").Add(Chain(node("bad"), node("after")))
				inner.Retention = time.Hour
				w.run(brief(Node{Name: "nested", Workflow: inner, OnDead: Continue}), StateCompleted)
				id := w.info("w").Nodes[0].Workflow
				if err := Delete(w.Context(), w.client, id); !errors.Is(err, broker.ErrWrongState) || !strings.Contains(err.Error(), `"w"`) {
					t.Errorf("while the outer one exists, Delete says %v", err)
				}
				pass(2 * time.Hour)
				if _, err := Get(w.Context(), w.client, "w"); !errors.Is(err, broker.ErrNotFound) {
					t.Errorf("the outer one is still there: %v", err)
				}
				if err := decide(w, id); err != nil {
					t.Fatal(err)
				}
				pass(2 * time.Hour)
				w.nothing("after the decision")
			})
		})
	}
}

// The sweep can be due before the last run of the workflow is settled.
func TestSweep_OfAWorkflowThatIsHardlyKept(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		wf := New("w").Add(node("a"), node("b"))
		wf.Retention = time.Microsecond
		w.start(wf)
		pass(time.Minute)
		w.once("a", "b")
		w.nothing("a minute later")
	})
}

// A record that is malformed stays so. The sweep ends dead, where an operator sees it once.
func TestSweep_OfAWorkflowThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		payload string
		want    broker.State
	}{
		"malformed": {"{", broker.StateDead}, "of a newer form": {`{"v":1000}`, broker.StateRetry},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var broken atomic.Bool
				w.serve(broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
					err := next(ctx)
					if page, ok := c.Reply.(*broker.Page); ok && broken.Load() {
						for i := range page.Jobs {
							if page.Jobs[i].ID == "w" {
								page.Jobs[i].Payload = []byte(test.payload)
							}
						}
					}
					return err
				}), jobs.Config{})
				w.run(brief(node("a")), StateCompleted)
				broken.Store(true)
				pass(2 * time.Hour)
				page, err := w.store.Find(w.Context(), broker.Query{Queue: Queue, State: test.want, Type: typeSweep})
				if err != nil || len(page.Jobs) != 1 {
					w.Fatalf("there are %d %s sweeps, %v; want one", len(page.Jobs), test.want, err)
				}
				text := page.Jobs[0].Errors.Last().Message
				if test.want == broker.StateDead && !strings.Contains(text, "the workflow w cannot be removed") {
					w.Errorf("its error is %q", text)
				}
			})
		})
	}
}

// Somebody redrives a dead node after its workflow was removed. Its record goes some time after its end.
func TestSweep_RemovesNodesThatAreRedrivenLater(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.fails("bad")
		w.run(brief(Node{Name: "bad", Task: task(), OnDead: Continue}, node("good")), StateCompleted)
		pass(100 * time.Hour)
		page, err := w.store.Find(w.Context(), broker.Query{Queue: "default", State: broker.StateDead})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatalf("dead: %v, %v; want the node", page.Jobs, err)
		}
		w.on("bad", nil)
		op := broker.Operation{Kind: broker.OpRedrive, Refs: []broker.Ref{page.Jobs[0].Ref()}}
		if _, err := w.store.Operate(w.Context(), op); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if w.runs["bad"] != 2 {
			t.Errorf("the node ran %d times, want twice", w.runs["bad"])
		}
		pass(2 * time.Hour)
		w.nothing("two hours after the node has completed,")
	})
}

// An operator cancels the own job of a nested workflow. Its parked nodes go with the outer one.
func TestSweep_OfANestedWorkflowWhoseJobWasCancelled(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(brief(Node{Name: "nested", Workflow: New("").Add(Chain(node("a"), node("b"))), OnDead: Continue}))
		w.decide(broker.OpCancel, w.info("w").Nodes[0].Workflow)
		w.up()
		w.ends("w", StateCompleted)
		pass(2 * time.Hour)
		w.nothing("after the sweep")
	})
}
