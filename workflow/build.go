package workflow

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"hash"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

const (
	maxName  = 100    // bytes of an ID and of a node's name
	maxNodes = 20_000 // of one workflow: a run looks at this many in a few tenths of a second

	defaultRetention = 24 * time.Hour
	// Records of workflows and nodes stay until the sweep deletes them, however late it runs: it needs the
	// record of the workflow to find those of the nodes.
	untilSwept time.Duration = broker.MaxDelay
)

// Headers of the jobs of a workflow; see Of.
const (
	HeaderWorkflow = parked.HeaderWorkflow // the workflow's ID
	HeaderNode     = parked.HeaderNode     // the node's name
)

// plan is a checked workflow: its graph and the jobs to store.
type plan struct {
	id      string
	graph   *graph
	parcels []parcel
	nested  map[string]*plan // by the node's name
}

// parcel is a job to store.
type parcel struct {
	name  string // a node's, a callback's, or one from undoName
	queue string
	task  *jobs.Task
}

// builder builds plans for a client.
type builder struct {
	client *jobs.Client
	limits broker.Limits
	depth  int
	sum    hash.Hash // of the jobs; nil for an addition
}

// plan checks a workflow and returns its plan.
func (b builder) plan(w *Workflow, id string) (*plan, error) {
	p := &plan{id: id, graph: &graph{Version: graphVersion, Deadline: reserved.When(w.Deadline), Retention: reserved.Duration(w.Retention)}}
	if p.graph.Retention == 0 {
		p.graph.Retention = reserved.Duration(defaultRetention)
	}
	if err := broker.CheckTime("Deadline", w.Deadline); err != nil {
		return nil, err
	}
	if err := broker.CheckDuration("Retention", w.Retention); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		when string
		task *jobs.Task
	}{{whenSuccess, w.OnSuccess}, {whenFailure, w.OnFailure}, {whenEnded, w.OnEnd}} {
		if c.task == nil {
			continue
		}
		q, err := b.parcel(p, c.when, c.task)
		if err != nil {
			return nil, inNode(c.when, err)
		}
		p.graph.Calls = append(p.graph.Calls, call{When: c.when, Queue: q})
	}
	nodes := Group(w.parts...).nodes()
	if err := b.vertices(p, nodes, &graph{}); err != nil {
		return nil, err
	}
	if err := p.graph.link(); err != nil {
		return nil, err
	}
	p.give(b.birth())
	if size := len(reserved.Encode(p.graph)); size > b.limits.PayloadLimit() {
		return nil, &broker.Error{Field: "nodes", Err: broker.ErrTooLarge, Hint: fmt.Sprintf(
			"%d nodes with %d edges make a graph of %d bytes, the limit is %d; %s, use shorter names, or nest workflows",
			len(nodes), countEdges(nodes), size, b.limits.PayloadLimit(), joinHint)}
	}
	return p, nil
}

// birth returns a new birth: random, and then a digest of the jobs, by which Start tells its own workflow, which it may
// continue, from another one with the same graph.
func (b builder) birth() string {
	text := rand.Text()[:birthRandom]
	if b.sum != nil {
		text += base32.StdEncoding.EncodeToString(b.sum.Sum(nil)[:5])
	}
	return strings.ToLower(text)
}

const birthRandom = 7 // bytes

// digest returns the digest of the jobs in a birth.
func (g *graph) digest() string { return g.Birth[min(birthRandom, len(g.Birth)):] }

// give sets the birth of a workflow and of the workflows nested in it. It also sets the prefixes and IDs
// that depend on the birth.
func (p *plan) give(birth string) {
	p.graph.Birth = birth
	if p.graph.Prefix = p.id; p.graph.Parent == "" {
		p.graph.Prefix = p.id + "." + birth
	}
	for name, inner := range p.nested {
		inner.id, inner.graph.Parent = p.graph.jobID(name), p.id
		inner.give(birth)
	}
}

// maxNestedID leaves room for the IDs of the nodes and signals of a nested
// workflow.
const maxNestedID = 140

// checkIDs refuses nested workflows whose IDs are too long.
func (p *plan) checkIDs() error {
	for name, inner := range p.nested {
		if len(inner.id) > maxNestedID {
			return broker.Invalid("node "+name, "is a workflow with an ID of %d bytes, %q, the limit is %d; shorten the names that it is made of",
				len(inner.id), short(inner.id, 40), maxNestedID)
		}
		if err := inner.checkIDs(); err != nil {
			return inNode(name, err)
		}
	}
	return nil
}

