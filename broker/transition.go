package broker

import "slices"

// TransitionEvent is what moves a job from one state to another.
type TransitionEvent string

// The events of the transition table.
const (
	OnEnqueue    TransitionEvent = "enqueue"
	OnDue        TransitionEvent = "due"
	OnClaim      TransitionEvent = "claim"
	OnSettle     TransitionEvent = "settle"
	OnReclaim    TransitionEvent = "reclaim"
	OnRetire     TransitionEvent = "retire"
	OnCancel     TransitionEvent = "cancel"
	OnReschedule TransitionEvent = "reschedule"
	OnRedrive    TransitionEvent = "redrive"
	OnHold       TransitionEvent = "hold"
	OnUnhold     TransitionEvent = "unhold"
	OnEdit       TransitionEvent = "edit"
	OnRestore    TransitionEvent = "restore"
	OnArrival    TransitionEvent = "arrival" // the job that a waiting one runs after has ended
	OnDelete     TransitionEvent = "delete"
	OnPrune      TransitionEvent = "prune"
)

// Transition is one legal step of a job.
type Transition struct {
	From  State
	Event TransitionEvent
	To    State
}

var transitions = []Transition{
	{StateNone, OnEnqueue, StatePending},
	{StateNone, OnEnqueue, StateScheduled},
	{StateNone, OnEnqueue, StateWaiting},
	{StateNone, OnRestore, StatePending},
	{StateNone, OnRestore, StateScheduled},
	{StateNone, OnRestore, StateRetry},
	{StateNone, OnRestore, StateDead},
	{StateNone, OnRestore, StateCompleted},
	{StateNone, OnRestore, StateCancelled},
	{StateScheduled, OnDue, StatePending},
	{StateScheduled, OnCancel, StateCancelled},
	{StateScheduled, OnReschedule, StateScheduled},
	{StateScheduled, OnReschedule, StatePending},
	{StateScheduled, OnHold, StateWaiting},
	{StateScheduled, OnDelete, StateNone},
	{StateRetry, OnDue, StatePending},
	{StateRetry, OnCancel, StateCancelled},
	{StateRetry, OnReschedule, StateRetry},
	{StateRetry, OnReschedule, StatePending},
	{StateRetry, OnHold, StateWaiting},
	{StateRetry, OnDelete, StateNone},
	{StatePending, OnClaim, StateActive},
	{StatePending, OnCancel, StateCancelled},
	{StatePending, OnReschedule, StateScheduled},
	{StatePending, OnReschedule, StatePending},
	{StatePending, OnHold, StateWaiting},
	{StatePending, OnDelete, StateNone},
	{StateWaiting, OnArrival, StatePending},
	{StateWaiting, OnArrival, StateScheduled},
	{StateWaiting, OnArrival, StateCancelled},
	{StateWaiting, OnUnhold, StatePending},
	{StateWaiting, OnUnhold, StateScheduled},
	{StateWaiting, OnUnhold, StateRetry},
	{StateWaiting, OnCancel, StateCancelled},
	{StateWaiting, OnDelete, StateNone},
	{StateActive, OnSettle, StateCompleted},
	{StateActive, OnSettle, StateRetry},
	{StateActive, OnSettle, StatePending},
	{StateActive, OnSettle, StateDead},
	{StateActive, OnSettle, StateCancelled},
	{StateActive, OnReclaim, StateActive}, // of another worker, under a fresh lease
	{StateActive, OnRetire, StatePending},
	{StateActive, OnRetire, StateCancelled}, // if it was asked to cancel
	{StateDead, OnRedrive, StatePending},
	{StateDead, OnEdit, StateDead}, // the edit of a job in another state is no transition
	{StateDead, OnDelete, StateNone},
	{StateDead, OnPrune, StateNone},
	{StateCompleted, OnDelete, StateNone},
	{StateCompleted, OnPrune, StateNone},
	{StateCancelled, OnDelete, StateNone},
	{StateCancelled, OnPrune, StateNone},
}

// Transitions returns the whole table of legal steps.
func Transitions() []Transition { return slices.Clone(transitions) }

// steps has the transitions by the state that they lead from, since stores look one up
// with every step of a job.
var steps = func() (steps [StateWaiting + 1][]Transition) {
	for _, t := range transitions {
		steps[t.From] = append(steps[t.From], t)
	}
	return steps
}()

// Legal reports whether the table has the step.
func Legal(from State, event TransitionEvent, to State) bool {
	return int(from) < len(steps) && slices.Contains(steps[from], Transition{from, event, to})
}

// Allows reports whether the table has a step for event from a state.
func Allows(from State, event TransitionEvent) bool {
	return slices.ContainsFunc(transitions, func(t Transition) bool { return t.From == from && t.Event == event })
}
