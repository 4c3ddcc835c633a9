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

func TestWorkflow_AChainRunsInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		begun := time.Now()
		info := w.run(New("c").Add(Chain(node("a"), node("b"), node("c"))), StateCompleted)
		if w.began() != "a b c" {
			t.Errorf("%s ran, want a b c", w.began())
		}
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("a chain of three took %v: its servers do not wake it", took)
		}
		if got := states(info); got != "a completed, b completed, c completed" || info.Nodes[2].Level != 2 {
			t.Errorf("the nodes are %s", got)
		}
	})
}

func TestWorkflow_AGraphRunsByItsEdges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		done := make(map[string]bool)
		for name, before := range map[string][]string{"a": nil, "b": {"a"}, "c": {"a"}, "d": {"b", "c"}, "e": {"c"}, "f": {"d", "e"}} {
			w.on(name, func(context.Context, *jobs.Job) error {
				time.Sleep(time.Duration(len(name)+int(name[0])) * time.Millisecond)
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, b := range before {
					if !done[b] {
						t.Errorf("%s ran before %s was done", name, b)
					}
				}
				done[name] = true
				return nil
			})
		}
		w.run(New("g").Add(node("f", "d", "e"), node("d", "b", "c"), node("e", "c"), node("b", "a"), node("c", "a"), node("a")), StateCompleted)
		w.once("a", "b", "c", "d", "e", "f")
	})
}

func TestWorkflow_AChordReadsTheResultsOfItsParts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		var parts []Part
		for i := range 5 {
			name := fmt.Sprint("part", i)
			parts = append(parts, node(name))
			w.on(name, func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, i*i) })
		}
		w.on("sum", func(ctx context.Context, _ *jobs.Job) error {
			squares, err := Results[int](ctx)
			sum := 0
			for _, n := range squares {
				sum += n
			}
			if one, err := Result[int](ctx, "part4"); err != nil || one != 16 {
				t.Errorf("the result of part4 is %d, %v", one, err)
			}
			if _, err := Result[int](ctx, "none"); !errors.Is(err, broker.ErrNotFound) {
				t.Errorf("the result of a node that there is not: %v", err)
			}
			return errors.Join(err, SetResult(ctx, sum))
		})
		w.run(New("chord").Add(Chord(node("sum"), parts...)), StateCompleted)
		result, err := Wait(w.Context(), w.client, "chord")
		if err != nil || string(result) != "30" {
			t.Errorf("the workflow's result is %q, %v; want that of its last node, 30", result, err)
		}
		if sum, err := Await[int](w.Context(), w.client, "chord"); err != nil || sum != 30 {
			t.Errorf("decoded, the workflow's result is %d, %v", sum, err)
		}
		if _, err := Await[[]string](w.Context(), w.client, "chord"); !errors.Is(err, jobs.ErrResult) {
			t.Errorf("decoded as what it is not: %v", err)
		}
	})
}

func TestWorkflow_AnEmptyOneCompletesAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.run(New("empty").Add(Group()), StateCompleted)
		w.run(New("join").Add(Chain(Group(), Node{Name: "join"}, Group(), node("a"))), StateCompleted)
		w.once("a")
	})
}

// What happens after a node that did not complete, by its OnDead and the edge.
func TestWorkflow_PoliciesOnDead(t *testing.T) {
	any := func(name string, after ...string) Node { return Node{Name: name, Task: task(), AfterAny: after} }
	for _, c := range []struct {
		name  string
		nodes []Part
		state State
		want  string
	}{
		{"fail", []Part{node("bad"), node("next", "bad"), node("side")}, StateFailed,
			"bad dead, next waiting, side completed"},
		{"fail, nobody follows", []Part{node("bad")}, StateFailed, "bad dead"},
		{"fail, but all edges take any end", []Part{node("bad"), any("next", "bad")}, StateCompleted,
			"bad dead, next completed"},
		{"fail, and one edge does not", []Part{node("bad"), any("next", "bad"), node("other", "bad")}, StateFailed,
			"bad dead, next waiting, other waiting"},
		{"continue", []Part{Node{Name: "bad", Task: task(), OnDead: Continue}, node("next", "bad")}, StateCompleted,
			"bad dead, next completed"},
		{"skip", []Part{Node{Name: "bad", Task: task(), OnDead: Skip},
			node("next", "bad"), node("later", "next"), any("after", "later"), node("side")}, StateCompleted,
			"after completed, bad dead, later skipped, next skipped, side completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				w.fails("bad")
				info := w.run(New("w").Add(c.nodes...), c.state)
				if got := states(info); got != c.want {
					t.Errorf("the nodes are %s, want %s", got, c.want)
				}
				if c.state == StateFailed && !strings.Contains(info.Cause, "bad is broken") {
					t.Errorf("the cause is %q, want what the node said", info.Cause)
				}
				if left := w.left("default"); c.state == StateCompleted && len(left) > 0 {
					t.Errorf("after the end there are %v", left)
				}
			})
		})
	}
}

