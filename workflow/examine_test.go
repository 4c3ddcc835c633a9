package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// examined returns the findings, sorted: their codes and IDs, and whether they were repaired.
func (w *world) examined(fix bool) (found []string) {
	w.Helper()
	for f, err := range Examine(w.Context(), w.client, fix) {
		if err != nil {
			w.Fatal(err)
		}
		if f.What == "" || f.Means == "" {
			w.Errorf("a finding says too little: %+v", f)
		}
		_, node, _ := strings.Cut(f.ID, "/")
		found = append(found, strings.TrimSpace(fmt.Sprint(f.Code, " ", node, map[bool]string{true: " fixed"}[f.Fixed], " ", f.Left)))
	}
	slices.Sort(found)
	return found
}

// decide applies an operation to a workflow's own job.
func (w *world) decide(kind broker.OperationKind, id string) {
	w.Helper()
	op := broker.Operation{Kind: kind, Holder: map[bool]string{true: "a mover"}[kind == broker.OpHold],
		Refs: []broker.Ref{{Queue: Queue, ID: id, Epoch: broker.AnyEpoch}}}
	results, err := w.store.Operate(w.Context(), op)
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		w.Fatal(err)
	}
}

// waiting is a workflow whose nodes are in every state that a node can wait in: completed, parked, nested.
func waiting() *Workflow {
	return brief(Chain(undoable("first"), Node{Name: "never", Signal: "never"}, node("last"),
		Node{Name: "nested", Workflow: New("").Add(node("inner"))}))
}

// Somebody deletes a workflow's own job. The examination finds what it left, and nothing of other workflows.
func TestExamine_FindsWhatADeletedWorkflowLeft(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("the ID is used again %v", again), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.up()
				w.start(waiting())
				w.run(&Workflow{ID: "other", Retention: time.Hour, parts: []Part{node("a")}}, StateCompleted)
				wf := waiting()
				wf.ID = "lives"
				w.start(wf)
				pass(time.Minute)
				if found := w.examined(true); len(found) > 0 {
					t.Errorf("while all is well: %v", found)
				}
				w.decide(broker.OpDelete, "w")
				if again {
					w.start(waiting())
					pass(time.Minute)
				}
				if found := w.examined(false); len(found) != 3 {
					t.Errorf("at first these are found: %q, want the three that wait", found)
				}
				pass(25 * time.Hour)
				want := []string{"workflow-node-left :undo:first", "workflow-node-left last", "workflow-node-left nested",
					"workflow-record-left first"}
				if found := w.examined(false); !slices.Equal(found, want) {
					t.Errorf("found %q, want %q", found, want)
				}
				for i := range want {
					want[i] += " fixed"
				}
				if found := w.examined(true); !slices.Equal(found, want) {
					t.Errorf("with fix: %q, want %q", found, want)
				}
				if found := w.examined(true); len(found) > 0 {
					t.Errorf("after the repair: %q", found)
				}
				for _, id := range []string{"w", "lives"} {
					if id == "w" && !again {
						continue
					}
					if err := Signal(w.Context(), w.client, id, "never", nil); err != nil {
						t.Fatal(err)
					}
					w.ends(id, StateCompleted)
				}
				pass(3 * time.Hour)
				if again {
					w.nothing("after the repair and the end of the next workflow,")
				}
			})
		})
	}
}

// A workflow whose own job is dead continues after the repair.
func TestExamine_RevivesAWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.up()
		w.start(waiting())
		pass(time.Minute)
		if err := s.Shutdown(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.kill("w")
		if found := w.examined(false); !slices.Equal(found, []string{"workflow-stopped"}) {
			t.Errorf("found %q, want a workflow that has stopped", found)
		}
		if found := w.examined(true); !slices.Equal(found, []string{"workflow-stopped  fixed"}) {
			t.Errorf("with fix: %q", found)
		}
		w.up()
		if err := Signal(w.Context(), w.client, "w", "never", nil); err != nil {
			t.Fatal(err)
		}
		w.ends("w", StateCompleted)
		w.fails("bad")
		w.run(&Workflow{ID: "failed", parts: []Part{node("bad")}}, StateFailed)
		if found := w.examined(true); len(found) > 0 {
			t.Errorf("a workflow that failed by itself: %q", found)
		}
	})
}

// kill makes a workflow's own job dead, as deaths of its servers would.
func (w *world) kill(id string) {
	w.Helper()
	page, err := w.store.Find(w.Context(), broker.Query{Queue: Queue, IDs: []string{id}})
	if err != nil || len(page.Jobs) != 1 {
		w.Fatal(err, page.Jobs)
	}
	dead := page.Jobs[0].Copy()
	w.decide(broker.OpDelete, id)
	dead.RunAt, dead.Restore.State, dead.Restore.Head.Reason = time.Time{}, broker.StateDead, broker.ReasonCrashes
	receipts, err := w.store.Enqueue(w.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{dead}})
	if err != nil || receipts[0].Err != nil {
		w.Fatal(err, receipts)
	}
}

// What only a decision can repair is reported with what to do.
func TestExamine_ReportsWhatItCannotRepair(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, id := range []string{"cancelled", "held"} {
			wf := waiting()
			wf.ID = id
			w.start(wf)
		}
		w.decide(broker.OpCancel, "cancelled")
		w.decide(broker.OpHold, "held")
		want := []string{"workflow-stopped  its job is cancelled", "workflow-stopped  its job is held by a mover"}
		if found := w.examined(true); !slices.Equal(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
		if err := Delete(w.Context(), w.client, "cancelled"); err != nil {
			t.Fatal(err)
		}
		w.decide(broker.OpUnhold, "held")
		if found := w.examined(false); len(found) > 0 {
			t.Errorf("after these decisions: %q", found)
		}
	})
}

// One workflow that cannot be read does not hide what else is found.
func TestExamine_ReportsWhatItCannotRead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plant("graph", `{"v":1,"nodes":[{"n":"a","a":[1]}]}`, "")
		w.plant("cycle", `{"v":1,"nodes":[{"n":"a","a":[0]}]}`, "")
		w.plant("state", `{"v":1,"birth":"b","nodes":[]}`, `{"v":99,"birth":"b"}`)
		w.decide(broker.OpHold, "state")
		w.start(waiting())
		w.decide(broker.OpHold, "w")
		want := []string{"workflow-stopped  its job is held by a mover", "workflow-unreadable", "workflow-unreadable", "workflow-unreadable"}
		if found := w.examined(true); !slices.Equal(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
	})
}

// An examination ends with its caller's interest, and with an error of the store.
func TestExamine_Ends(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(waiting())
		w.decide(broker.OpDelete, "w")
		n := 0
		for range Examine(w.Context(), w.client, false) {
			n++
			break
		}
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		for _, err := range Examine(ctx, w.client, false) {
			if n++; !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled examination gives %v", err)
			}
		}
		for _, err := range Examine(w.Context(), w.client.In(w.store), false) {
			if n++; !errors.Is(err, jobs.ErrInvalid) {
				t.Errorf("with a client of a transaction: %v", err)
			}
		}
		if n != 3 {
			t.Errorf("%d findings and errors, want 3", n)
		}
	})
}
