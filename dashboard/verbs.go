package dashboard

import (
	"context"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// verb is a decision about jobs that the dashboard offers.
type verb struct {
	inspect.Verb
	Label  string
	action Action
}

// actions are the actions that permit verbs. ActionSuppress permits both suppressing
// and unsuppressing.
var actions = map[string]Action{"redrive": ActionRedrive, "reschedule": ActionReschedule, "suppress": ActionSuppress,
	"unsuppress": ActionSuppress,
	"cancel":     ActionCancel, "delete": ActionDelete}

// runNow makes scheduled and retry jobs due now. It ignores the time in the form.
var runNow = inspect.Verb{Name: "run-now", Done: "due now", From: []broker.State{broker.StateScheduled, broker.StateRetry},
	Do: func(s inspect.Selection, ctx context.Context) (inspect.Report, error) {
		return s.Reschedule(ctx, time.Time{})
	}}

var verbs = func() (all []verb) {
	for _, v := range inspect.Verbs() {
		if v.Name == "reschedule" {
			all = append(all, verb{Verb: runNow, Label: "Run now", action: ActionReschedule})
		}
		all = append(all, verb{Verb: v, Label: strings.ToUpper(v.Name[:1]) + v.Name[1:], action: actions[v.Name]})
	}
	return all
}()

// do carries out the verb; delay is for verbs that set a time.
func (v *verb) do(ctx context.Context, s inspect.Selection, delay time.Duration) (inspect.Report, error) {
	if delay != 0 && v.Name == "reschedule" {
		return s.RescheduleIn(ctx, delay)
	}
	return v.Do(s, ctx)
}

func verbNamed(name string) (verb, bool) {
	for _, v := range verbs {
		if v.Name == name {
			return v, true
		}
	}
	return verb{}, false
}

// verbsFor returns the verbs that the viewer may use for jobs in a state. For StateNone, which means any
// state, it returns the grave verbs. listed and suppressed say which kinds of dead jobs there are.
func verbsFor(v *view, state broker.State, listed, suppressed bool) (all []verb) {
	for _, one := range verbs {
		if one.Name == "suppress" && !listed || one.Name == "unsuppress" && !suppressed {
			continue
		}
		if (one.Possible(state) || state == broker.StateNone && one.Grave) && v.May(one.action) {
			all = append(all, one)
		}
	}
	return all
}