// joinHint says how to have fewer edges.
const joinHint = "put a join, which is a node without a task, between large groups"

// edgeSize is how many bytes of a stored graph an edge takes at least.
const edgeSize = 2

func countEdges(nodes []Node) (n int) {
	for i := range nodes {
		n += len(nodes[i].After) + len(nodes[i].AfterAny) + len(nodes[i].Before)
	}
	return n
}

// vertices checks nodes and adds them to the graph of p, which is an addition to known.
func (b builder) vertices(p *plan, nodes []Node, known *graph) error {
	g := p.graph
	if edges := countEdges(nodes); edges > b.limits.PayloadLimit()/edgeSize {
		return &broker.Error{Field: "edges", Err: broker.ErrTooLarge,
			Hint: fmt.Sprintf("there are %d, and a graph has room for %d at most; %s", edges, b.limits.PayloadLimit()/edgeSize, joinHint)}
	}
	place, total := make(map[string]int, len(nodes)), len(known.Nodes)
	for i := range nodes {
		n := &nodes[i]
		if err := checkName("node", n.Name); err != nil {
			return err
		}
		if _, twice := place[n.Name]; twice {
			return broker.Invalid("node "+n.Name, "is there twice; give each node its own name")
		}
		place[n.Name] = i
		if _, again := known.names[n.Name]; !again {
			total++
		}
	}
	if total > maxNodes {
		return &broker.Error{Field: "nodes", Err: broker.ErrTooLarge,
			Hint: fmt.Sprintf("there are %d, the limit is %d; make parts of it nested workflows (Node.Workflow)", total, maxNodes)}
	}
	refs := make(map[string]int)
	find := func(n *Node, field, name string) (int, error) {
		if i, ok := place[name]; ok {
			return i, nil
		}
		if _, ok := known.names[name]; ok {
			if refs[name] == 0 {
				g.Refs = append(g.Refs, name)
				refs[name] = len(g.Refs)
			}
			return -refs[name], nil
		}
		return 0, broker.Invalid("node "+n.Name, "names %q in %s, and there is no such node", name, field)
	}
	g.Nodes = make([]vertex, len(nodes))
	for i := range nodes {
		if err := b.vertex(p, &g.Nodes[i], &nodes[i], find); err != nil {
			return inNode(nodes[i].Name, err)
		}
	}
	for i := range nodes {
		for _, name := range nodes[i].Before {
			j, err := find(&nodes[i], "Before", name)
			switch {
			case err != nil:
				return err
			case j < 0:
				g.Nodes[i].Before = append(g.Nodes[i].Before, j)
			default:
				g.Nodes[j].After = append(g.Nodes[j].After, i)
			}
		}
	}
	return nil
}

// vertex checks a node and fills v from it.
func (b builder) vertex(p *plan, v *vertex, n *Node, find func(n *Node, field, name string) (int, error)) (err error) {
	*v = vertex{Name: n.Name, Signal: n.Signal, Within: reserved.Duration(n.Within), Delay: reserved.Duration(n.Delay),
		At: reserved.When(n.At)}
	switch n.OnDead {
	case "", Fail:
	case Continue, Skip:
		v.OnDead = n.OnDead
	default:
		return broker.Invalid("OnDead", "%q is none of fail, continue and skip", n.OnDead)
	}
	for _, edges := range []struct {
		field string
		names []string
		to    *[]int
	}{{"After", n.After, &v.After}, {"AfterAny", n.AfterAny, &v.Any}} {
		seen := make(map[string]bool, len(edges.names))
		for _, name := range edges.names {
			if seen[name] {
				continue
			}
			seen[name] = true
			j, err := find(n, edges.field, name)
			if err != nil {
				return err
			}
			*edges.to = append(*edges.to, j)
		}
	}
	if err := checkWait(n); err != nil {
		return err
	}
	switch {
	case n.Task != nil:
		v.Queue, err = b.parcel(p, n.Name, n.Task)
	case n.Workflow != nil:
		v.Queue, err = p.graph.queue(Queue), b.nest(p, n)
	}
	if err == nil && n.Compensate != nil {
		v.Undo, err = b.parcel(p, undoName(n.Name), n.Compensate)
	}
	return err
}

