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
)

func TestScope_AHandlerAddsNodes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("plan", func(ctx context.Context, job *jobs.Job) error {
			s := Of(ctx)
			if s.ID() != "w" || s.Node() != "plan" {
				t.Errorf("the handler is in node %q of %q", s.Node(), s.ID())
			}
			var parts []Part
			for i := range 3 {
				parts = append(parts, node(fmt.Sprint("item", i)))
			}
			sum := node("partial")
			sum.Before = []string{"report"}
			if err := s.Add(ctx, Chain(Group(parts...), sum)); err != nil {
				return err
			}
			if job.Attempt() == 0 {
				return jobs.RetryAfter(time.Second, errors.New("it runs again and adds the same"))
			}
			return nil
		})
		info := w.run(New("w").Add(Chain(node("plan"), node("report"))), StateCompleted)
		if got := states(info); got != "item0 completed, item1 completed, item2 completed, partial completed, plan completed, report completed" {
			t.Errorf("the nodes are %s", got)
		}
		if began := w.began(); !strings.HasSuffix(began, "partial report") && !strings.HasSuffix(began, "plan report") {
			t.Errorf("%s ran, want the report after the nodes that were added", began)
		}
		if w.runs["item0"] != 1 || w.runs["partial"] != 1 || info.Nodes[1].AddedBy != "plan" {
			t.Errorf("the nodes ran %v", w.runs)
		}
	})
}

func TestScope_RefusesAdditionsThatCannotBe(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("adds", func(ctx context.Context, _ *jobs.Job) error {
			for _, c := range []struct {
				add   Node
				words string
			}{
				{node("a"), "node a: skip retry for this job: invalid: is in the workflow already"},
				{node("x", "zed"), `"zed" in After`},
				{Node{Name: "x", Before: []string{"a"}}, "may have begun"},
				{Node{Name: "x", Before: []string{"adds"}}, "may have begun"},
				{Node{Name: "x", After: []string{"last"}, Before: []string{"last"}}, "comes after itself"},
			} {
				if err := Of(ctx).Add(ctx, c.add); err == nil || !strings.Contains(err.Error(), c.words) {
					t.Errorf("Add says %v, want %q", err, c.words)
				}
			}
			return nil
		})
		info := w.run(New("w").Add(node("a"), node("adds", "a"), node("last", "adds")), StateCompleted)
		if len(info.Nodes) != 3 {
			t.Errorf("the nodes are %s", states(info))
		}
		if Of(w.Context()) != nil {
			t.Error("a context of no handler has a workflow")
		}
	})
}

func TestWorkflow_NestedOnes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("y", func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, 42) })
		w.on("b", func(ctx context.Context, _ *jobs.Job) error {
			if n, err := Result[int](ctx, "n"); err != nil || n != 42 {
				t.Errorf("the result of the workflow before is %d, %v", n, err)
			}
			return nil
		})
		inner := New("").Add(Chain(node("x"), node("y")))
		begun := time.Now()
		info := w.run(New("w").Add(Chain(node("a"), Node{Name: "n", Workflow: inner}, node("b"))), StateCompleted)
		if w.began() != "a x y b" {
			t.Errorf("%s ran, want a x y b", w.began())
		}
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("it took %v: the workflow does not wake the one around it", took)
		}
		in := w.info(info.Nodes[1].Workflow)
		if in.Parent != "w" || in.State != StateCompleted || states(in) != "x completed, y completed" {
			t.Errorf("the inner one is %+v", in)
		}
		page, err := List(w.Context(), w.client, ListOptions{})
		if err != nil || len(page.Workflows) != 1 || page.Workflows[0].ID != "w" || page.Workflows[0].Counts[StateCompleted] != 3 {
			t.Errorf("List gives %+v, %v", page, err)
		}
		page, err = List(w.Context(), w.client, ListOptions{Nested: true})
		if err != nil || len(page.Workflows) != 1 || page.Workflows[0].Parent != "w" {
			t.Errorf("List gives of nested ones %+v, %v", page, err)
		}
	})
}

func TestWorkflow_ANestedOneThatFailsIsRetriedWithTheOuter(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.fails("x")
		inner := New("").Add(Chain(node("x"), node("y")))
		w.run(New("w").Add(Chain(node("a"), Node{Name: "n", Workflow: inner}, node("b"))), StateFailed)
		w.on("x", nil)
		if err := Retry(w.Context(), w.client, "w"); err != nil {
			t.Fatal(err)
		}
		w.ends("w", StateCompleted)
		if w.began() != "a x x y b" {
			t.Errorf("%s ran, want a x x y b", w.began())
		}
	})
}

