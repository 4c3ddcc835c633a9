package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/workflow"
)

// The defaults take a few seconds. The long form is
//
//	go test ./internal/integration -run 'Workflow_ServersAreKilled/redis' -v -timeout 30m \
//		-workflows 10m -workflow-count 10000 -fleet-kills 2s -fleet-lease 5s
var (
	workflowsFor  = flag.Duration("workflows", 6*time.Second, "for how long workflows are started while servers are killed")
	workflowCount = flag.Int("workflow-count", 60, "how many workflows there are")
)

// mortalShape is a workflow to run while servers are killed.
type mortalShape struct {
	make   func(w *workflow.Workflow)
	runs   []string // sequences of nodes that run one after another; together they name every node that runs
	result string   // of the workflow; empty if it fails
}

var mortalShapes = map[string]mortalShape{
	"saga": {func(w *workflow.Workflow) {
		w.Add(workflow.Chain(undo("a"), undo("b"), node("bad"), undo("never")))
		w.OnFailure, w.OnSuccess = jobs.NewTask("node", nil), jobs.NewTask("node", nil)
	}, []string{"a b bad :undo:b :undo:a :failure"}, ""},
	"chord": {func(w *workflow.Workflow) {
		w.Add(workflow.Chord(node("join"), node("x"), node("y"), node("z")))
		w.OnFailure, w.OnSuccess = jobs.NewTask("node", nil), jobs.NewTask("node", nil)
	}, []string{"x join :success", "y join", "z join"}, "join(x(),y(),z())"},
	"nested": {func(w *workflow.Workflow) {
		inner := workflow.New("").Add(workflow.Chord(node("join"), node("x"), node("y")))
		w.Add(workflow.Chain(node("a"), workflow.Node{Name: "n", Workflow: inner}, node("last")))
	}, []string{"a x join last", "a y join last"}, "last(join(x(),y()))"},
	"signal": {func(w *workflow.Workflow) {
		w.Add(workflow.Chain(node("a"), workflow.Node{Name: "go", Signal: "go"}, node("last")))
	}, []string{"a last"}, "last(yes)"},
	"dynamic": {func(w *workflow.Workflow) {
		w.Add(workflow.Chain(node("adds"), node("last")))
	}, []string{"adds new0 last", "adds new1 last"}, "last(adds(),new0(adds()),new1(adds()))"},
}

// Five server processes run workflows of all shapes. They are killed at random and
// replaced, and some answers of the store are lost. Every workflow ends as it
// must, and its joins see all results. Each node is one job, which begins after
// the jobs of the nodes before it, and at most once per lease.
func TestWorkflow_ServersAreKilled(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		w := &witness{runs: make(map[string]map[string][]nodeRun)}
		w.fleet = startFleet(t, s.url, roleWorkflows, w.hear)
		started := make(map[string]mortalShape) // by ID
		var starting sync.WaitGroup
		end := time.Now().Add(*workflowsFor)
		starting.Go(func() { startMortal(t, s, started, end) })
		kills := w.killUntil(end)
		starting.Wait()

		calm := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), fleetCalm+*workflowsFor/10)
		defer cancel()
		for id, shape := range started {
			got, err := workflow.Await[string](ctx, s.client, id)
			if dead := shape.result == ""; dead != errors.Is(err, jobs.ErrDead) || !dead && err != nil || got != shape.result {
				info, _ := workflow.Get(t.Context(), s.client, id)
				t.Errorf("%s gives %q, %v; want %q; it is %+v", id, got, err, shape.result, info)
			}
		}
		left := s.unfinished(t)
		for ; len(left) > 0 && ctx.Err() == nil; left = s.unfinished(t) { // the callbacks
			time.Sleep(100 * time.Millisecond)
		}
		if len(left) > 0 {
			t.Errorf("the workflows have ended, and these jobs have not: %v", left)
		}
		took := time.Since(calm)
		time.Sleep(2 * *fleetLease) // for runs that must not happen
		w.killAll()
		again, crashes := w.check(s, started)
		w.showLogs()
		t.Logf("%d workflows, %d servers, %d kills; all had ended %v after the last; nodes ran %d times again, and had %d crashes", len(started),
			fleetSize, kills, took.Round(time.Millisecond), again, crashes)
	})
}

// startMortal starts workflows of all shapes in turn, evenly until end.
func startMortal(t *testing.T, s *store, started map[string]mortalShape, end time.Time) {
	names := slices.Sorted(maps.Keys(mortalShapes))
	apart := time.Until(end) / time.Duration(*workflowCount)
	for i := range *workflowCount {
		name := names[i%len(names)]
		wf := workflow.New(fmt.Sprintf("%s-%05d", name, i))
		mortalShapes[name].make(wf)
		signal := func() error {
			if name != "signal" {
				return nil
			}
			return workflow.Signal(t.Context(), s.client, wf.ID, "go", []byte(`"yes"`))
		}
		start := func() error { return workflow.Start(t.Context(), s.client, wf) }
		steps := []func() error{start, signal}
		if i%2 == 0 { // a signal can be sent before its workflow starts
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				t.Errorf("starting %s: %v", wf.ID, err)
				return
			}
		}
		started[wf.ID] = mortalShapes[name]
		time.Sleep(apart)
	}
}

