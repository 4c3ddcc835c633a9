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
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// A node without a job is compensated by when it ended, like the others.
func TestWorkflow_CompensatesNodesWithoutAJobInReverseToo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.fails("bad")
		w.start(New("w").Add(Chain(undoable("a"), Node{Name: "join", Compensate: task()}, undoable("b"),
			Group(Node{Name: "go", Signal: "go", Compensate: task()}, undoable("c")), node("bad"))))
		pass(time.Minute)
		if err := Signal(w.Context(), w.client, "w", "go", nil); err != nil {
			t.Fatal(err)
		}
		w.ends("w", StateFailed)
		if want := "bad :undo:go :undo:c :undo:b :undo:join :undo:a"; !strings.HasSuffix(w.began(), want) {
			t.Errorf("%s ran, want in the end %s", w.began(), want)
		}
	})
}

func TestResults_OfNodesThatWaitForTheSameSignal(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		var got map[string]string
		w.on("last", func(ctx context.Context, _ *jobs.Job) (err error) {
			got, err = Results[string](ctx)
			return err
		})
		w.start(New("w").Add(Chord(node("last"), Node{Name: "x", Signal: "go"}, Node{Name: "y", Signal: "go"})))
		if err := Signal(w.Context(), w.client, "w", "go", []byte(`"now"`)); err != nil {
			t.Fatal(err)
		}
		w.ends("w", StateCompleted)
		if fmt.Sprint(got) != "map[x:now y:now]" {
			t.Errorf("the results are %v, want that of both nodes", got)
		}
	})
}

func TestRun_AClockThatWasAheadDoesNotMakeItPollFaster(t *testing.T) {
	t.Parallel()
	now := time.Now()
	nap := func(changed time.Duration) time.Duration {
		h := &held{now: now, state: state{Phase: phaseRunning, Ends: []byte{endWaiting}, Changed: now.Add(changed)}}
		return (&run{x: &runner{}, g: &graph{}, held: h, began: time.Now()}).nap()
	}
	if past, ahead := nap(-90*24*time.Hour), nap(90*24*time.Hour); past != pollIdle || ahead != pollIdle {
		t.Errorf("it sleeps %v after months, and %v if the clock was months ahead; want %v", past, ahead, pollIdle)
	}
}

// A nested workflow whose job is gone leaves no state behind.
func TestSweep_RemovesTheStateOfANestedOneThatWasDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("x", func(context.Context, *jobs.Job) error { return jobs.Snooze(time.Hour) })
		w.start(New("w").Add(Node{Name: "n", Workflow: New("").Add(node("x")), OnDead: Continue}))
		pass(time.Minute)
		nested := w.info("w").Nodes[0].JobID
		if err := (store{w.store}).remove(w.Context(), []broker.Ref{{Queue: Queue, ID: nested}}); err != nil {
			t.Fatal(err)
		}
		w.ends("w", StateCompleted)
		pass(25 * time.Hour)
		var st state
		if there, err := (store{w.store}).states().Peek(w.Context(), nested, &st); err != nil || there {
			t.Errorf("after the sweep the state of %s is %+v, %v; want none", nested, st, err)
		}
	})
}

// A nested workflow that runs before its node is ready sleeps, but not for ever: the nudge that
// starts it can be lost while that run is not settled.
func TestRun_AParkedWorkflowLooksAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.on("first", func(context.Context, *jobs.Job) error { time.Sleep(time.Minute); return nil })
		w.up()
		w.start(New("w").Add(Chain(node("first"), Node{Name: "n", Workflow: New("").Add(node("x"))})))
		pass(time.Second)
		nested := w.info("w").Nodes[1].JobID
		if err := Signal(w.Context(), w.client, nested, "early", nil); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		job, err := reserved.Find(w.Context(), w.store, Queue, nested)
		if err != nil || time.Until(job.RunAt) > pollIdle {
			t.Errorf("the nested workflow runs again at %v, %v; want within %v", job.RunAt, err, pollIdle)
		}
		w.ends("w", StateCompleted)
	})
}

func TestWorkflow_TheCauseOfACancelledNodeIsNotAnEarlierFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("a", func(context.Context, *jobs.Job) error {
			return jobs.RetryAfter(time.Hour, errors.New("a passing trouble"))
		})
		w.start(New("w").Add(node("a")))
		pass(time.Minute)
		ref := broker.Ref{Queue: "default", ID: w.info("w").Nodes[0].JobID, Epoch: broker.AnyEpoch}
		if _, err := w.store.Operate(w.Context(), broker.Operation{Kind: broker.OpCancel, Refs: []broker.Ref{ref}}); err != nil {
			t.Fatal(err)
		}
		if info := w.ends("w", StateFailed); info.Cause != `node "a" was cancelled` {
			t.Errorf("the cause is %q, want the cancellation alone", info.Cause)
		}
	})
}

func TestScope_AnAdditionThatCannotBeIsNotRetried(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.on("a", func(ctx context.Context, _ *jobs.Job) error { return Of(ctx).Add(ctx, node("b", "nobody")) })
		info := w.run(New("w").Add(node("a")), StateFailed)
		w.once("a")
		if !strings.Contains(info.Cause, `"nobody" in After`) {
			t.Errorf("the cause is %q", info.Cause)
		}
	})
}

// A page of jobs by ID may have only some of them, and a cursor (§21 of the contract).
func TestWorkflow_OnAStoreWithSmallPages(t *testing.T) {
	inWorld(t, func(w *world) {
		small := broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			q, ok := c.Request.(*broker.Query)
			if !ok || len(q.IDs) < 2 {
				return next(ctx)
			}
			rest := q.Cursor != ""
			q.Cursor = ""
			err := next(ctx)
			if page := c.Reply.(*broker.Page); err == nil && rest {
				page.Jobs = page.Jobs[1:]
			} else if err == nil && len(page.Jobs) > 1 {
				page.Jobs, page.Cursor = page.Jobs[:1], "rest"
			}
			return err
		})
		w.serve(small, jobs.Config{})
		w.on("last", func(ctx context.Context, _ *jobs.Job) error {
			if all, err := Results[int](ctx); err != nil || len(all) != 3 {
				t.Errorf("the results are %v, %v; want three", all, err)
			}
			return nil
		})
		parts := make([]Part, 3)
		for i := range parts {
			name := fmt.Sprint("n", i)
			parts[i] = node(name)
			w.on(name, func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, i) })
		}
		w.run(New("w").Add(Chord(node("last"), parts...)), StateCompleted)
	})
}

func TestResults_OfManyNodesTakeFewCalls(t *testing.T) {
	inWorld(t, func(w *world) {
		const n = 1000
		calls := 0
		counted := broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if q, ok := c.Request.(*broker.Query); ok && len(q.IDs) > 1 && !q.NoPayload {
				calls++
			}
			return next(ctx)
		})
		w.serve(counted, jobs.Config{Concurrency: 100})
		w.on("last", func(ctx context.Context, _ *jobs.Job) error {
			if all, err := Results[string](ctx); err != nil || len(all) != n {
				t.Errorf("%d results, %v; want %d", len(all), err, n)
			}
			return nil
		})
		parts := make([]Part, n)
		for i := range parts {
			name := fmt.Sprint("n", i)
			parts[i] = node(name)
			w.on(name, func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, "small") })
		}
		w.run(New("w").Add(Chord(node("last"), parts...)), StateCompleted)
		if calls == 0 || calls > 10 {
			t.Errorf("%d small results took %d calls, want 10 at most", n, calls)
		}
	})
}