func TestWorkflow_CancelReachesNestedOnes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("x", func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() })
		inner := New("").Add(Chain(undoable("u"), node("x"), node("y")))
		later := New("").Add(node("z"))
		w.start(New("w").Add(Chain(Node{Name: "n", Workflow: inner}, Node{Name: "m", Workflow: later})))
		pass(time.Second)
		if err := Cancel(w.Context(), w.client, "w", ""); err != nil {
			t.Fatal(err)
		}
		w.ends("w", StateCancelled)
		if w.began() != "u x :undo:u" {
			t.Errorf("%s ran, want u x and the compensation", w.began())
		}
		if left := w.left("default"); len(left) > 0 {
			t.Errorf("there is left: %v", left)
		}
	})
}

// A signal to a nested workflow whose node is not ready does not start it.
func TestWorkflow_ANestedOneWaitsForItsTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		inner := New("").Add(Chain(Node{Name: "go", Signal: "go"}, node("x")))
		w.start(New("w").Add(Chain(Node{Name: "wait", Delay: time.Hour}, Node{Name: "n", Workflow: inner})))
		pass(time.Second)
		id := w.info("w").Nodes[1].Workflow
		if err := Signal(w.Context(), w.client, id, "go", nil); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		w.once()
		if state := w.info(id).State; state != StateWaiting {
			t.Errorf("the inner workflow is %s, want waiting", state)
		}
		begun := time.Now()
		w.ends("w", StateCompleted)
		if took := time.Since(begun); took < 58*time.Minute || took > time.Hour {
			t.Errorf("it took %v, want what is left of the hour", took)
		}
	})
}

func TestSignal_WakesWhoWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("ship", func(ctx context.Context, _ *jobs.Job) error {
			if by, err := Result[string](ctx, "approval"); err != nil || by != "ada" {
				t.Errorf("the signal carries %q, %v", by, err)
			}
			return nil
		})
		w.start(New("w").Add(Chain(node("ask"), Node{Name: "approval", Signal: "approve"}, node("ship"))))
		pass(3*24*time.Hour + time.Second)
		w.once("ask")
		begun := time.Now()
		if err := Signal(w.Context(), w.client, "w", "approve", []byte(`"ada"`)); err != nil {
			t.Fatal(err)
		}
		if err := Signal(w.Context(), w.client, "w", "approve", []byte(`"bob"`)); !errors.Is(err, broker.ErrDuplicate) {
			t.Errorf("the same signal again: %v", err)
		}
		w.ends("w", StateCompleted)
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("it took %v from the signal to the end", took)
		}
		if err := Signal(w.Context(), w.client, "w", "late", nil); !errors.Is(err, broker.ErrWrongState) {
			t.Errorf("a signal after the end: %v", err)
		}
	})
}

// A signal may be sent before its workflow starts.
func TestSignal_ComesBeforeItsWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		if err := Signal(w.Context(), w.client, "w", "go", []byte(`"early"`)); err != nil {
			t.Fatal(err)
		}
		if err := Signal(w.Context(), w.client, "never", "go", nil); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		w.run(New("w").Add(Chain(Node{Name: "go", Signal: "go"}, node("a"))), StateCompleted)
		pass(40 * 24 * time.Hour)
		if left := w.left(Queue); len(left) > 0 {
			t.Errorf("after 40 days there is left: %v", left)
		}
	})
}

func TestSignal_ThatDoesNotComeExpires(t *testing.T) {
	for policy, want := range map[OnDead]State{Fail: StateFailed, Continue: StateCompleted} {
		t.Run(string(policy), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				w.on("next", func(ctx context.Context, _ *jobs.Job) error {
					if _, err := Result[string](ctx, "approval"); !errors.Is(err, ErrNoResult) {
						t.Errorf("the result of a signal that did not come: %v", err)
					}
					return nil
				})
				begun := time.Now()
				info := w.run(New("w").Add(Chain(Node{Name: "approval", Signal: "yes", Within: 30 * time.Minute, OnDead: policy}, node("next"))), want)
				if took := time.Since(begun); took < 30*time.Minute || took > 31*time.Minute || info.Nodes[0].State != StateExpired {
					t.Errorf("after %v the node is %s", took, info.Nodes[0].State)
				}
			})
		})
	}
}

