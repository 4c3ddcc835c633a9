package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// Info describes a workflow.
type Info struct {
	ID       string        `json:"id"`
	Parent   string        `json:"parent,omitempty"` // the workflow that it is a node of
	State    State         `json:"state"`
	Cause    string        `json:"cause,omitempty"` // why it failed, is stopping or was cancelled
	Created  time.Time     `json:"created"`
	Ended    time.Time     `json:"ended,omitzero"`
	Deadline time.Time     `json:"deadline,omitzero"`
	Counts   map[State]int `json:"counts"`          // of nodes
	Nodes    []NodeInfo    `json:"nodes,omitempty"` // in topological order; List leaves them out
}

// NodeInfo describes a node.
type NodeInfo struct {
	Name     string   `json:"name"`
	State    State    `json:"state"`
	Level    int      `json:"level"` // the length of the longest chain of nodes before it
	After    []string `json:"after,omitempty"`
	AfterAny []string `json:"after_any,omitempty"`
	OnDead   OnDead   `json:"on_dead"`
	AddedBy  string   `json:"added_by,omitempty"` // the node whose handler added it

	Queue    string `json:"queue,omitempty"`    // of its job
	JobID    string `json:"job_id,omitempty"`   //
	Workflow string `json:"workflow,omitempty"` // its ID, if the node is a workflow
	Signal   string `json:"signal,omitempty"`
	Attempt  int    `json:"attempt,omitempty"` // failures of its job
	Error    string `json:"error,omitempty"`   // the last one
	// Finished is when its job ended.
	Finished time.Time `json:"finished,omitzero"`
	// Compensation is the state of its compensation; empty if it has none.
	Compensation State `json:"compensation,omitempty"`
}

// Get describes a workflow and its nodes. The error is ErrNotFound if the
// workflow does not exist.
func Get(ctx context.Context, client *jobs.Client, id string) (Info, error) {
	var info Info
	err := with(ctx, client, "get workflow", id, func(s store) error {
		w, err := s.load(ctx, id)
		if err != nil {
			return err
		}
		info = w.summary()
		info.Nodes, err = s.nodes(ctx, w)
		clear(info.Counts)
		for i := range info.Nodes {
			info.Counts[info.Nodes[i].State]++
		}
		return err
	})
	return info, err
}

// whole returns the state of the workflow.
func (w *stored) whole() State {
	if w.job.State.Final() {
		return stateOfJob(w.job.State)
	}
	switch w.state.Phase {
	case phaseStarting, phaseAborted:
		return StateStarting
	case phaseParked:
		return StateWaiting
	case phaseStopping:
		return StateStopping
	case phaseUndoing:
		return StateCompensating
	}
	return StateRunning
}

func (w *stored) summary() Info {
	info := Info{ID: w.job.ID, Parent: w.graph.Parent, State: w.whole(), Cause: w.state.Cause, Created: w.job.CreatedAt,
		Ended: w.job.FinishedAt, Deadline: w.graph.Deadline, Counts: make(map[State]int)}
	if info.Cause == "" && w.job.State.Final() && w.job.State != broker.StateCompleted {
		info.Cause = w.job.Errors.Last().Message
	}
	for _, e := range w.state.Ends {
		info.Counts[stateOfNode(e)]++
	}
	return info
}

// nodeStates are the states of nodes as far as the workflow knows them.
var nodeStates = map[byte]State{
	endWaiting: StateWaiting, endLetGo: StateStarted, endAgain: StateStarted, endCompleted: StateCompleted,
	endDead: StateDead, endCancelled: StateCancelled, endGone: StateGone, endExpired: StateExpired, endSkipped: StateSkipped,
}

// stateOfNode returns the state of a node. A byte that this program does not know is of a newer one.
func stateOfNode(e byte) State {
	if s, ok := nodeStates[e]; ok {
		return s
	}
	return StateUnknown
}

