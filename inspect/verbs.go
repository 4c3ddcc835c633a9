package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Verb is an operation on jobs with the name that the command, the dashboard and logs
// use.
type Verb struct {
	Name  string         // "redrive"
	Done  string         // the participle: "redriven"
	Grave bool           // it cannot be undone, so tools ask for confirmation
	From  []broker.State // states in which it is possible
	// Do carries it out. Reschedule makes the jobs due at once; to set a time, use the
	// methods of Selection.
	Do func(Selection, context.Context) (Report, error)
}

// Verbs returns the operations that need only a selection, the harmless ones first.
func Verbs() []Verb { return slices.Clone(verbs) }

// VerbNamed returns the verb with a name, if there is one.
func VerbNamed(name string) (Verb, bool) {
	i := slices.IndexFunc(verbs, func(v Verb) bool { return v.Name == name })
	if i < 0 {
		return Verb{}, false
	}
	return verbs[i], true
}

// Possible reports whether the operation is possible for jobs in a state.
func (v *Verb) Possible(state broker.State) bool { return slices.Contains(v.From, state) }

var (
	dead    = []broker.State{broker.StateDead}
	waiting = []broker.State{broker.StatePending, broker.StateScheduled, broker.StateRetry}
	ended   = []broker.State{broker.StateDead, broker.StateCompleted, broker.StateCancelled}
	running = []broker.State{broker.StateActive}

	verbs = []Verb{
		{Name: "redrive", Done: "redriven", From: dead, Do: Selection.Redrive},
		{Name: "reschedule", Done: "rescheduled", From: waiting, Do: func(s Selection, ctx context.Context) (Report, error) {
			return s.Reschedule(ctx, time.Time{})
		}},
		{Name: "suppress", Done: "suppressed", From: dead, Do: Selection.Suppress},
		{Name: "unsuppress", Done: "listed again", From: dead, Do: Selection.Unsuppress},
		{Name: "cancel", Done: "cancelled", Grave: true, From: slices.Concat(running, waiting), Do: Selection.Cancel},
		{Name: "delete", Done: "deleted", Grave: true, From: slices.Concat(ended, waiting), Do: Selection.Delete},
	}
)
