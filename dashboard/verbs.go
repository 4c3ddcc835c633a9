package dashboard

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs/broker"
)

// verb is a decision about jobs.
type verb struct {
	Name  string // in addresses and the log
	Label string
	Done  string // "12 jobs …"
	Grave bool   // cannot be undone: asks first

	action Action
	from   []broker.State
	do     func(s inspect.Selection, ctx context.Context, delay time.Duration) (inspect.Report, error)
}

var waiting = []broker.State{broker.StatePending, broker.StateScheduled, broker.StateRetry}

var verbs = []verb{
	{Name: "redrive", Label: "Redrive", Done: "redriven", action: ActionRedrive, from: []broker.State{broker.StateDead}, do: plainly(inspect.Selection.Redrive)},
	{Name: "reschedule", Label: "Reschedule", Done: "rescheduled", action: ActionReschedule, from: waiting,
		do: func(s inspect.Selection, ctx context.Context, delay time.Duration) (inspect.Report, error) {
			return s.RescheduleIn(ctx, delay)
		}},
	{Name: "suppress", Label: "Suppress", Done: "suppressed", action: ActionSuppress, from: []broker.State{broker.StateDead}, do: plainly(inspect.Selection.Suppress)},
	{Name: "unsuppress", Label: "Unsuppress", Done: "listed again", action: ActionSuppress, from: []broker.State{broker.StateDead}, do: plainly(inspect.Selection.Unsuppress)},
	{Name: "cancel", Label: "Cancel", Done: "cancelled", Grave: true, action: ActionCancel, from: append([]broker.State{broker.StateActive}, waiting...), do: plainly(inspect.Selection.Cancel)},
	{Name: "delete", Label: "Delete", Done: "deleted", Grave: true, action: ActionDelete,
		from: append([]broker.State{broker.StateDead, broker.StateCompleted, broker.StateCancelled}, waiting...), do: plainly(inspect.Selection.Delete)},
}

func plainly(do func(inspect.Selection, context.Context) (inspect.Report, error)) func(inspect.Selection, context.Context, time.Duration) (inspect.Report, error) {
	return func(s inspect.Selection, ctx context.Context, _ time.Duration) (inspect.Report, error) {
		return do(s, ctx)
	}
}

func verbNamed(name string) (verb, bool) {
	for _, v := range verbs {
		if v.Name == name {
			return v, true
		}
	}
	return verb{}, false
}

// possible reports whether jobs of a state can be decided about so.
func (v *verb) possible(state broker.State) bool {
	for _, s := range v.from {
		if s == state {
			return true
		}
	}
	return false
}

// verbsFor are the verbs for jobs of a state that the viewer may use. For jobs
// of any state there are those that the most states allow.
func verbsFor(v *view, state broker.State) (all []verb) {
	for _, one := range verbs {
		if (one.possible(state) || state == broker.StateNone && one.Grave) && v.May(one.action) {
			all = append(all, one)
		}
	}
	return all
}
