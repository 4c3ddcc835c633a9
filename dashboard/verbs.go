package dashboard

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// verb is a decision about jobs.
type verb struct {
	Name  string // in addresses and the log
	Label string
	Done  string // "12 jobs …"
	Grave bool   // cannot be undone: asks first

	action Action
	from   []jobs.State
	do     func(s jobs.Selection, ctx context.Context, delay time.Duration) (jobs.Report, error)
}

var waiting = []jobs.State{jobs.StatePending, jobs.StateScheduled, jobs.StateRetry}

var verbs = []verb{
	{Name: "redrive", Label: "Redrive", Done: "redriven", action: ActionRedrive, from: []jobs.State{jobs.StateDead}, do: plainly(jobs.Selection.Redrive)},
	{Name: "reschedule", Label: "Reschedule", Done: "rescheduled", action: ActionReschedule, from: waiting,
		do: func(s jobs.Selection, ctx context.Context, delay time.Duration) (jobs.Report, error) {
			return s.RescheduleIn(ctx, delay)
		}},
	{Name: "suppress", Label: "Suppress", Done: "suppressed", action: ActionSuppress, from: []jobs.State{jobs.StateDead}, do: plainly(jobs.Selection.Suppress)},
	{Name: "unsuppress", Label: "Unsuppress", Done: "listed again", action: ActionSuppress, from: []jobs.State{jobs.StateDead}, do: plainly(jobs.Selection.Unsuppress)},
	{Name: "cancel", Label: "Cancel", Done: "cancelled", Grave: true, action: ActionCancel, from: append([]jobs.State{jobs.StateActive}, waiting...), do: plainly(jobs.Selection.Cancel)},
	{Name: "delete", Label: "Delete", Done: "deleted", Grave: true, action: ActionDelete,
		from: append([]jobs.State{jobs.StateDead, jobs.StateCompleted, jobs.StateCancelled}, waiting...), do: plainly(jobs.Selection.Delete)},
}

func plainly(do func(jobs.Selection, context.Context) (jobs.Report, error)) func(jobs.Selection, context.Context, time.Duration) (jobs.Report, error) {
	return func(s jobs.Selection, ctx context.Context, _ time.Duration) (jobs.Report, error) { return do(s, ctx) }
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
func (v *verb) possible(state jobs.State) bool {
	for _, s := range v.from {
		if s == state {
			return true
		}
	}
	return false
}

// verbsFor are the verbs for jobs of a state that the viewer may use. For jobs
// of any state there are those that the most states allow.
func verbsFor(v *view, state jobs.State) (all []verb) {
	for _, one := range verbs {
		if (one.possible(state) || state == broker.StateNone && one.Grave) && v.May(one.action) {
			all = append(all, one)
		}
	}
	return all
}
