package workflow

import (
	"slices"
	"time"

	"github.com/seed81422ce9/jobs"
)

// Node is one step of a workflow: a job, another workflow, or a point at which
// the workflow waits. A node without a Task, Workflow, Signal, Delay or At ends
// as soon as the nodes before it have: it joins them.
type Node struct {
	// Name is unique in the workflow: 1 to 100 bytes, without "/", and not
	// beginning with ":".
	Name string

	// Task is the job that the node is. Options that set an ID, a delay or a time
	// are refused: the workflow decides when it runs. Its retention is the
	// workflow's.
	Task *jobs.Task
	// Workflow is another workflow, instead of a Task. Its ID is not used: the
	// store knows it as <prefix of this workflow>/<Name>.
	Workflow *Workflow
	// Signal is the name of a signal that the node waits for, instead of a Task.
	// Its payload is the node's result.
	Signal string
	// Within limits the wait for the signal, counted from when the node began to
	// wait. Then it is StateExpired, which counts as dead. Zero means no limit.
	Within time.Duration

	// After names the nodes that must have ended before. What happens if one of
	// them did not complete is up to its OnDead.
	After []string
	// AfterAny names nodes that must have ended, in whatever way.
	AfterAny []string
	// Before names nodes that wait for this one, as if they named it in After.
	Before []string

	// Delay puts the node off from when it is ready, At to a time. Both work with
	// a Task, with a Workflow, and alone. Zero means neither.
	Delay time.Duration
	At    time.Time

	// OnDead says what happens if the node does not complete. The default is Fail.
	OnDead OnDead
	// Compensate undoes the node if the workflow fails or is cancelled after the
	// node began. It may find that the effect never happened.
	Compensate *jobs.Task
}

// OnDead says what happens to the nodes that come after one which did not
// complete: it is dead, was cancelled or deleted, or its signal did not come.
type OnDead string

// What happens after a node that did not complete.
const (
	// Fail fails the workflow, unless all nodes after it name it in AfterAny:
	// nothing new starts, what has started ends by itself, and compensations run.
	Fail OnDead = "fail"
	// Continue lets the nodes after it run as if it had completed.
	Continue OnDead = "continue"
	// Skip skips the nodes after it, and those after them. The rest goes on.
	Skip OnDead = "skip"
)

// Part is a node, or several that Chain, Group or Chord have joined.
type Part interface{ nodes() []Node }

func (n Node) nodes() []Node { return []Node{n} }

type part []Node

func (p part) nodes() []Node { return p }

// Group is parts that run side by side. An empty group ends at once.
func Group(parts ...Part) Part {
	var all part
	for _, p := range parts {
		if p != nil {
			all = append(all, p.nodes()...)
		}
	}
	return all
}

// Chain is parts that run one after another: the first nodes of each come after
// the last ones of the part before. Empty groups are left out.
func Chain(parts ...Part) Part {
	var all part
	var last []string
	for _, p := range parts {
		if p == nil || len(p.nodes()) == 0 {
			continue
		}
		nodes := slices.Clone(p.nodes())
		first, end := edges(nodes)
		for _, i := range first {
			nodes[i].After = append(slices.Clip(nodes[i].After), last...)
		}
		last = last[:0:0]
		for _, i := range end {
			last = append(last, nodes[i].Name)
		}
		all = append(all, nodes...)
	}
	return all
}

// Chord is parts that run side by side, and then a node that can read their
// results: Chain(Group(parts...), body).
func Chord(body Node, parts ...Part) Part { return Chain(Group(parts...), body) }

// edges finds the nodes of a part that come after no other of the part, and
// those that no other comes after.
func edges(nodes []Node) (first, last []int) {
	place := make(map[string]int, len(nodes))
	for i := range nodes {
		place[nodes[i].Name] = i
	}
	has, followed := make([]bool, len(nodes)), make([]bool, len(nodes))
	for i := range nodes {
		for _, before := range [][]string{nodes[i].After, nodes[i].AfterAny} {
			for _, name := range before {
				if j, ok := place[name]; ok {
					has[i], followed[j] = true, true
				}
			}
		}
		for _, name := range nodes[i].Before {
			if j, ok := place[name]; ok {
				followed[i], has[j] = true, true
			}
		}
	}
	for i := range nodes {
		if !has[i] {
			first = append(first, i)
		}
		if !followed[i] {
			last = append(last, i)
		}
	}
	return first, last
}
