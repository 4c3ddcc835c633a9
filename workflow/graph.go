package workflow

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// graph is the stored form of a workflow, the payload of its job, and of nodes
// that a handler adds. It does not contain the tasks: they are stored as jobs.
type graph struct {
	Version   int               `json:"v"`
	Birth     string            `json:"birth,omitempty"`  // random: tells this workflow from others with the same ID
	Prefix    string            `json:"prefix,omitempty"` // of the IDs of its jobs
	Parent    string            `json:"parent,omitempty"`
	Deadline  time.Time         `json:"deadline,omitzero"`
	Retention reserved.Duration `json:"retention,omitzero"`
	Queues    []string          `json:"queues,omitempty"`
	Calls     []call            `json:"calls,omitempty"`
	By        string            `json:"by,omitempty"`   // of an addition: the node that made it
	Refs      []string          `json:"refs,omitempty"` // of an addition: existing nodes that its edges name
	Nodes     []vertex          `json:"nodes"`

	names map[string]int
	topo  []int   // the nodes in topological order
	kids  [][]int // by node: the nodes that name it in After
	more  []int   // by node: how many nodes name it in AfterAny
	by    []int   // by node: the node that added it, or -1
}

// call is a callback.
type call struct {
	When  string `json:"when"`
	Queue int    `json:"q"`
}

// Names of the callbacks' jobs.
const (
	whenSuccess = ":success"
	whenFailure = ":failure"
	whenEnded   = ":end"
)

// vertex is a node. It names other nodes by index; in an addition, -1, -2 and so
// on are the entries of Refs. It names queues by index, from 1.
type vertex struct {
	Name   string            `json:"n"`
	Queue  int               `json:"q,omitempty"` // of its job; 0 means that it has none
	After  []int             `json:"a,omitempty"`
	Any    []int             `json:"e,omitempty"`
	Before []int             `json:"b,omitempty"` // of an addition only
	OnDead OnDead            `json:"d,omitempty"` // empty means Fail
	Undo   int               `json:"u,omitempty"` // the queue of its compensation
	Signal string            `json:"s,omitempty"`
	Within reserved.Duration `json:"w,omitempty"`
	Delay  reserved.Duration `json:"t,omitempty"`
	At     time.Time         `json:"at,omitzero"`
}

const graphVersion = 1

// decode reads a graph.
func decode(payload []byte) (*graph, error) {
	g := new(graph)
	if err := reserved.Decode(payload, "graph", graphVersion, g); err != nil {
		return nil, err
	}
	refs := len(g.Refs)
	if g.By == "" { // only an addition has them
		refs = 0
	}
	for i := range g.Nodes {
		v := &g.Nodes[i]
		if v.Queue < 0 || v.Queue > len(g.Queues) || v.Undo < 0 || v.Undo > len(g.Queues) {
			return nil, fmt.Errorf("%w: the graph: node %q has no queue", broker.ErrMalformed, v.Name)
		}
		for _, edges := range [][]int{v.After, v.Any, v.Before} {
			for _, j := range edges {
				if j >= len(g.Nodes) || j < -refs {
					return nil, nowhere(v)
				}
			}
		}
	}
	for _, c := range g.Calls {
		if c.Queue < 1 || c.Queue > len(g.Queues) {
			return nil, fmt.Errorf("%w: the graph: the callback %s has no queue", broker.ErrMalformed, c.When)
		}
	}
	return g, nil
}

func nowhere(v *vertex) error {
	return fmt.Errorf("%w: the graph: node %q has an edge to nowhere", broker.ErrMalformed, v.Name)
}

// queue returns the index of a queue, from 1, and adds the queue if it is new.
func (g *graph) queue(name string) int {
	for i, q := range g.Queues {
		if q == name {
			return i + 1
		}
	}
	g.Queues = append(g.Queues, name)
	return len(g.Queues)
}

// jobID returns the ID of the job of a node or callback.
func (g *graph) jobID(name string) string { return g.Prefix + "/" + name }

func (g *graph) undoID(i int) string { return g.Prefix + "/" + undoName(g.Nodes[i].Name) }

func undoName(node string) string { return ":undo:" + node }

func (g *graph) ref(i int) broker.Ref {
	return broker.Ref{Queue: g.Queues[g.Nodes[i].Queue-1], ID: g.jobID(g.Nodes[i].Name)}
}

func (g *graph) undoRef(i int) broker.Ref {
	return broker.Ref{Queue: g.Queues[g.Nodes[i].Undo-1], ID: g.undoID(i)}
}