// The workflow notices every end of a node's job, even those that no server
// caused.
func TestWorkflow_EveryEndOfANodeIsNoticed(t *testing.T) {
	operate := func(kind broker.OperationKind) func(w *world, ref broker.Ref) {
		return func(w *world, ref broker.Ref) {
			results, err := w.store.Operate(w.Context(), broker.Operation{Kind: kind, Refs: []broker.Ref{ref}})
			if err != nil || results[0].Err != nil {
				w.Fatal(err, results)
			}
		}
	}
	for _, c := range []struct {
		name  string
		opts  []jobs.Option
		does  func(context.Context, *jobs.Job) error
		after func(w *world, ref broker.Ref)
		want  State
	}{
		{name: "dead", does: func(context.Context, *jobs.Job) error { return jobs.SkipRetry }, want: StateDead},
		{name: "retries spent", opts: []jobs.Option{jobs.WithMaxRetries(1)},
			does: func(context.Context, *jobs.Job) error { return jobs.RetryAfter(time.Second, errors.New("no")) }, want: StateDead},
		{name: "expired", opts: []jobs.Option{jobs.WithDeadline(time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC))},
			does: func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() }, want: StateDead},
		{name: "cancelled by itself", does: func(context.Context, *jobs.Job) error { return jobs.Cancel(nil) }, want: StateCancelled},
		{name: "cancelled while it runs", does: func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() },
			after: operate(broker.OpCancel), want: StateCancelled},
		{name: "cancelled between runs", does: func(context.Context, *jobs.Job) error { return jobs.Snooze(time.Hour) },
			after: operate(broker.OpCancel), want: StateCancelled},
		{name: "deleted between runs", does: func(context.Context, *jobs.Job) error { return jobs.Snooze(time.Hour) },
			after: operate(broker.OpDelete), want: StateGone},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				w.on("n", c.does)
				w.start(New("w").Add(Chain(Node{Name: "n", Task: task(c.opts...)}, node("next"))))
				pass(time.Second / 2)
				begun := time.Now()
				if c.after != nil {
					n := w.info("w").Nodes[0]
					c.after(w, broker.Ref{Queue: n.Queue, ID: n.JobID, Epoch: broker.AnyEpoch})
				}
				info := w.ends("w", StateFailed)
				if info.Nodes[0].State != c.want {
					t.Errorf("the node is %s, want %s", info.Nodes[0].State, c.want)
				}
				if took := time.Since(begun); took > 7*time.Second {
					t.Errorf("it took %v to notice the end, want the five seconds of the poll at most", took)
				}
				if c.name != "retries spent" {
					w.once("n")
				}
			})
		})
	}
}

// Nodes can be cancelled and deleted before they are ready; the workflow notices
// when they become ready.
func TestWorkflow_NodesAreJobsBeforeTheirTurn(t *testing.T) {
	for kind, want := range map[broker.OperationKind]State{broker.OpCancel: StateCancelled, broker.OpDelete: StateGone} {
		t.Run(kind.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start(New("w").Add(Chain(node("a"), node("b"))))
				b := w.info("w").Nodes[1]
				results, err := w.store.Operate(w.Context(), broker.Operation{Kind: kind,
					Refs: []broker.Ref{{Queue: b.Queue, ID: b.JobID, Epoch: broker.AnyEpoch}}})
				if err != nil || results[0].Err != nil {
					t.Fatal(err, results)
				}
				w.up()
				info := w.ends("w", StateFailed)
				if info.Nodes[1].State != want {
					t.Errorf("the node is %s, want %s", info.Nodes[1].State, want)
				}
				w.once("a")
			})
		})
	}
}

func TestWorkflow_RetryResumesTheRest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.fails("b")
		info := w.run(New("w").Add(Chain(node("a"), node("b"), node("c"))), StateFailed)
		if got := states(info); got != "a completed, b dead, c waiting" {
			t.Errorf("before the retry: %s", got)
		}
		w.on("b", nil)
		if err := Retry(w.Context(), w.client, "w"); err != nil {
			t.Fatal(err)
		}
		w.ends("w", StateCompleted)
		if w.began() != "a b b c" {
			t.Errorf("%s ran, want a b b c", w.began())
		}
		if err := Retry(w.Context(), w.client, "w"); !errors.Is(err, broker.ErrWrongState) {
			t.Errorf("a retry of a completed workflow: %v", err)
		}
	})
}

