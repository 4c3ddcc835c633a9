package workflow

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// plantRecord stores a job as a workflow, with any graph and any state.
func plantRecord(t *testing.T, w *world, id, graph, state string) {
	t.Helper()
	body := broker.Body{Type: typeWorkflow, TypeVersion: graphVersion, Key: keyWorkflow, Priority: broker.PriorityNormal,
		Payload: []byte(graph)}
	receipts, err := w.store.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: Queue, ID: id, Body: body}}})
	if err == nil {
		err = receipts[0].Err
	}
	if err == nil && state != "" {
		_, err = w.store.Mark(t.Context(), broker.MarkRequest{Action: broker.MarkTake, Name: "workflow:" + id, Owner: "workflow",
			TTL: broker.MaxDelay, Value: []byte(state)})
	}
	if err != nil {
		t.Fatal(err)
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
			plantRecord(w.T, w, id, graph, "")
			if _, err := Get(w.Context(), w.client, id); !errors.Is(err, broker.ErrMalformed) && !errors.Is(err, broker.ErrInvalid) {
				w.Errorf("%s: Get answers %v, want ErrMalformed, or ErrInvalid for a cycle", id, err)
			}
		}
	})
}

func TestList_AStateThatCannotBeReadHidesNoOtherWorkflow(t *testing.T) {
	inWorld(t, func(w *world) {
		const graph = `{"v":1,"birth":"b","nodes":[]}`
		plantRecord(w.T, w, "broken", graph, `{"v":1,`)
		plantRecord(w.T, w, "newer", graph, `{"v":99,"birth":"b","phase":"running","cause":"later"}`)
		plantRecord(w.T, w, "sound", graph, `{"v":1,"birth":"b","phase":"running"}`)
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