// unfinished returns the jobs of nodes that have not ended.
func (s *store) unfinished(t *testing.T) (ids []string) {
	t.Helper()
	for _, state := range broker.States() {
		if state.Final() {
			continue
		}
		page, err := s.client.Broker().Find(t.Context(), broker.Query{Queue: queue, State: state, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID+" "+j.State.String())
		}
	}
	return ids
}

// witness records the runs of nodes.
type witness struct {
	*fleet
	runs      map[string]map[string][]nodeRun // what the servers printed, by workflow and node
	uncharged []string                        // nodes that ran again without a charge to their jobs
}

func (w *witness) hear(line string) bool {
	r, ok := parseNodeRun(line)
	if !ok {
		return false
	}
	if w.runs[r.Workflow] == nil {
		w.runs[r.Workflow] = make(map[string][]nodeRun)
	}
	w.runs[r.Workflow][r.Node] = append(w.runs[r.Workflow][r.Node], r)
	return true
}

// first returns when a node first began, or first ended; zero if it never did.
func (w *witness) first(id, node string, over bool) (at int64) {
	for _, r := range w.runs[id][node] {
		if r.Over == over && (at == 0 || r.At < at) {
			at = r.At
		}
	}
	return at
}

// check compares the runs with those that were expected, and with the store's
// records.
func (w *witness) check(s *store, started map[string]mortalShape) (again, crashes int) {
	w.t.Helper()
	for id, shape := range started {
		wanted := make(map[string]bool)
		for _, line := range shape.runs {
			before := ""
			for _, node := range strings.Fields(line) {
				wanted[node] = true
				switch began := w.first(id, node, false); {
				case began == 0:
					w.t.Errorf("%s: the node %s never ran", id, node)
				case before == "":
				case w.first(id, before, true) == 0 || w.first(id, before, true) > began:
					w.t.Errorf("%s: the node %s began before %s had ended", id, node, before)
				}
				before = node
			}
		}
		for node, told := range w.runs[id] {
			if !wanted[node] {
				w.t.Errorf("%s: the node %s ran, and must not", id, node)
				continue
			}
			more, crashed := w.checkNode(s, id, node, told)
			again, crashes = again+more, crashes+crashed
		}
	}
	w.checkUncharged()
	return again, crashes
}

// checkNode checks the runs of one node. It returns how often the node ran again,
// and how many crashes its job has.
func (w *witness) checkNode(s *store, id, node string, told []nodeRun) (again, crashes int) {
	w.t.Helper()
	job := s.job(w.t, told[0].Job)
	fences := make(map[int64]bool)
	for _, r := range told {
		if r.Job != job.ID || r.Created != job.CreatedAt.UnixMicro() {
			w.t.Errorf("%s: the node %s became two jobs: %s, created at %v, and %s, created at %v", id, node,
				job.ID, job.CreatedAt, r.Job, time.UnixMicro(r.Created).UTC())
		}
		switch {
		case r.Over:
		case fences[r.Fence]:
			w.t.Errorf("%s: the node %s began twice under one lease, %d", id, node, r.Fence)
		default:
			fences[r.Fence] = true
		}
	}
	want := broker.StateCompleted
	if node == "bad" {
		want = broker.StateDead
	}
	if job.State != want || len(fences) > job.Deliveries {
		w.t.Errorf("%s: the node %s began %d times; its job is %v after %d deliveries, want %v", id, node, len(fences), job.State,
			job.Deliveries, want)
	}
	again = len(fences) - 1
	if again > job.Failures && job.Crashes == 0 { // the second and later crashes are charged only if the handler is known to have begun
		w.uncharged = append(w.uncharged, fmt.Sprintf("%s/%s ran %d times with %d failures and no crash", id, node, len(fences), job.Failures))
	}
	return again, job.Crashes
}

var handedBack = regexp.MustCompile(`msg="jobs: the worker was lost.* handlers=(\d+)|` +
	`msg="jobs: the store's leases differed.* released=(\d+)`)

// checkUncharged fails if more nodes ran again without a charge than live servers
// handed back. Servers hand back runs, without a charge, after they lost their
// leases or the answer to a claim.
func (w *witness) checkUncharged() {
	w.t.Helper()
	excused := 0
	for line, times := range w.logged {
		if m := handedBack.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1] + m[2])
			excused += n * times
		}
	}
	if len(w.uncharged) > excused {
		w.t.Errorf("live servers handed back %d runs, and these nodes ran again without a charge: %q", excused, w.uncharged)
	}
}
