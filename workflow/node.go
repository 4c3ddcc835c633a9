package workflow

import (
	"slices"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// Node is one step of a workflow: a job, another workflow, or a point at which
// the workflow waits. A node without a Task, Workflow, Signal, Delay or At is a
// join: it ends as soon as the nodes before it have ended.
type Node struct {
	// Name is unique in the workflow: 1 to 100 bytes, without "/", and not
	// beginning with ":".
	Name string

	// Task is the node's job. Options that set an ID, a delay or a time are
	// refused: the workflow decides when the job runs. Its retention is the
	// workflow's.
	Task *jobs.Task
	// Workflow is another workflow, instead of a Task. Its ID is not used; in the
	// store its ID is <prefix of this workflow>/<Name>.
	Workflow *Workflow
	// Signal is the name of a signal that the node waits for, instead of a Task.
	// Its payload is the node's result.
	Signal string
	// Within limits how long the node waits for the signal. After that its state
	// is StateExpired, which counts as dead. Zero means no limit.
	Within time.Duration

	// After names nodes that must have ended before this one starts. If one of
	// them did not complete, its OnDead says what happens.
	After []string
	// AfterAny names nodes that must have ended, whether or not they completed.
	AfterAny []string
	// Before names nodes that wait for this one, as if they named it in After.
	Before []string

	// Delay postpones the node by a time after it is ready, At to a given time.
	// Both work with a Task, with a Workflow, and alone. Zero means neither.
	Delay time.Duration
	At    time.Time

	// OnDead says what happens if the node does not complete. The default is Fail.
	OnDead OnDead
	// Compensate undoes the node if the workflow fails or is cancelled after the
	// node began. It must allow for an effect that never happened.
	Compensate *jobs.Task
}

// OnDead says what happens to the nodes after one that did not complete: it is
// dead, was cancelled or deleted, or its signal did not come in time.
type OnDead string

// What happens after a node that did not complete.
const (
	// Fail fails the workflow, unless all nodes after it name it in AfterAny: no
	// more nodes start, running ones finish, and compensations run. A Task that
	// waits for its Delay or At counts as running: it still runs, and compensations
	// wait for it. A Deadline or Cancel ends the wait.
	Fail OnDead = "fail"
	// Continue lets the nodes after it run as if it had completed.
	Continue OnDead = "continue"
	// Skip skips the nodes after it, and those after them. The rest continues.
	Skip OnDead = "skip"
)

// Part is a node, or several nodes that Chain, Group or Chord combined.
type Part interface{ nodes() []Node }

func (n Node) nodes() []Node { return []Node{n} }

type part []Node

func (p part) nodes() []Node { return p }

// Group returns parts that run side by side. An empty group ends at once.
func Group(parts ...Part) Part {
	var all part
	for _, p := range parts {
		if p != nil {
			all = append(all, p.nodes()...)
		}
	}
	return all
}

// Chain returns parts that run one after another: the first nodes of each come
// after the last nodes of the previous one. Empty groups are left out. Two groups
// of n nodes have n² edges; if n is some hundreds, put a join between them: a Node
// without a Task.
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
			if len(nodes[i].After) == 0 {
				nodes[i].After = slices.Clip(last) // shared: nobody changes it
				continue
			}
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

// Chord returns parts that run side by side, followed by a node that can read
// their results: Chain(Group(parts...), body).
func Chord(body Node, parts ...Part) Part { return Chain(Group(parts...), body) }

// edges returns the first nodes of a part, which come after no other node of it, and the last nodes,
// after which no other node of it comes.
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

// checkWithin refuses a time outside the limits, and one without a unit: every signal would be late.
func checkWithin(d time.Duration) error {
	if d > 0 && d < time.Millisecond {
		return broker.Invalid("Within", "is %v; use 1ms or more, or leave it out", d)
	}
	return broker.CheckDuration("Within", d)
}
