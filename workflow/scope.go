package workflow

import (
	"context"
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
	graph *graph // what reads use; it is not changed

	adding sync.Mutex
	whole  *stored // as the last Add left it
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

// own reads the workflow of the job, which another one with the same ID may have replaced.
func (s *Scope) own(ctx context.Context) (*stored, error) {
	w, err := s.load(ctx, s.id)
	if err == nil && w.graph.jobID(s.node) != s.job.ID() {
		return nil, &broker.Error{Field: "workflow", Err: broker.ErrNotFound,
			Hint: "the workflow of this job was removed, and another one has its ID by now"}
	}
	return w, err
}

// known returns the graph of the workflow, which it reads once in a run.
func (s *Scope) known(ctx context.Context) (*graph, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.graph == nil {
		w, err := s.own(ctx)
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
