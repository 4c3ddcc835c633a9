package workflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// ErrNoResult says that a node has no result: it has not completed, or its
// handler set none.
var ErrNoResult = errors.New("the node has no result")

// Scope is a handler's view of the workflow that its job belongs to.
type Scope struct {
	store
	client *jobs.Client
	job    *jobs.Job
	id     string
	node   string

	mu    sync.Mutex
	graph *graph
}

type scopeKey struct{}

// Of returns the workflow of a handler's context. It returns nil if the job
// belongs to no workflow, or if its server does not have the extension. Methods of
// nil say so in their error. The context of a batch (jobs.HandleMany) belongs to no
// single job: use BatchJob.Context.
func Of(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	if s != nil && jobs.JobFromContext(ctx) == nil { // the scope of one job of a batch
		return nil
	}
	return s
}

// ID returns the workflow's ID, which is empty for nil.
func (s *Scope) ID() string {
	if s == nil {
		return ""
	}
	return s.id
}

// Node returns the name of the job's node, which is empty for nil. It begins with a
// colon if the job is a callback or a compensation.
func (s *Scope) Node() string {
	if s == nil {
		return ""
	}
	return s.node
}

// Info describes the workflow and its nodes, as Get does.
func (s *Scope) Info(ctx context.Context) (Info, error) {
	if s == nil {
		return Info{}, errNoScope
	}
	return Get(ctx, s.client, s.id)
}

// middleware gives handlers of nodes their scope.
func (x *runner) middleware(h jobs.Handler) jobs.Handler {
	return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		if id := job.Header(HeaderWorkflow); id != "" {
			ctx = context.WithValue(ctx, scopeKey{}, &Scope{store: x.store, client: x.client, job: job, id: id, node: job.Header(HeaderNode)})
		}
		return h.ProcessJob(ctx, job)
	})
}

var errNoScope = errors.New("the context belongs to no job of a workflow, or the server has no extension for workflows; " +
	"in a batch handler use BatchJob.Context")

// SetResult stores v, in JSON, as the result of the node whose handler has ctx. A
// []byte is stored as it is. If v cannot be encoded, the error is jobs.SkipRetry,
// since no retry can help.
func SetResult(ctx context.Context, v any) error {
	s := Of(ctx)
	if s == nil {
		return errNoScope
	}
	if text, ok := v.([]byte); ok {
		s.job.SetResult(text)
	} else if err := jobs.SetResult(s.job, v); err != nil {
		return fmt.Errorf("node %q: %w", s.node, err)
	}
	return nil
}

// Result returns the result of a node of the same workflow: what its handler set,
// the payload of its signal, or the result of a nested workflow. It is decoded
// from JSON, unless T is []byte. The error is ErrNoResult if the node has none. A
// node that comes before this one and did not fail has completed.
func Result[T any](ctx context.Context, node string) (T, error) {
	var v T
	s := Of(ctx)
	if s == nil {
		return v, errNoScope
	}
	text, err := s.read(ctx, node)
	if err != nil {
		return v, fmt.Errorf("the result of node %q: %w", node, err)
	}
	return v, unpack(text, &v, node)
}

func unpack[T any](text []byte, v *T, node string) error {
	if raw, ok := any(v).(*[]byte); ok {
		*raw = text
		return nil
	}
	if err := jobs.JSON.Decode(text, v); err != nil { // its errors do not quote the result
		return fmt.Errorf("%w: the result of node %q is no %T: %w", jobs.SkipRetry, node, *v, err)
	}
	return nil
}

// Results returns the results of the nodes directly before this one, by name.
// Nodes without a result are left out.
func Results[T any](ctx context.Context) (map[string]T, error) {
	s := Of(ctx)
	if s == nil {
		return nil, errNoScope
	}
	texts, err := s.before(ctx)
	if err != nil {
		return nil, err
	}
	results := make(map[string]T, len(texts))
	for node, text := range texts {
		var v T
		if err := unpack(text, &v, node); err != nil {
			return nil, err
		}
		results[node] = v
	}
	return results, nil
}

// known returns the graph of the workflow, which it reads once in a run.
func (s *Scope) known(ctx context.Context) (*graph, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.graph == nil {
		w, err := s.load(ctx, s.id)
		if err != nil {
			return nil, err
		}
		s.graph = w.graph
	}
	return s.graph, nil
}

func (s *Scope) read(ctx context.Context, node string) ([]byte, error) {
	g, err := s.known(ctx)
	if err != nil {
		return nil, err
	}
	i, ok := g.names[node]
	if !ok {
		return nil, fmt.Errorf("%w: there is no such node", broker.ErrNotFound)
	}
	return s.result(ctx, s.id, g, i)
}

// source returns the job that has a node's result; ok is false if the node has no
// job.
func (g *graph) source(id string, i int) (ref broker.Ref, ok bool) {
	v := &g.Nodes[i]
	switch {
	case v.Signal != "":
		return broker.Ref{Queue: Queue, ID: signalID(id, v.Signal)}, true
	case v.Queue > 0:
		return g.ref(i), true
	}
	return ref, false
}

// resultOf returns the result that a job has for its node.
func resultOf(job *broker.Job) []byte {
	if job.Queue == Queue && job.Type == typeSignal {
		return job.Payload
	}
	return job.Result
}

// result reads the result of a node.
func (s store) result(ctx context.Context, id string, g *graph, i int) ([]byte, error) {
	ref, ok := g.source(id, i)
	if !ok {
		return nil, ErrNoResult
	}
	job, err := reserved.Find(ctx, s, ref.Queue, ref.ID)
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return nil, fmt.Errorf("%w: its job is not there", ErrNoResult)
	case err != nil:
		return nil, err
	case job.Type != typeSignal && job.State != broker.StateCompleted:
		return nil, fmt.Errorf("%w: its job is %v", ErrNoResult, job.State)
	case len(resultOf(job)) == 0: // some stores do not tell an empty result from none
		return nil, ErrNoResult
	}
	return resultOf(job), nil
}

