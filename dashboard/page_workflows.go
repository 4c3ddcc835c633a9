package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/workflow"
)

// workflowsPage lists workflows, one page of the store's list at a time. It does not
// refresh itself: each workflow takes a call to the store.
type workflowsPage struct {
	State  workflow.State
	States []workflow.State
	Rows   []workflowRow
	Read   int    // number of workflows read; Rows are those that match
	Next   string // URL of the next page
	Later  bool   // this is not the first page
}

type workflowRow struct {
	workflow.Info
	All, Completed, Open int // nodes
}

func (h *Handler) workflows(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p := workflowsPage{State: workflow.State(q.Get("state")), States: workflow.States(), Later: q.Get("at") != ""}
	if p.State != "" && !slices.Contains(p.States, p.State) {
		return badRequest("There is no state %q.", text(string(p.State)))
	}
	some, err := workflow.List(r.Context(), h.cfg.Workflows, workflow.ListOptions{Cursor: q.Get("at")})
	if err != nil {
		return err
	}
	p.Read = len(some.Workflows)
	for _, info := range some.Workflows {
		if p.State != "" && info.State != p.State {
			continue
		}
		row := workflowRow{Info: info, Completed: info.Counts[workflow.StateCompleted]}
		for state, n := range info.Counts {
			if row.All += n; !state.Ended() {
				row.Open += n
			}
		}
		p.Rows = append(p.Rows, row)
	}
	slices.SortFunc(p.Rows, func(a, b workflowRow) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID)) })
	if some.Cursor != "" {
		p.Next = link("workflows", "state", string(p.State), "at", some.Cursor)
	}
	return h.view(r, "workflows", "Workflows").still().show(w, r, "workflows", p)
}

// workflowPage shows one workflow: its nodes as a graph and by level.
type workflowPage struct {
	workflow.Info
	Graph     *workflowGraph // nil if only one level is shown, or there are no nodes
	Levels    []workflowLevel
	Level     string // the only level to show; empty means all
	MayCancel bool
	MayRetry  bool
	MayDelete bool
}

// workflowLevel is one level of a workflow: nodes with the same number of levels before
// them.
type workflowLevel struct {
	Number int
	Counts []stateCount
	Nodes  []workflowNode
	Left   int    // number of nodes not shown
	All    string // URL of the whole level, if nodes are left out
}

type stateCount struct {
	State workflow.State
	Count int
}

type workflowNode struct {
	workflow.NodeInfo
	To   string // URL of its job or workflow
	From string // its predecessors
}

// How many nodes of a level are shown, next to other levels and alone. More would make
// a page of megabytes.
const (
	maxLevel      = 50
	maxLevelAlone = 2000
)

func (h *Handler) workflow(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	info, err := workflow.Get(r.Context(), h.cfg.Workflows, q.Get("id"))
	if err != nil {
		return aboutWorkflow(err)
	}
	p := workflowPage{Info: info, Level: q.Get("level"), MayCancel: !info.State.Ended(), MayRetry: info.State == workflow.StateFailed,
		MayDelete: info.State.Ended() && info.Parent == ""}
	p.Levels = levelsOf(&info, p.Level)
	if p.Level != "" && len(p.Levels) == 0 {
		return notFound("There is no such level.")
	}
	if zoom := q.Get("zoom"); p.Level == "" && len(info.Nodes) > 0 {
		percent, err := strconv.Atoi(cmp.Or(zoom, "0"))
		if err != nil || zoom != "" && !slices.Contains(zooms, percent) {
			return badRequest("There is no zoom %q.", text(zoom))
		}
		p.Graph = graphOf(&info, percent)
	}
	return h.view(r, "workflows", "Workflow "+text(info.ID)).show(w, r, "workflow", p)
}

// levelsOf groups nodes by level. Within a level, nodes that have not ended come first.
func levelsOf(info *workflow.Info, only string) []workflowLevel {
	byLevel := make(map[int][]workflow.NodeInfo)
	for _, n := range info.Nodes {
		byLevel[n.Level] = append(byLevel[n.Level], n)
	}
	var levels []workflowLevel
	for number := range len(byLevel) {
		if only != "" && only != strconv.Itoa(number) {
			continue
		}
		nodes := byLevel[number]
		slices.SortStableFunc(nodes, func(a, b workflow.NodeInfo) int { return cmp.Compare(rank(a.State), rank(b.State)) })
		l := workflowLevel{Number: number}
		for _, n := range nodes {
			if k := len(l.Counts); k == 0 || l.Counts[k-1].State != n.State {
				l.Counts = append(l.Counts, stateCount{State: n.State})
			}
			l.Counts[len(l.Counts)-1].Count++
		}
		most := maxLevel
		if only != "" {
			most = maxLevelAlone
		}
		if l.Left = len(nodes) - most; l.Left > 0 {
			nodes, l.All = nodes[:most], link("workflow", "id", info.ID, "level", strconv.Itoa(number))
		}
		for _, n := range nodes {
			l.Nodes = append(l.Nodes, workflowNode{n, nodeLink(&n), strings.Join(slices.Concat(n.After, n.AfterAny), ", ")})
		}
		levels = append(levels, l)
	}
	return levels
}

// nodeLink returns the URL of a node's job or workflow, or "" if it has none.
func nodeLink(n *workflow.NodeInfo) string {
	switch {
	case n.Workflow != "":
		return link("workflow", "id", n.Workflow)
	case n.JobID != "":
		return link("job", "queue", n.Queue, "id", n.JobID)
	}
	return ""
}

// rank orders states by how much attention they need.
func rank(s workflow.State) string {
	order := []workflow.State{workflow.StateDead, workflow.StateGone, workflow.StateExpired, workflow.StateCancelled,
		"retry", "active", workflow.StateRunning, "pending", "scheduled", workflow.StateStarted,
		workflow.StateWaiting, workflow.StateSkipped, workflow.StateCompleted}
	return fmt.Sprintf("%02d%s", slices.Index(order, s)+1, s)
}

// aboutWorkflow rewords errors that name a job, as a workflow is stored as one.
func aboutWorkflow(err error) error {
	var e *broker.Error
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return notFound("There is no such workflow.")
	case errors.Is(err, broker.ErrWrongState) && errors.As(err, &e) && e.Hint != "":
		return &pageError{http.StatusConflict, "Refused: " + text(e.Hint) + "."}
	}
	return err
}

// decideWorkflow carries out a decision about the workflow in the URL.
func (h *Handler) decideWorkflow(w http.ResponseWriter, r *http.Request) error {
	return h.decideOne(w, r, ActionWorkflow, "workflow", func(ctx context.Context, id, verb, who string) (string, error) {
		client := h.cfg.Workflows
		switch verb {
		case "cancel":
			return "will be cancelled.", workflow.Cancel(ctx, client, id, who)
		case "retry":
			return "goes on.", workflow.Retry(ctx, client, id)
		case "delete":
			return "is deleted.", workflow.Delete(ctx, client, id)
		}
		return "", errNoVerb
	}, aboutWorkflow)
}
