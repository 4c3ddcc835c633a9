package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/workflow"
)

// nodeTakes is the longest time that a node takes, so that some run at each kill.
const nodeTakes = 100 * time.Millisecond

// nodeRun is a line of JSON that a server prints when a node's run begins and ends.
type nodeRun struct {
	Over     bool   // the handler is about to return
	Workflow string // the outermost one
	Node     string
	Job      string
	Created  int64 // of the job, in microseconds
	Fence    int64
	At       int64 // microseconds of this machine's clock
}

func (r nodeRun) tell(over bool) error {
	r.Over, r.At = over, time.Now().UnixMicro()
	line, err := json.Marshal(r)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	return err
}

func parseNodeRun(line string) (r nodeRun, ok bool) {
	err := json.Unmarshal([]byte(line), &r)
	return r, err == nil && r.Workflow != ""
}

// runNode is the handler of nodes, their compensations and the callbacks. A node's
// result is its name with the results of the nodes directly before it.
func runNode(ctx context.Context, job *jobs.Job) error {
	w := workflow.Of(ctx)
	if w == nil {
		return fmt.Errorf("the job %s belongs to no workflow", job.ID())
	}
	root, _, _ := strings.Cut(strings.ReplaceAll(w.ID(), "/", "."), ".")
	run := nodeRun{Workflow: root, Node: w.Node(), Job: job.ID(), Created: job.CreatedAt().UnixMicro(), Fence: job.Fence()}
	if err := run.tell(false); err != nil {
		return err
	}
	results, err := workflow.Results[string](ctx)
	if err != nil {
		return err
	}
	time.Sleep(rand.N(nodeTakes))
	if w.Node() == "adds" {
		new0, new1 := node("new0"), node("new1")
		for _, n := range []*workflow.Node{&new0, &new1} {
			n.After, n.Before = []string{"adds"}, []string{"last"}
		}
		if err := w.Add(ctx, new0, new1); err != nil {
			return err
		}
	}
	var saw []string
	for _, name := range slices.Sorted(maps.Keys(results)) {
		saw = append(saw, results[name])
	}
	if err := workflow.SetResult(ctx, fmt.Sprintf("%s(%s)", w.Node(), strings.Join(saw, ","))); err != nil {
		return err
	}
	if err := run.tell(true); err != nil {
		return err
	}
	if w.Node() == "bad" {
		return jobs.SkipRetry
	}
	return nil
}
