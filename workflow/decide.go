package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// decide works out what happens next from what the run has read. It changes only
// the run, not the store, and the same input gives the same decisions.
func (r *run) decide() {
	r.ready, r.wake = r.ready[:0], time.Time{}
	earlier := ""
	switch {
	case r.Phase == phaseRunning:
	case r.Phase == phaseStopping && r.Outcome == StateFailed && !r.Late: // it waits for running nodes, perhaps for long
		earlier = "; before that " + r.Cause
	default:
		return
	}
	switch {
	case r.mail.cancel != nil:
		r.stop(StateCancelled, "cancelled"+by(r.mail.cancel.By)+earlier)
		return
	case !r.g.Deadline.IsZero() && r.passed(r.g.Deadline):
		r.Late = true
		r.stop(StateFailed, "the deadline passed"+earlier)
		return
	case r.Phase == phaseStopping:
		return
	}
	over := true
	for _, i := range r.g.topo {
		if r.Ends[i] == endWaiting {
			r.advance(i)
		}
		e := r.Ends[i]
		if badly(e) && r.fails(i) {
			r.stop(StateFailed, r.blame(i))
			return
		}
		over = over && ended(e)
	}
	if over {
		r.stop(StateCompleted, "")
	}
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

// stop begins the end of the workflow.
func (r *run) stop(outcome State, cause string) {
	r.Phase, r.Outcome, r.Cause, r.ready = phaseStopping, outcome, cause, nil
	r.touch()
}

// kills reports whether the end of the workflow cancels nodes that still run.
func (r *run) kills() bool { return r.Late || r.Outcome == StateCancelled }

// advance checks whether a waiting node is ready, and if so ends it or marks its
// job to be let go.
func (r *run) advance(i int) {
	ready, skip := r.readiness(i)
	switch {
	case skip:
		r.end(i, endSkipped)
		return
	case !ready:
		return
	}
	v := &r.g.Nodes[i]
	switch {
	case v.Queue > 0 && !r.g.nested(i): // the store applies its delay
		r.ready = append(r.ready, i)
	case v.Signal != "" && r.mail.signals[v.Signal]:
		r.end(i, endCompleted)
	case v.Signal != "" && v.Within == 0:
	case v.Signal != "":
		if until := r.waited(i).Add(time.Duration(v.Within)); r.passed(until) {
			r.end(i, endExpired)
		}
	case v.Delay > 0:
		if r.passed(r.waited(i).Add(time.Duration(v.Delay))) {
			r.pass(i)
		}
	case v.At.IsZero() || r.passed(v.At):
		r.pass(i)
	}
}

// pass ends a node that only waited, or marks a nested workflow to be started.
func (r *run) pass(i int) {
	if r.g.nested(i) {
		r.ready = append(r.ready, i)
		return
	}
	r.end(i, endCompleted)
}

// readiness reports whether a node may begin or is skipped. This depends on how the nodes before it
// ended.
func (r *run) readiness(i int) (ready, skip bool) {
	ready = true
	v := &r.g.Nodes[i]
	for _, j := range v.Any {
		ready = ready && ended(r.Ends[j])
	}
	for _, j := range v.After {
		switch e := r.Ends[j]; {
		case !ended(e):
			ready = false
		case e == endSkipped, badly(e) && r.g.Nodes[j].OnDead == Skip:
			return false, true
		case badly(e) && r.g.Nodes[j].OnDead != Continue:
			ready = false
		}
	}
	return ready, false
}

// fails reports whether a node that did not complete fails the workflow.
func (r *run) fails(i int) bool {
	return r.g.Nodes[i].OnDead == "" && (len(r.g.kids[i]) > 0 || r.g.more[i] == 0)
}

// blame returns why the workflow failed: what happened to node i.
func (r *run) blame(i int) string {
	text := map[byte]string{endDead: "is dead", endCancelled: "was cancelled", endGone: "was deleted", endExpired: "got no signal in time"}
	cause := fmt.Sprintf("node %q %s", r.g.Nodes[i].Name, text[r.Ends[i]])
	if why := r.why[i]; why != "" {
		cause += ": " + why
	}
	return cause
}

// waited returns when a node began to wait for a signal or a time. The first call records the time.
func (r *run) waited(i int) time.Time {
	at, ok := r.since(i)
	if !ok {
		at = r.now
		r.note(i, at)
		r.dirty = true
	}
	return at
}

// passed reports whether a time has passed. If not, it makes the workflow wake at that time.
func (r *run) passed(at time.Time) bool {
	if !r.now.Before(at) {
		return true
	}
	if r.wake.IsZero() || at.Before(r.wake) {
		r.wake = at
	}
	return false
}

// end records how a node ended, and when, if a compensation may have to undo it.
func (r *run) end(i int, e byte) {
	r.Ends[i] = e
	if e == endCompleted && r.g.Nodes[i].Undo > 0 {
		r.note(i, r.now)
	}
	r.touch()
}

// touch records that something has changed.
func (r *run) touch() { r.dirty, r.Changed = true, r.now }

// outstanding returns the nodes whose jobs were let go and have not ended.
func (r *run) outstanding() (nodes []int) {
	for i, e := range r.Ends {
		if e == endLetGo {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// toUndo returns the nodes to compensate: first those that began and did not complete, whose effects are
// unknown, then those that completed. In both groups the latest node is first.
func (r *run) toUndo() (nodes []int) {
	for i := range r.g.Nodes {
		v := &r.g.Nodes[i]
		_, began := r.since(i)
		if v.Undo > 0 && (r.Ends[i] == endCompleted || badly(r.Ends[i]) && v.Queue > 0 && began) {
			nodes = append(nodes, i)
		}
	}
	place := make([]int, len(r.g.Nodes))
	for k, i := range r.g.topo {
		place[i] = k
	}
	rank := func(i int) int {
		if badly(r.Ends[i]) {
			return 0
		}
		return 1
	}
	slices.SortFunc(nodes, func(a, b int) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(r.Times[b], r.Times[a]), place[b]-place[a])
	})
	return nodes
}