// nested reports whether a node is a workflow.
func (g *graph) nested(i int) bool {
	q := g.Nodes[i].Queue
	return q > 0 && g.Queues[q-1] == Queue
}

// link computes the fields that are not stored. If there is a cycle, the error
// names its nodes. Only an addition, which merge replaces by nodes, may name nodes by Refs.
func (g *graph) link() error {
	n := len(g.Nodes)
	g.names, g.kids, g.more = make(map[string]int, n), make([][]int, n), make([]int, n)
	for len(g.by) < n {
		g.by = append(g.by, -1)
	}
	left, followers := make([]int, n), make([][]int, n)
	for i := range g.Nodes {
		v := &g.Nodes[i]
		for _, edges := range [][]int{v.After, v.Any} {
			if len(edges) > 0 && slices.Min(edges) < 0 {
				return nowhere(v)
			}
		}
		g.names[v.Name] = i
		for _, j := range v.After {
			g.kids[j] = append(g.kids[j], i)
			followers[j] = append(followers[j], i)
		}
		for _, j := range v.Any {
			g.more[j]++
			followers[j] = append(followers[j], i)
		}
		left[i] = len(v.After) + len(v.Any)
	}
	g.topo = make([]int, 0, n)
	for i, before := range left {
		if before == 0 {
			g.topo = append(g.topo, i)
		}
	}
	for k := 0; k < len(g.topo); k++ {
		for _, i := range followers[g.topo[k]] {
			if left[i]--; left[i] == 0 {
				g.topo = append(g.topo, i)
			}
		}
	}
	if len(g.topo) < n {
		return g.cycle(left)
	}
	return nil
}

// cycle returns an error that names the nodes of a cycle. left has for each node
// how many of its predecessors are on a cycle, or come after one.
func (g *graph) cycle(left []int) error {
	at := 0
	for left[at] == 0 {
		at++
	}
	var path []int
	seen := make(map[int]int)
	for {
		if start, ok := seen[at]; ok {
			path = path[start:]
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		for _, before := range [][]int{g.Nodes[at].After, g.Nodes[at].Any} {
			for _, j := range before {
				if left[j] > 0 {
					at = j
				}
			}
		}
	}
	text := ""
	for k := len(path) - 1; k >= 0; k-- {
		text += fmt.Sprintf("%q, ", g.Nodes[path[k]].Name)
	}
	return broker.Invalid("node "+g.Nodes[path[0]].Name, "comes after itself: %sand again; remove one of these edges", text)
}

// merge adds the nodes of an addition. It skips nodes whose names exist already. After the last addition,
// the caller calls link.
func (g *graph) merge(add *graph) error {
	by, ok := g.names[add.By]
	if !ok {
		return fmt.Errorf("%w: an addition comes from the node %q, which does not exist", broker.ErrMalformed, add.By)
	}
	refs := make([]int, len(add.Refs))
	for k, name := range add.Refs {
		if refs[k], ok = g.names[name]; !ok {
			return fmt.Errorf("%w: an addition names the node %q, which does not exist", broker.ErrMalformed, name)
		}
	}
	place, fresh := make([]int, len(add.Nodes)), make([]bool, len(add.Nodes))
	next := len(g.Nodes)
	for k := range add.Nodes {
		if place[k], ok = g.names[add.Nodes[k].Name]; !ok {
			place[k], fresh[k] = next, true
			next++
		}
	}
	moved := func(edges []int) []int {
		var to []int
		for _, j := range edges {
			if j < 0 {
				to = append(to, refs[-1-j])
			} else {
				to = append(to, place[j])
			}
		}
		return to
	}
	queue := func(q int) int {
		if q == 0 {
			return 0
		}
		return g.queue(add.Queues[q-1])
	}
	for k := range add.Nodes {
		if !fresh[k] {
			continue
		}
		v := add.Nodes[k]
		v.Queue, v.Undo, v.After, v.Any = queue(v.Queue), queue(v.Undo), moved(v.After), moved(v.Any)
		g.names[v.Name] = len(g.Nodes)
		g.Nodes, g.by = append(g.Nodes, v), append(g.by, by)
	}
	for k := range add.Nodes {
		for _, j := range moved(add.Nodes[k].Before) {
			if fresh[k] {
				g.Nodes[j].After = append(g.Nodes[j].After, place[k])
			}
		}
	}
	return nil
}
