package workflow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// before returns the store of a client, in which f runs before the given call of the client.
func (w *world) before(call int, f func()) (client *jobs.Client, calls *int) {
	calls = new(int)
	b := broker.Wrap(w.store, func(ctx context.Context, _ *broker.Call, next func(context.Context) error) error {
		if *calls++; *calls == call {
			f()
		}
		return next(context.WithoutCancel(ctx))
	})
	client = jobs.NewClient(b, jobs.ClientConfig{})
	w.Cleanup(func() { client.Close() })
	return client, calls
}

// A removal that hangs in the middle leaves the next workflow with the ID as it is.
func TestDelete_ThatIsLateLeavesTheNextWorkflowAlone(t *testing.T) {
	for call := 1; call <= 10; call++ {
		t.Run(fmt.Sprintf("before call %d", call), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				w.run(brief(node("a")), StateCompleted)
				next := brief(Chain(node("b"), Node{Name: "approval", Signal: "approve"}, node("c")))
				late, calls := w.before(call, func() {
					if err := Delete(w.Context(), w.client, "w"); err != nil && !errors.Is(err, broker.ErrNotFound) {
						t.Error(err)
					}
					w.start(next)
					pass(time.Minute)
				})
				err := Delete(w.Context(), late, "w")
				if *calls < call {
					return // it makes fewer calls
				}
				pass(2 * time.Minute)
				info, _ := Get(w.Context(), w.client, "w")
				t.Logf("%d calls, the late Delete says %v", *calls, err)
				if got := states(info); got != "approval waiting, b completed, c waiting" {
					t.Fatalf("the next workflow is %s, with %s", info.State, got)
				}
				w.errors(nil, Signal(w.Context(), w.client, "w", "approve", nil))
				w.ends("w", StateCompleted)
				w.once("a", "b", "c")
			})
		})
	}
}

// A start that hangs until it was given up leaves the next workflow with the ID as it is.
func TestStart_ThatIsLateLeavesTheNextWorkflowAlone(t *testing.T) {
	for call := 1; call <= 10; call++ {
		t.Run(fmt.Sprintf("before call %d", call), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				next := brief(Chain(node("b"), Node{Name: "approval", Signal: "approve"}, node("c")))
				late, calls := w.before(call, func() {
					pass(2 * time.Minute)
					if err := Start(w.Context(), w.client, next); errors.Is(err, broker.ErrDuplicate) {
						w.once("a") // all of it was stored
						call = 0
					} else {
						w.errors(nil, err)
					}
					pass(time.Second)
				})
				err := Start(w.Context(), late, brief(node("a")))
				if *calls < call || call == 0 {
					return
				}
				t.Logf("%d calls, the late Start says %v", *calls, err)
				pass(5 * time.Minute)
				info, _ := Get(w.Context(), w.client, "w")
				if err == nil && w.runs["a"] == 0 {
					t.Error("Start says that the workflow was started, and it does not run")
				}
				if got := states(info); got != "approval waiting, b completed, c waiting" {
					t.Fatalf("the next workflow is %s, with %s", info.State, got)
				}
				w.errors(nil, Signal(w.Context(), w.client, "w", "approve", nil))
				w.ends("w", StateCompleted)
				if left := w.left("default"); len(left) > 0 {
					t.Errorf("there is left: %v", left)
				}
			})
		})
	}
}

// Of two clients that take the ID of a workflow that was given up, or was refused, at once, one starts its workflow.
func TestStart_OfTwoThatTakeAnIDAtOnceOneStarts(t *testing.T) {
	for refused, last := range map[bool]int{false: 7, true: 6} { // the next call removes the job of the first one
		for call := 1; call <= last; call++ {
			t.Run(fmt.Sprintf("refused %v, before call %d", refused, call), func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.up()
					first := brief(node("a"))
					if refused {
						most := int64(1)
						_, err := w.store.Policy(w.Context(), broker.PolicyRequest{Queue: "small", MaxDepth: &most})
						w.errors(nil, err)
						first.Add(Node{Name: "x", Task: task(jobs.WithQueue("small"))}, Node{Name: "y", Task: task(jobs.WithQueue("small"))})
					} else {
						dying := jobs.NewClient(faulty.Wrap(w.store, dies(2, false)), jobs.ClientConfig{Retries: -1})
						defer dying.Close()
						if err := Start(w.Context(), dying, brief(node("old"))); err == nil {
							t.Fatal("the client did not die")
						}
						pass(2 * time.Minute)
					}
					var other error
					client, calls := w.before(call, func() { other = Start(w.Context(), w.client, brief(node("b"))) })
					one := Start(w.Context(), client, first)
					if *calls < call {
						return
					}
					if (one == nil) == (other == nil) && !refused {
						t.Errorf("the Starts say %v and %v, want one of them to start", one, other)
					}
					if one == nil || other == nil {
						w.ends("w", StateCompleted)
					}
					pass(5 * time.Minute)
					if got, want := w.runs["a"], map[bool]int{true: 1}[one == nil]; got != want {
						t.Errorf("the node of the one ran %d times, want %d, after %v", got, want, one)
					}
					if got, want := w.runs["b"], map[bool]int{true: 1}[other == nil]; got != want {
						t.Errorf("the node of the other ran %d times, want %d, after %v", got, want, other)
					}
					if left := append(w.left("default"), w.left("small")...); len(left) > 0 {
						t.Errorf("there is left: %v", left)
					}
				})
			})
		}
	}
}

// A Delete beside a Retry either removes the workflow or says that it did not.
func TestDelete_BesideRetry(t *testing.T) {
	for call := 1; call <= 10; call++ {
		t.Run(fmt.Sprintf("before call %d", call), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.fails("a")
				s := w.up()
				w.run(brief(node("a")), StateFailed)
				w.errors(nil, s.Shutdown(w.Context())) // so that the workflow does not run while Delete goes on
				late, calls := w.before(call, func() { _ = Retry(w.Context(), w.client, "w") })
				err := Delete(w.Context(), late, "w")
				if *calls < call {
					return // it makes fewer calls
				}
				switch state := w.stateOf("w"); {
				case err == nil && state != broker.StateNone:
					t.Errorf("Delete says nil, and the workflow is %v", state)
				case err != nil && !errors.Is(err, broker.ErrWrongState):
					t.Errorf("Delete says %v", err)
				}
			})
		})
	}
}