func TestWorkflow_NodesWaitForTimes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		begun := time.Now()
		when := make(map[string]time.Duration)
		for _, n := range []string{"a", "b", "c", "d", "x"} {
			w.on(n, func(context.Context, *jobs.Job) error {
				w.mu.Lock()
				when[n] = time.Since(begun).Round(time.Second)
				w.mu.Unlock()
				return nil
			})
		}
		delayed := node("b", "a")
		delayed.Delay = time.Hour
		at := node("c")
		at.At = begun.Add(90 * time.Minute)
		w.run(New("w").Add(node("a"), delayed, at, Node{Name: "pause", Delay: 10 * time.Minute, After: []string{"b"}}, node("d", "pause"),
			Node{Name: "n", Workflow: New("").Add(node("x")), Delay: 20 * time.Minute}), StateCompleted)
		want := map[string]time.Duration{"a": 0, "b": time.Hour, "c": 90 * time.Minute, "d": 70 * time.Minute, "x": 20 * time.Minute}
		if fmt.Sprint(when) != fmt.Sprint(want) {
			t.Errorf("the nodes began at %v, want %v", when, want)
		}
	})
}

func TestWorkflow_Callbacks(t *testing.T) {
	for _, c := range []struct {
		fails string
		state State
		want  string
	}{{"", StateCompleted, "a :end :success"}, {"a", StateFailed, "a :end :failure"}} {
		t.Run(string(c.state), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				if c.fails != "" {
					w.fails(c.fails)
				}
				w.on(":failure", func(ctx context.Context, _ *jobs.Job) error {
					if info, err := Of(ctx).Info(ctx); err != nil || !strings.Contains(info.Cause, "a is broken") {
						t.Errorf("the callback reads %q, %v", info.Cause, err)
					}
					return nil
				})
				wf := New("w").Add(node("a"))
				wf.OnSuccess, wf.OnFailure, wf.OnEnd = task(), task(), task()
				w.run(wf, c.state)
				pass(time.Second)
				w.once(strings.Fields(c.want)...)
				if c.state == StateFailed { // the other callback waits for a retry
					w.on("a", nil)
					if err := Retry(w.Context(), w.client, "w"); err != nil {
						t.Fatal(err)
					}
					w.ends("w", StateCompleted)
					pass(time.Second)
					if w.runs[":success"] != 1 || w.runs[":end"] != 1 || w.runs[":failure"] != 1 {
						t.Errorf("after the retry: %v", w.runs)
					}
				}
				if left := w.left("default"); len(left) > 0 {
					t.Errorf("there is left: %v", left)
				}
			})
		})
	}
}

func TestGraph_RefusesNewerForms(t *testing.T) {
	for text, want := range map[string]error{
		`{"v":3}`: broker.ErrNewerForm, `{"v":1,"more":1}`: broker.ErrMalformed, `no`: broker.ErrMalformed,
		`{"v":1,"nodes":[{"n":"a","q":1}]}`: broker.ErrMalformed, `{"v":1,"nodes":[{"n":"a","a":[1]}]}`: broker.ErrMalformed,
		`{"v":1,"refs":["a"],"nodes":[{"n":"a","a":[-1]}]}`:  broker.ErrMalformed, // link would panic
		`{"v":1,"nodes":[{"n":"a","a":[-1]}]}`:               broker.ErrMalformed,
		`{"v":1,"nodes":[],"calls":[{"when":":end","q":1}]}`: broker.ErrMalformed,
	} {
		if _, err := decode([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s gives %v, want %v", text, err, want)
		}
	}
}

func TestList_AStoreThatFailsIsToldOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 3 {
			w.start(New(fmt.Sprint("w", i)).Add(node("a")))
		}
		away := broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if c.Method == "Mark" {
				return broker.ErrUnavailable
			}
			return next(ctx)
		})
		client := jobs.NewClient(away, jobs.ClientConfig{})
		defer client.Close()
		_, err := List(w.Context(), client, ListOptions{})
		if !errors.Is(err, broker.ErrUnavailable) || strings.Count(err.Error(), "unavailable") != 1 {
			t.Errorf("List says %q; want ErrUnavailable once", err)
		}
	})
}
