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
	"github.com/seed81422ce9/jobs/internal/mortal"
	"github.com/seed81422ce9/jobs/jobstest"
)

// inTx runs a test on a store with transactions.
func inTx(t *testing.T, f func(w *world, b *jobstest.Broker)) {
	t.Helper()
	inWorld(t, func(w *world) {
		b := jobstest.New(w)
		in := newWorld(w.T, b)
		f(in, b)
	})
}

// placed is a workflow of every kind of node, with a callback.
func placed(who string) *Workflow {
	load := func(name string) Node { return Node{Name: name, Task: jobs.NewTask("task", []byte(who))} }
	wf := brief(Chain(load("a"), Node{Name: "n", Workflow: New("").Add(Chain(load("x"), load("y")))}, load("b")))
	wf.OnSuccess = task()
	return wf
}

func TestStart_InATransaction(t *testing.T) {
	inTx(t, func(w *world, b *jobstest.Broker) {
		ctx := w.Context()
		tx := b.Begin()
		w.errors(nil, Start(ctx, w.client.In(tx), placed("rolled back")))
		w.errors(broker.ErrDuplicate, Start(ctx, w.client.In(tx), placed("again")))
		w.errors(nil, tx.Rollback())
		w.nothing("after a rollback")

		tx = b.Begin()
		w.errors(nil, Start(ctx, w.client.In(tx), placed("committed")))
		_, err := Get(ctx, w.client, "w")
		w.errors(broker.ErrNotFound, err)
		w.errors(nil, tx.Commit())
		if info := w.info("w"); info.State != StateRunning || states(info) != "a waiting, b waiting, n waiting" {
			t.Errorf("before a server has seen it, it is %s, %s", info.State, states(info))
		}
		w.errors(broker.ErrDuplicate, Start(ctx, w.client, placed("committed")))
		pass(3 * time.Hour) // longer than a client may take to start a workflow

		tx = b.Begin()
		w.errors(broker.ErrDuplicate, Start(ctx, w.client.In(tx), placed("again")))
		w.errors(nil, tx.Commit()) // it has stored nothing
		w.up()
		w.ends("w", StateCompleted)
		pass(time.Second)
		w.once("a", "x", "y", "b", ":success")
		w.errors(broker.ErrDuplicate, Start(ctx, w.client, placed("committed")))
		pass(2 * time.Hour)
		w.nothing("after its retention")
	})
}

// The caller commits although Start failed. Nothing of the workflow runs, and nothing stays.
func TestStart_InATransactionThatIsCommittedAfterAnError(t *testing.T) {
	for _, refused := range []string{"a", "x", "b"} {
		t.Run(refused, func(t *testing.T) {
			inTx(t, func(w *world, b *jobstest.Broker) {
				client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
					return func(ctx context.Context, batch []*jobs.Outgoing) {
						for _, o := range batch {
							if strings.HasSuffix(o.ID, "/"+refused) {
								o.Err = broker.Invalid("node", "is not wanted")
							}
						}
						next(ctx, batch)
					}
				}}})
				defer client.Close()
				tx := b.Begin()
				w.errors(broker.ErrInvalid, Start(w.Context(), client.In(tx), placed("refused")))
				w.errors(nil, tx.Commit())
				w.up()
				pass(2 * time.Minute)
				w.once()
				w.run(placed("again"), StateCompleted) // the ID is free
				pass(2 * time.Hour)
				w.nothing("in the end")
			})
		})
	}
}

// Of a start in a transaction and one beside it, one workflow results.
func TestStart_InATransactionBesideAnother(t *testing.T) {
	inTx(t, func(w *world, b *jobstest.Broker) {
		tx := b.Begin()
		w.errors(nil, Start(w.Context(), w.client.In(tx), placed("inside")))
		w.errors(nil, Start(w.Context(), w.client, placed("beside")))
		if err := tx.Commit(); err == nil { // a database refuses this at once, or makes one of them wait
			t.Error("both workflows were started")
		}
		for _, name := range []string{"a", "x", "y", "b"} {
			w.on(name, func(_ context.Context, j *jobs.Job) error {
				if string(j.Payload()) != "beside" {
					t.Errorf("node %s has the task of the one %s", name, j.Payload())
				}
				return nil
			})
		}
		w.up()
		w.ends("w", StateCompleted)
	})
}

// A server dies before or after each call while it takes over a workflow that was started in a transaction.
func TestStart_InATransactionSurvivesCrashes(t *testing.T) {
	for call := int64(1); call <= 24; call++ {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, carried out %v", call, lost), func(t *testing.T) {
				inTx(t, func(w *world, b *jobstest.Broker) {
					tx := b.Begin()
					w.errors(nil, Start(w.Context(), w.client.In(tx), placed("w")))
					w.errors(nil, tx.Commit())
					pass(time.Hour)
					dying := mortal.New(w.store, counts)
					dying.Lost = lost
					dying.After.Store(call)
					cfg := jobs.Config{Lease: time.Second, PollInterval: time.Second}
					w.serve(dying, cfg)
					pass(10 * time.Second)
					w.serve(w.store, cfg)
					w.exactly(StateCompleted, []string{"a", "x", "y", "b", ":success"})
					if left := w.left("default"); len(left) > 0 {
						t.Errorf("there is left: %v", left)
					}
				})
			})
		}
	}
}

// A nested workflow waits for its node, even if somebody wakes it early, and even if its client took long.
func TestWorkflow_ANestedOneThatIsWokenEarlyWaits(t *testing.T) {
	inTx(t, func(w *world, b *jobstest.Broker) {
		tx := b.Begin()
		wf := brief(Chain(Node{Name: "go", Signal: "go"}, Node{Name: "n", Workflow: New("").Add(Chain(Node{Name: "s", Signal: "s"}, node("x")))}))
		w.errors(nil, Start(w.Context(), w.client.In(tx), wf))
		w.errors(nil, tx.Commit())
		pass(time.Hour)
		w.up()
		var inner string
		for _, n := range w.info("w").Nodes {
			if n.Workflow != "" {
				inner = n.Workflow
			}
		}
		w.errors(nil, Signal(w.Context(), w.client, inner, "s", nil))
		pass(time.Hour)
		if info := w.info(inner); info.State != StateWaiting {
			t.Errorf("the nested workflow is %s, want waiting", info.State)
		}
		w.once()
		w.errors(nil, Signal(w.Context(), w.client, "w", "go", nil))
		w.ends("w", StateCompleted)
		w.once("x")
	})
}

// Only Start works in a transaction. The others say so.
func TestWorkflow_OtherCallsInATransaction(t *testing.T) {
	inTx(t, func(w *world, b *jobstest.Broker) {
		tx := b.Begin()
		in := w.client.In(tx)
		for name, err := range map[string]error{
			"Cancel": Cancel(w.Context(), in, "w", ""), "Signal": Signal(w.Context(), in, "w", "s", nil),
			"none": Start(w.Context(), w.client.In(nil), placed("w")), "bad": Start(w.Context(), in, New("a/b")),
		} {
			if !errors.Is(err, broker.ErrInvalid) {
				t.Errorf("%s says %v, want ErrInvalid", name, err)
			}
		}
		w.errors(nil, tx.Rollback())
	})
}