// A saga: nodes are compensated in the reverse order of their ends.
func TestWorkflow_CompensationsRunInReverse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("slow", func(context.Context, *jobs.Job) error { time.Sleep(time.Minute); return nil })
		w.fails("d")
		info := w.run(New("w").Add(undoable("a"), undoable("slow"), undoable("b", "a"), node("d", "b", "slow"), undoable("never", "d")),
			StateFailed)
		if want := ":undo:slow :undo:b :undo:a"; !strings.HasSuffix(w.began(), want) {
			t.Errorf("%s ran, want in the end %s", w.began(), want)
		}
		if !strings.Contains(info.Cause, `"d" is dead`) {
			t.Errorf("the cause is %q, want the first failure", info.Cause)
		}
		if left := w.left("default"); len(left) > 0 {
			t.Errorf("after the end there are %v", left)
		}
		if err := Retry(w.Context(), w.client, "w"); !errors.Is(err, broker.ErrWrongState) || !strings.Contains(err.Error(), "compensated") {
			t.Errorf("a retry after compensations: %v", err)
		}
	})
}

// A node that began and did not complete may have had effects, so it is
// compensated too, before the others.
func TestWorkflow_CompensatesWhatMayHaveHappened(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.fails("b")
		w.run(New("w").Add(Chain(undoable("a"), undoable("b"))), StateFailed)
		if w.began() != "a b :undo:b :undo:a" {
			t.Errorf("%s ran, want a b :undo:b :undo:a", w.began())
		}
	})
}

func TestWorkflow_ACompensationThatFailsIsRetried(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.fails("b", ":undo:a1")
		w.run(New("w").Add(Chain(undoable("a0"), undoable("a1"), node("b"))), StateFailed)
		if w.began() != "a0 a1 b :undo:a1 :undo:a0" {
			t.Errorf("%s ran: the others are undone all the same", w.began())
		}
		if n := w.info("w").Nodes[1]; n.Compensation != StateDead {
			t.Errorf("the compensation is %s, want dead", n.Compensation)
		}
		w.on(":undo:a1", nil)
		if err := Retry(w.Context(), w.client, "w"); err != nil {
			t.Fatal(err)
		}
		w.ends("w", StateFailed)
		if !strings.HasSuffix(w.began(), ":undo:a0 :undo:a1") {
			t.Errorf("after the retry %s ran", w.began())
		}
	})
}

func TestWorkflow_CancelEndsAllAndCompensates(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("b", func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() })
		w.start(New("w").Add(Chain(undoable("a"), node("b"), node("c"))))
		pass(time.Second)
		if err := Cancel(w.Context(), w.client, "w", "ada"); err != nil {
			t.Fatal(err)
		}
		info := w.ends("w", StateCancelled)
		if w.began() != "a b :undo:a" || states(info) != "a completed, b cancelled, c waiting" || !strings.Contains(info.Cause, "ada") {
			t.Errorf("%s ran; the nodes are %s; the cause is %q", w.began(), states(info), info.Cause)
		}
		if left := w.left("default"); len(left) > 0 {
			t.Errorf("after the end there are %v", left)
		}
		if err := Cancel(w.Context(), w.client, "w", "ada"); !errors.Is(err, broker.ErrWrongState) {
			t.Errorf("cancelling again: %v", err)
		}
		if err := Cancel(w.Context(), w.client, "none", "ada"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("cancelling what there is not: %v", err)
		}
	})
}

func TestWorkflow_TheDeadlineEndsAll(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("b", func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() })
		wf := New("w").Add(Chain(node("a"), node("b"), node("c")))
		wf.Deadline = time.Now().Add(10 * time.Minute)
		info := w.run(wf, StateFailed)
		if late := info.Ended.Sub(wf.Deadline); late < 0 || late > time.Second {
			t.Errorf("it ended %v after its deadline", late)
		}
		w.once("a", "b")
		if err := Retry(w.Context(), w.client, "w"); !errors.Is(err, broker.ErrWrongState) {
			t.Errorf("a retry after the deadline: %v", err)
		}
	})
}

// The records of nodes stay until the workflow ends, however long that takes, and
// are removed when its retention is over.
func TestWorkflow_ResultsAreKeptUntilTheEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("a", func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, "kept") })
		w.on("b", func(ctx context.Context, _ *jobs.Job) error {
			if v, err := Result[string](ctx, "a"); err != nil || v != "kept" {
				t.Errorf("after ten days the result is %q, %v", v, err)
			}
			return nil
		})
		wf := New("w").Add(Chain(node("a"), Node{Name: "wait", Delay: 10 * 24 * time.Hour}, node("b")))
		wf.Retention = time.Hour
		w.start(wf)
		pass(11 * 24 * time.Hour)
		w.once("a", "b")
		for _, state := range []broker.State{broker.StateCompleted, broker.StateScheduled, broker.StateRetry} {
			for _, queue := range []string{"default", Queue} {
				page, err := w.store.Find(w.Context(), broker.Query{Queue: queue, State: state})
				if err != nil || len(page.Jobs) > 0 {
					t.Errorf("when the retention is over, %s has %d %v jobs, %v: %+v", queue, len(page.Jobs), state, err, page.Jobs)
				}
			}
		}
		w.start(New("w").Add(node("again"))) // the ID is free
	})
}