// checkWait checks what a node waits for.
func checkWait(n *Node) error {
	switch {
	case n.Task != nil && n.Workflow != nil:
		return broker.Invalid("Workflow", "is set beside a Task; set one of them")
	case n.Signal != "" && (n.Task != nil || n.Workflow != nil):
		return broker.Invalid("Signal", "is set beside a Task or a Workflow; put these into a node after this one")
	case n.Signal != "" && (n.Delay != 0 || !n.At.IsZero()):
		return broker.Invalid("Signal", "is set beside Delay or At; put these into a node before this one, or use Within")
	case n.Signal == "" && n.Within != 0:
		return broker.Invalid("Within", "is set without a Signal; it limits the wait for one")
	case n.Delay != 0 && !n.At.IsZero():
		return broker.Invalid("Delay", "is set beside At; set one of them")
	}
	if n.Signal != "" {
		if err := checkName("Signal", n.Signal); err != nil {
			return err
		}
	}
	if err := checkWithin(n.Within); err != nil {
		return err
	}
	if err := broker.CheckDuration("Delay", n.Delay); err != nil {
		return err
	}
	return broker.CheckTime("At", n.At)
}

// maxDepth bounds the nesting of workflows, because the IDs of their jobs may
// have at most 255 bytes.
const maxDepth = 10

func (b builder) nest(p *plan, n *Node) error {
	if b.depth++; b.depth > maxDepth {
		return broker.Invalid("Workflow", "is nested %d levels deep, the limit is %d", b.depth, maxDepth)
	}
	inner, err := b.plan(n.Workflow, n.Name)
	if err != nil {
		return err
	}
	if p.nested == nil {
		p.nested = make(map[string]*plan)
	}
	p.nested[n.Name] = inner
	return nil
}

// parcel checks a task, adds it to the parcels of p, and returns the index of its
// queue.
func (b builder) parcel(p *plan, name string, t *jobs.Task) (queue int, err error) {
	draft, err := b.client.Draft(t)
	if err != nil {
		return 0, err
	}
	for field, set := range map[string]bool{
		"id": draft.Body.GivenID, "delay": draft.Delay != 0, "run at": !draft.RunAt.IsZero(),
	} {
		if set {
			return 0, broker.Invalid(field, "is set by an option; the workflow sets it (see Node.Delay and Node.At)")
		}
	}
	if draft.Body.Unique.Conflict != broker.ConflictRefuse {
		return 0, broker.Invalid("unique conflict", "is set by an option; a node's job replaces no other job, and no other job replaces it")
	}
	for _, header := range []string{HeaderWorkflow, HeaderNode} {
		if _, set := draft.Body.Headers[header]; set {
			return 0, broker.Invalid("headers", "sets %s, which the workflow sets", header)
		}
	}
	draft.Body.Headers = maps.Clone(draft.Body.Headers)
	if draft.Body.Headers == nil {
		draft.Body.Headers = make(map[string]string)
	}
	draft.Body.Headers[HeaderWorkflow], draft.Body.Headers[HeaderNode] = p.id, name
	draft.ID = "checked later"
	if err := draft.Check(b.limits); err != nil {
		var e *broker.Error
		if errors.As(err, &e) {
			return 0, &broker.Error{Field: e.Field, Hint: e.Hint, Err: e.Err}
		}
		return 0, err
	}
	if b.sum != nil {
		body := broker.AppendBody(nil, &draft.Body)
		fmt.Fprintf(b.sum, "%q %q %d\n", name, draft.Queue, len(body))
		b.sum.Write(body)
	}
	t = t.With(jobs.WithQueue(draft.Queue))
	if draft.Body.Source == "" {
		t = t.With(jobs.WithSource(Queue))
	}
	p.parcels = append(p.parcels, parcel{name, draft.Queue, t})
	return p.graph.queue(draft.Queue), nil
}

// inNode adds the node's name to an error.
func inNode(name string, err error) error {
	var e *broker.Error
	if !errors.As(err, &e) || strings.HasPrefix(e.Field, "node "+name) {
		return err
	}
	c := *e
	c.Field = "node " + name
	if e.Field != "" {
		c.Field += ", " + e.Field
	}
	return &c
}

// checkName checks the name of a node or a signal, or the ID of a workflow.
func checkName(field, name string) error {
	if err := broker.CheckName(field, name); err != nil {
		return err
	}
	switch {
	case len(name) > maxName:
		return broker.Invalid(field, "%q has %d bytes, the limit is %d; shorten it", short(name, 40), len(name), maxName)
	case strings.Contains(name, "/"):
		return broker.Invalid(field, "%q contains a slash, which separates a workflow from its nodes; choose another character", name)
	case strings.HasPrefix(name, ":"):
		return broker.Invalid(field, "%q begins with a colon; choose another name", name)
	}
	return nil
}

func short(s string, max int) string {
	if len(s) <= max {
		return s
	}
	end := max
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
