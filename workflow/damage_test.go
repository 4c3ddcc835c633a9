package workflow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// A state that a newer program wrote, or that is damaged, starts nothing and hides no other workflow.
func TestState_WithAByteThatThisProgramDoesNotKnow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(New("good").Add(Node{Name: "a", Signal: "never"}))
		for id, value := range map[string]string{"strange": `{"v":1,"birth":%q,"phase":"running","ends":"?."}`,
			"newer": `{"v":1000,"birth":%q,"phase":"running","ends":"?."}`, "broken": `[%q`} {
			w.start(New(id).Add(Chain(node("a"), node("b"))))
			s := store{w.store}
			info, err := s.load(w.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			h, err := s.take(w.Context(), id, info.graph.Birth, phaseRunning)
			if err != nil {
				t.Fatal(err)
			}
			m, err := w.store.Mark(w.Context(), broker.MarkRequest{Action: broker.MarkSet, Name: "workflow:" + id, Owner: "workflow",
				Fence: h.fence, TTL: time.Hour, Value: fmt.Appendf(nil, value, info.graph.Birth)})
			if err != nil || !m.Held {
				t.Fatal(err, m)
			}
		}
		w.up()
		pass(10 * time.Minute)
		w.once()
		page, err := List(w.Context(), w.client, ListOptions{})
		if err != nil || len(page.Workflows) != 4 {
			t.Fatalf("List gives %d workflows, %v", len(page.Workflows), err)
		}
		for _, info := range page.Workflows {
			switch {
			case info.ID == "strange" && info.Counts[StateUnknown] != 1, info.ID == "broken" && info.Cause == "":
				t.Errorf("%s: %+v", info.ID, info)
			}
		}
	})
}

// A request to cancel that is stored after the workflow has decided that it failed does not cancel it when it is retried.
func TestRetry_AfterACancelThatCameTooLate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.fails("a")
		var once sync.Once
		w.serve(broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if m, ok := c.Request.(*broker.MarkRequest); ok && strings.Contains(string(m.Value), `"phase":"ended"`) {
				once.Do(func() { w.errors(nil, Cancel(ctx, w.client, "w", "ada")) })
			}
			return next(ctx)
		}), jobs.Config{})
		w.run(New("w").Add(node("a")), StateFailed)
		w.on("a", nil)
		w.errors(nil, Retry(w.Context(), w.client, "w"))
		w.ends("w", StateCompleted)
	})
}

// A dead node is redriven when its workflow was removed and another one has the ID. It reads no results of that one, and
// adds nothing to it.
func TestScope_IsThatOfTheJobsOwnWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.fails("bad")
		wf := func() *Workflow {
			return brief(node("good"), Node{Name: "bad", Task: task(), After: []string{"good"}, OnDead: Continue})
		}
		w.on("good", func(ctx context.Context, _ *jobs.Job) error { return SetResult(ctx, "a result") })
		w.run(wf(), StateCompleted)
		pass(2 * time.Hour)
		page, err := w.store.Find(w.Context(), broker.Query{Queue: "default", State: broker.StateDead})
		w.errors(nil, err)
		w.run(wf(), StateCompleted)
		var result, added error
		w.on("bad", func(ctx context.Context, _ *jobs.Job) error {
			_, result = Result[string](ctx, "good")
			added = Of(ctx).Add(ctx, node("new"))
			return nil
		})
		w.errors(nil, store{w.store}.operate(w.Context(), broker.Operation{Kind: broker.OpRedrive}, refsOf(page.Jobs), nil))
		pass(time.Second)
		w.errors(broker.ErrNotFound, result)
		w.errors(broker.ErrNotFound, added)
		if got := states(w.info("w")); got != "bad dead, good completed" {
			t.Errorf("the other workflow has %s", got)
		}
	})
}

// A handler that adds many nodes one by one reads each addition at most once.
func TestScope_ManyAddsOfOneHandlerReadLittle(t *testing.T) {
	inWorld(t, func(w *world) {
		const n = 40
		read := 0
		w.serve(broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			err := next(ctx)
			if q, ok := c.Request.(*broker.Query); ok && !q.NoPayload {
				for _, j := range c.Reply.(*broker.Page).Jobs {
					if j.Type == typeAdd {
						read++
					}
				}
			}
			return err
		}), jobs.Config{Queues: map[string]int{"default": 1}, Concurrency: 1})
		var all int
		w.on("adds", func(ctx context.Context, _ *jobs.Job) error {
			w.pause(true) // so that only the handler reads
			before := read
			for i := range n {
				if err := Of(ctx).Add(ctx, node(fmt.Sprint("new", i), "adds")); err != nil {
					return err
				}
			}
			if err := Of(ctx).Add(ctx, node("new0", "adds")); err != nil { // again
				return err
			}
			all = read - before
			w.pause(false)
			return nil
		})
		w.run(brief(node("adds")), StateCompleted)
		if all > n {
			t.Errorf("%d calls of Add read %d additions", n, all)
		}
		if w.runs["new39"] != 1 || len(w.runs) != n+1 {
			t.Errorf("ran %v", w.runs)
		}
	})
}