// before reads the results of the nodes directly before this one.
func (s *Scope) before(ctx context.Context) (map[string][]byte, error) {
	g, err := s.known(ctx)
	if err != nil {
		return nil, err
	}
	i, ok := g.names[s.node]
	if !ok {
		return nil, nil // a callback, or a compensation
	}
	names := make(map[broker.Ref][]string) // several nodes can wait for one signal
	var refs []broker.Ref
	for _, j := range slices.Concat(g.Nodes[i].After, g.Nodes[i].Any) {
		if ref, ok := g.source(s.id, j); ok {
			names[ref] = append(names[ref], g.Nodes[j].Name)
			refs = append(refs, ref)
		}
	}
	results := make(map[string][]byte, len(refs))
	err = s.look(ctx, refs, true, func(job *broker.Job) {
		if text := resultOf(job); len(text) > 0 && (job.Type == typeSignal || job.State == broker.StateCompleted) {
			for _, name := range names[broker.Ref{Queue: job.Queue, ID: job.ID}] {
				results[name] = text
			}
		}
	})
	return results, err
}

// Add adds nodes to the workflow. Only the handler of a node can call it. The new
// nodes can come after any node, including this one. An existing node that a new one names in
// Node.Before must come after this one; otherwise it may have begun already.
//
// Adding the same nodes again does nothing, so a handler that runs a second time
// can call Add again. If a node is invalid, nothing is added. The error names it, and is also
// jobs.SkipRetry, since no retry can help.
// It is ErrWrongState if the workflow has ended, which a handler that lost its lease can find.
// After an error of the store, return it from the handler, so that it runs again.
//
// A workflow reads all additions each time it runs. So add many nodes in one call rather than one node in
// each of many calls; thousands of calls make the workflow slow. The error is ErrTooLarge when a workflow
// has about as many additions as fit into a megabyte by their IDs.
func (s *Scope) Add(ctx context.Context, parts ...Part) error {
	if s == nil {
		return errNoScope
	}
	err := s.add(ctx, Group(parts...).nodes())
	if e, ok := errors.AsType[*broker.Error](err); ok && (errors.Is(err, broker.ErrInvalid) || errors.Is(err, broker.ErrTooLarge)) {
		c := *e
		c.Err = fmt.Errorf("%w: %w", jobs.SkipRetry, e.Err)
		err = &c
	}
	return about(err, "add nodes", s.id)
}

func (s *Scope) add(ctx context.Context, nodes []Node) error {
	if len(nodes) == 0 {
		return nil
	}
	w, err := s.load(ctx, s.id)
	if err != nil {
		return err
	}
	if hasEnded(w.job.State) { // this run has lost its lease: nobody would start the nodes, or remove them
		return errOver
	}
	g := w.graph
	me, ok := g.names[s.node]
	if !ok {
		return broker.Invalid("node", "%s is a callback or a compensation, which cannot add nodes", s.node)
	}
	for i := range nodes {
		if j, known := g.names[nodes[i].Name]; known && g.by[j] != me {
			return broker.Invalid("node "+nodes[i].Name, "is in the workflow already; choose another name")
		}
	}
	p := &plan{id: s.id, graph: &graph{Version: graphVersion, By: s.node, Retention: g.Retention}}
	b := builder{client: s.client, limits: s.Limits()}
	if err := b.vertices(p, nodes, g); err != nil {
		return err
	}
	if err := g.mayWait(me, p.graph); err != nil {
		return err
	}
	p.graph.Parent = g.Parent
	p.give(g.Birth)
	p.graph.Prefix, p.graph.Parent = g.Prefix, ""
	if err := p.checkIDs(); err != nil {
		return err
	}
	text := reserved.Encode(p.graph)
	sum := sha256.Sum256(text)
	id := addID(s.id, g.Birth, hex.EncodeToString(sum[:8]))
	grown, err := decode(text)
	if err == nil {
		err = g.merge(grown)
	}
	if err == nil {
		err = g.link() // for cycles
	}
	if err == nil {
		err = w.mail.fit(id, len(g.Nodes))
	}
	if err != nil {
		return err
	}
	err = s.letter(ctx, s.id, id, typeAdd, text)
	if err != nil && !errors.Is(err, broker.ErrDuplicate) {
		return err
	}
	if err := s.submit(ctx, s.client, p); err != nil {
		return err
	}
	s.mu.Lock()
	s.graph = nil // it has changed
	s.mu.Unlock()
	return s.nudge(ctx, s.id)
}

// mayWait refuses an addition if a node that may have begun is to wait for it. A node may have begun
// unless it comes after the node that adds it.
func (g *graph) mayWait(me int, add *graph) error {
	after := make([]bool, len(g.Nodes))
	after[me] = true
	for _, i := range g.topo {
		for _, edges := range [][]int{g.Nodes[i].After, g.Nodes[i].Any} {
			for _, j := range edges {
				after[i] = after[i] || after[j]
			}
		}
	}
	for k := range add.Nodes {
		for _, ref := range add.Nodes[k].Before {
			name := add.Refs[-1-ref]
			if i := g.names[name]; !after[i] || i == me {
				return broker.Invalid("node "+add.Nodes[k].Name, "names %q in Before, which does not come after %q and may have begun", name, add.By)
			}
		}
	}
	return nil
}
