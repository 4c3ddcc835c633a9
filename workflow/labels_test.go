package workflow

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func TestWorkflow_NodesRunOnServersThatHaveTheirLabels(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		queue := ""
		for _, node := range []string{"trained", "tried"} {
			w.on(node, func(_ context.Context, j *jobs.Job) error { queue += j.Queue() + " "; return nil })
		}
		w.start(New("w").Add(
			Node{Name: "trained", Task: jobs.NewTask("train", nil, jobs.WithLabels("gpu"))},
			Node{Name: "tried", Task: jobs.NewTask("try", nil, jobs.WithPartitionKey("acme"), jobs.WithLabelShare("canary", 100)),
				After: []string{"trained"}},
		))
		pass(time.Minute)
		if queue != "" {
			w.Errorf("nodes ran in %s without a server that has their labels", queue)
		}
		w.serve(w.store, jobs.Config{Labels: []string{"gpu", "canary"}})
		pass(time.Minute)
		if queue != "default+gpu default+canary " {
			w.Errorf("the nodes ran in %s, want default+gpu and default+canary", queue)
		}
		err := Start(w.Context(), w.client, New("keyless").Add(Node{Name: "a",
			Task: jobs.NewTask("try", nil, jobs.WithLabelShare("canary", 10))}))
		if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "needs a key") {
			w.Errorf("a share of nodes without keys: %v", err)
		}
	})
}