// A producer sets the header of workflows by hand. This wakes no sweep before its time, and no call about other
// workflows fails for an ID that no job can have.
func TestNudge_OfAHeaderThatIsNoWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		var spoiled error
		w.serve(broker.Wrap(w.store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			err := next(ctx)
			if op, ok := c.Request.(*broker.Operation); ok && op.Kind == broker.OpReschedule && err != nil {
				spoiled = err
			}
			return err
		}), jobs.Config{})
		w.run(brief(node("a")), StateCompleted)
		prefix := strings.TrimSuffix(w.info("w").Nodes[0].JobID, "/a")
		for _, header := range []string{prefix + "/:sweep", "a\x00b", strings.Repeat("x", 1000)} {
			_, err := w.client.Enqueue(w.Context(), task(jobs.WithHeader(HeaderWorkflow, header), jobs.WithHeader(HeaderNode, "a")))
			w.errors(nil, err)
		}
		pass(time.Minute)
		w.errors(nil, spoiled)
		w.info("w") // it is still there
	})
}

// A failed workflow is deleted while somebody has redriven its dead node. The record of that node goes, too.
func TestDelete_WhileANodeRunsAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.fails("bad")
		w.run(brief(node("bad")), StateFailed)
		w.on("bad", func(context.Context, *jobs.Job) error {
			time.Sleep(time.Minute)
			return nil
		})
		page, err := w.store.Find(w.Context(), broker.Query{Queue: "default", State: broker.StateDead})
		w.errors(nil, err)
		w.errors(nil, store{w.store}.operate(w.Context(), broker.Operation{Kind: broker.OpRedrive}, refsOf(page.Jobs), nil))
		pass(time.Second)
		w.errors(nil, Delete(w.Context(), w.client, "w"))
		pass(2 * time.Hour)
		w.nothing("after the node has completed,")
	})
}

// plant stores a job as a workflow, with any graph and any state.
func (w *world) plant(id, graph, state string) {
	w.Helper()
	body := broker.Body{Type: typeWorkflow, TypeVersion: graphVersion, Key: keyWorkflow, Priority: broker.PriorityNormal,
		Payload: []byte(graph)}
	receipts, err := w.store.Enqueue(w.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: Queue, ID: id, Body: body}}})
	if err == nil {
		err = receipts[0].Err
	}
	if err == nil && state != "" {
		_, err = w.store.Mark(w.Context(), broker.MarkRequest{Action: broker.MarkTake, Name: "workflow:" + id, Owner: "workflow",
			TTL: broker.MaxDelay, Value: []byte(state)})
	}
	if err != nil {
		w.Fatal(err)
	}
}

func TestGet_AGraphThatNobodyWroteIsMalformed(t *testing.T) {
	inWorld(t, func(w *world) {
		for id, graph := range map[string]string{
			"not-json":       `{`,
			"no-such-node":   `{"v":1,"nodes":[{"n":"a","a":[1]}]}`,
			"a-reference":    `{"v":1,"refs":["x"],"nodes":[{"n":"a","a":[-1]}]}`,
			"any-reference":  `{"v":1,"refs":["x"],"nodes":[{"n":"a","e":[-1]}]}`,
			"no-such-queue":  `{"v":1,"queues":["q"],"nodes":[{"n":"a","q":2}]}`,
			"a-callback":     `{"v":1,"calls":[{"when":":end","q":1}],"nodes":[]}`,
			"after-itself":   `{"v":1,"nodes":[{"n":"a","a":[0]}]}`,
			"after-a-circle": `{"v":1,"nodes":[{"n":"a","a":[1]},{"n":"b","e":[0]},{"n":"c","a":[0]}]}`,
		} {
			w.plant(id, graph, "")
			if _, err := Get(w.Context(), w.client, id); !errors.Is(err, broker.ErrMalformed) && !errors.Is(err, broker.ErrInvalid) {
				w.Errorf("%s: Get answers %v, want ErrMalformed, or ErrInvalid for a cycle", id, err)
			}
		}
	})
}

func TestList_AStateThatCannotBeReadHidesNoOtherWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		const graph = `{"v":1,"birth":"b","nodes":[]}`
		w.plant("broken", graph, `{"v":1,`)
		w.plant("newer", graph, `{"v":99,"birth":"b","phase":"running","cause":"later"}`)
		w.plant("sound", graph, `{"v":1,"birth":"b","phase":"running"}`)
		page, err := List(w.Context(), w.client, ListOptions{})
		if err != nil || len(page.Workflows) != 3 {
			w.Fatalf("List answers %+v, %v; want three workflows", page.Workflows, err)
		}
		for _, info := range page.Workflows {
			want := map[string]string{"broken": "malformed", "newer": "newer version", "sound": ""}[info.ID]
			if want == "" && info.Cause != "" || !strings.Contains(info.Cause, want) || info.ID != "broken" && info.State != StateRunning {
				w.Errorf("%s is %s, its cause is %q; want one with %q", info.ID, info.State, info.Cause, want)
			}
		}
	})
}
