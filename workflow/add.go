package workflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// Add adds nodes to the workflow. Only the handler of a node can call it. The new
// nodes can come after any node, including this one. An existing node that a new one names in
// Node.Before must come after this one; otherwise it may have begun already.
//
// Adding the same nodes again does nothing, so a handler that runs a second time
// can call Add again. If a node is invalid, nothing is added. The error names it, and is also
// jobs.SkipRetry, since no retry can help.
// It is ErrWrongState if the workflow has ended, which a handler that lost its lease can find, or
// if another job holds the unique key of a node.
// After an error of the store, return it from the handler, so that it runs again.
//
// A workflow reads all additions each time it runs, and so does the first call of each handler. So add many nodes in
// one call rather than one node in each of many calls; thousands of calls make the workflow slow. The error is ErrTooLarge when a workflow
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
	return about(err, "add nodes to workflow", s.id)
}

func (s *Scope) add(ctx context.Context, nodes []Node) error {
	if len(nodes) == 0 {
		return nil
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	w, err := s.current(ctx)
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
	err = letter(ctx, s.store, s.id, id, typeAdd, text)
	if err != nil && !errors.Is(err, broker.ErrDuplicate) {
		return err
	}
	if err := submit(ctx, s.store, s.client, p); err != nil {
		return err
	}
	if !w.taken[id] {
		w.taken[id], w.added = true, append(w.added, id)
		w.mail.adds = append(w.mail.adds, addition{id: id})
	}
	s.whole = w
	s.mu.Lock()
	s.graph = nil // it has changed
	s.mu.Unlock()
	return s.nudge(ctx, s.id)
}

// current returns the workflow with all additions, and forgets it until an Add has succeeded. Of what an earlier Add
// has read it reads only what came since.
func (s *Scope) current(ctx context.Context) (*stored, error) {
	w := s.whole
	if s.whole = nil; w == nil {
		return s.own(ctx)
	}
	state, err := reserved.State(ctx, s, Queue, s.id)
	if err == nil && state == broker.StateNone {
		err = broker.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	w.job.State = state
	mail, err := s.letters(ctx, s.id, w.graph.Birth, w.taken)
	if err == nil {
		w.mail.adds = append(w.mail.adds, mail.adds...)
		w.added, err = mail.grow(w.graph, w.added, w.taken)
	}
	return w, err
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