// nodes describes the nodes of a workflow.
func (s store) nodes(ctx context.Context, w *stored) ([]NodeInfo, error) {
	g := w.graph
	var refs []broker.Ref
	for i := range g.Nodes {
		if g.Nodes[i].Queue > 0 {
			refs = append(refs, g.ref(i))
		}
		if g.Nodes[i].Undo > 0 && len(w.state.Undo) > 0 {
			refs = append(refs, g.undoRef(i))
		}
	}
	found := make(map[string]*broker.Job, len(refs))
	if err := s.look(ctx, refs, false, func(job *broker.Job) { found[job.ID] = job }); err != nil {
		return nil, err
	}
	level := make([]int, len(g.Nodes))
	infos := make([]NodeInfo, 0, len(g.Nodes))
	for _, i := range g.topo {
		v := &g.Nodes[i]
		info := NodeInfo{Name: v.Name, State: stateOfNode(w.state.Ends[i]), OnDead: v.OnDead, Signal: v.Signal}
		if info.OnDead == "" {
			info.OnDead = Fail
		}
		if g.by[i] >= 0 {
			info.AddedBy = g.Nodes[g.by[i]].Name
		}
		for _, j := range v.After {
			info.After = append(info.After, g.Nodes[j].Name)
			level[i] = max(level[i], level[j]+1)
		}
		for _, j := range v.Any {
			info.AfterAny = append(info.AfterAny, g.Nodes[j].Name)
			level[i] = max(level[i], level[j]+1)
		}
		info.Level = level[i]
		if v.Queue > 0 {
			info.describe(g, i, found[g.ref(i).ID])
		}
		if v.Undo > 0 {
			info.Compensation = StateWaiting
			if job := found[g.undoID(i)]; job != nil && !job.RunAt.Equal(parked.Until) {
				info.Compensation = State(job.State.String())
			}
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// describe adds what a node's job says.
func (n *NodeInfo) describe(g *graph, i int, job *broker.Job) {
	ref := g.ref(i)
	if n.Queue, n.JobID = ref.Queue, ref.ID; g.nested(i) {
		n.Workflow = ref.ID
	}
	if job == nil {
		return
	}
	n.Attempt, n.Error, n.Finished = job.Failures, job.Errors.Last().Message, job.FinishedAt
	switch {
	case n.State != StateStarted && (n.State != StateWaiting || job.RunAt.Equal(parked.Until)):
	case g.nested(i) && n.State == StateWaiting:
	case g.nested(i) && !job.State.Final():
		n.State = StateRunning
	default:
		n.State = State(job.State.String())
	}
}

// Page is a part of the workflows of a store.
type Page struct {
	Workflows []Info `json:"workflows"`
	Cursor    string `json:"cursor,omitempty"` // of the next page; empty at the end
}

// ListOptions select workflows.
type ListOptions struct {
	Nested bool   // select nested workflows instead of the others
	Cursor string // of the previous page
	Limit  int    // how many workflows to look at; 0 means 100, the maximum is 1000
}

// List describes workflows, without their nodes, in any order. A workflow that
// exists during the whole listing appears at least once. Counts are what the
// workflow knows: nodes whose jobs were let go count as started.
func List(ctx context.Context, client *jobs.Client, o ListOptions) (Page, error) {
	s, err := open(ctx, client)
	if err != nil {
		return Page{}, about(err, "list workflows", "")
	}
	key := keyWorkflow
	if o.Nested {
		key = keyNested
	}
	found, err := s.Find(ctx, broker.Query{Queue: Queue, Key: key, Suppressed: true, Cursor: o.Cursor, Limit: o.Limit, NoPayload: true})
	if err != nil {
		return Page{}, about(err, "list workflows", "")
	}
	page := Page{Workflows: make([]Info, len(found.Jobs)), Cursor: found.Cursor}
	err = reserved.All(len(found.Jobs), func(i int) (err error) {
		page.Workflows[i], err = s.brief(ctx, &found.Jobs[i])
		return err
	})
	return page, about(err, "list workflows", "")
}

// brief describes a workflow without its graph. If its state cannot be read, the Cause says so: the others
// are listed all the same.
func (s store) brief(ctx context.Context, job *broker.Job) (Info, error) {
	w := &stored{job: job, graph: &graph{Parent: job.Headers[HeaderWorkflow]}}
	w.state.Phase = w.graph.first()
	_, err := s.states().Peek(ctx, job.ID, &w.state)
	info := w.summary()
	if errors.Is(err, broker.ErrMalformed) || errors.Is(err, broker.ErrNewerForm) {
		info.Cause, err = err.Error(), nil
	}
	return info, err
}
